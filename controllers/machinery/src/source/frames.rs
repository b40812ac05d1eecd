//! Cuts a watch's body into frames, whatever pieces it arrives in (HTTP/2: at most 8 KB).

use model::Format;

/// Reads frames of either format out of a stream of chunks.
#[derive(Debug)]
pub struct Frames {
    format: Format,
    /// A frame longer than this is refused.
    limit: usize,
    buffer: Vec<u8>,
    /// Where in `buffer` the first frame that was not handed out begins.
    start: usize,
    /// JSON: up to where `buffer` was searched for a line's end. Never before `start`.
    searched: usize,
}

/// A frame longer than allowed; nothing more can be read from this stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameTooLong {
    /// What is allowed.
    pub limit: usize,
}

/// An object is limited to 1.5 MiB by etcd's default; JSON makes that larger, an operator's flag may too.
pub const FRAME_LIMIT: usize = 16 << 20;

/// A buffer that one large object has made larger than this is given back once it is empty.
const KEEP: usize = 256 << 10;

/// The length before a protobuf frame (upstream `k8s.io/apimachinery/pkg/util/framer` `lengthDelimitedFrameReader`).
const PREFIX: usize = 4;

// === impl Frames ===

impl Frames {
    /// For one stream.
    pub fn new(format: Format, limit: usize) -> Self {
        Self { format, limit, buffer: Vec::new(), start: 0, searched: 0 }
    }

    /// Takes the next piece of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP {
            self.buffer = Vec::new();
        }
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole frame, if there is one.
    pub fn frame(&mut self) -> Result<Option<&[u8]>, FrameTooLong> {
        let frame = match self.format {
            Format::Json => self.line()?,
            Format::Protobuf => self.delimited()?,
        };
        Ok(frame.and_then(|(from, to)| self.buffer.get(from..to)))
    }

    /// Whether the stream's end here would cut a frame off.
    pub fn is_partial(&self) -> bool {
        self.start < self.buffer.len()
    }

    fn line(&mut self) -> Result<Option<(usize, usize)>, FrameTooLong> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(length) = memchr::memchr(b'\n', unsearched) else {
                self.searched = self.buffer.len();
                return if self.searched - self.start > self.limit { Err(FrameTooLong { limit: self.limit }) } else { Ok(None) };
            };
            let (from, to) = (self.start, self.searched + length);
            self.start = to + 1;
            self.searched = self.start;
            if to - from > self.limit {
                return Err(FrameTooLong { limit: self.limit });
            }
            let line = self.buffer.get(from..to).unwrap_or_default();
            if !line.trim_ascii().is_empty() {
                return Ok(Some((from, to)));
            }
        }
    }

    fn delimited(&mut self) -> Result<Option<(usize, usize)>, FrameTooLong> {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
        if length > self.limit {
            return Err(FrameTooLong { limit: self.limit });
        }
        if rest.len() < length {
            return Ok(None);
        }
        let from = self.start + PREFIX;
        self.start = from + length;
        self.searched = self.start;
        Ok(Some((from, from + length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn delimited(frames: &[Vec<u8>]) -> Vec<u8> {
        frames.iter().flat_map(|frame| [&(frame.len() as u32).to_be_bytes()[..], frame].concat()).collect()
    }

    fn lines(frames: &[Vec<u8>]) -> Vec<u8> {
        frames.iter().flat_map(|frame| [frame, &b"\n"[..]].concat()).collect()
    }

    /// Reads a stream that arrives in pieces of the given sizes, over and over.
    fn read(format: Format, stream: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
        let mut frames = Frames::new(format, 1000);
        let mut read = Vec::new();
        let mut rest = stream;
        for size in sizes.iter().cycle() {
            let (chunk, after) = rest.split_at((*size).min(rest.len()));
            rest = after;
            frames.push(chunk);
            while let Some(frame) = frames.frame().unwrap() {
                read.push(frame.to_vec());
            }
            if rest.is_empty() {
                assert!(!frames.is_partial());
                return read;
            }
        }
        unreachable!()
    }

    #[test]
    fn half_a_line_waits_for_the_other_half() {
        let mut frames = Frames::new(Format::Json, 100);
        frames.push(b"{\"a\":1}\n{\"b\"");
        assert_eq!(frames.frame().unwrap(), Some(&b"{\"a\":1}"[..]));
        assert_eq!(frames.frame().unwrap(), None);
        assert!(frames.is_partial());
        frames.push(b":2}");
        assert_eq!(frames.frame().unwrap(), None);
        frames.push(b"\n\r\n\n");
        assert_eq!(frames.frame().unwrap(), Some(&b"{\"b\":2}"[..]));
        assert_eq!(frames.frame().unwrap(), None, "blank lines are no frames");
    }

    #[test]
    fn half_a_length_waits_for_the_other_half() {
        let mut frames = Frames::new(Format::Protobuf, 100);
        frames.push(&[0, 0, 0]);
        assert_eq!(frames.frame().unwrap(), None);
        frames.push(&[2, 7]);
        assert_eq!(frames.frame().unwrap(), None);
        frames.push(&[8, 0, 0, 0, 0]);
        assert_eq!(frames.frame().unwrap(), Some(&[7, 8][..]));
        assert_eq!(frames.frame().unwrap(), Some(&[][..]));
        assert!(!frames.is_partial());
    }

    #[test]
    fn hostile_length_is_refused_before_anything_is_kept_for_it() {
        let mut frames = Frames::new(Format::Protobuf, 100);
        frames.push(&[0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(frames.frame(), Err(FrameTooLong { limit: 100 }));
        assert!(frames.buffer.capacity() < 100);
    }

    #[test]
    fn endless_line_is_refused_at_the_limit() {
        let mut frames = Frames::new(Format::Json, 100);
        let refused = (0..1000).find(|_| {
            frames.push(&[b'x'; 10]);
            frames.frame().is_err()
        });
        assert_eq!(refused, Some(10));
    }

    #[test]
    fn memory_of_one_large_object_is_given_back() {
        let mut frames = Frames::new(Format::Json, FRAME_LIMIT);
        frames.push(&vec![b'x'; 4 << 20]);
        frames.push(b"\n");
        assert!(frames.frame().unwrap().is_some());
        frames.push(b"{}\n");
        assert_eq!(frames.frame().unwrap(), Some(&b"{}"[..]));
        assert!(frames.buffer.capacity() <= KEEP);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_frames(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>().prop_filter("no line ends", |b| *b != b'\n'), 0..60), 1..20),
            sizes in prop::collection::vec(1_usize..50, 1..10),
        ) {
            prop_assert_eq!(&read(Format::Protobuf, &delimited(&frames), &sizes), &frames);
            let visible: Vec<_> = frames.iter().filter(|frame| !frame.trim_ascii().is_empty()).cloned().collect();
            prop_assert_eq!(&read(Format::Json, &lines(&frames), &sizes), &visible);
        }

        #[test]
        fn hostile_bytes_never_panic_nor_pile_up(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..40),
            json in any::<bool>(),
        ) {
            let mut frames = Frames::new(if json { Format::Json } else { Format::Protobuf }, 64);
            'stream: for chunk in chunks {
                frames.push(&chunk);
                loop {
                    match frames.frame() {
                        Ok(Some(frame)) => prop_assert!(frame.len() <= 64),
                        Ok(None) => break,
                        Err(_) => break 'stream,
                    }
                }
                prop_assert!(frames.buffer.len() <= 64 + 40 + PREFIX);
            }
        }
    }
}
