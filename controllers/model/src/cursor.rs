//! A way through JSON text that is known to be well-formed.

use std::borrow::Cow;

/// How deep values may be nested: as deep as `serde_json` reads.
pub(crate) const MAX_DEPTH: usize = 128;

/// What is still to be read. Reads tokens as they are spelled, which serde's data model does not keep; says `None` where a token is not
/// what was asked for.
pub(crate) struct Cursor<'a> {
    /// Without leading white space.
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { rest: text.trim_ascii_start() }
    }

    /// The first byte of the next token.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.bytes().next()
    }

    /// Goes past a byte, if it is the next one.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        self.peek() == Some(byte) && self.take(1).is_some()
    }

    /// Goes past the comma, if any, and past the end of an object or a list; whether there is one more member before that.
    pub(crate) fn has_next(&mut self, end: u8) -> bool {
        self.eat(b',');
        !self.eat(end)
    }

    /// A string, unescaped.
    pub(crate) fn string(&mut self) -> Option<Cow<'a, str>> {
        let token = self.string_token()?;
        if token.contains('\\') {
            return serde_json::from_str(token).ok().map(Cow::Owned);
        }
        token.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed)
    }

    /// A string as it is spelled, its quotes included.
    pub(crate) fn string_token(&mut self) -> Option<&'a str> {
        let mut end = 1;
        loop {
            let bytes = self.rest.as_bytes().get(end..)?;
            let at = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            if bytes.get(at) == Some(&b'"') {
                return self.take(end + at + 1);
            }
            end += at + 2;
        }
    }

    /// A number, a boolean or null.
    pub(crate) fn scalar(&mut self) -> Option<&'a str> {
        let end = self.rest.bytes().position(|byte| !matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'E' | b'.' | b'-' | b'+'));
        self.take(end.unwrap_or(self.rest.len()))
    }

    /// A whole value.
    pub(crate) fn value(&mut self) -> Option<&'a str> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<&serde_json::value::RawValue>();
        let value = values.next()?.ok()?.get();
        self.take(value.len())
    }

    fn take(&mut self, length: usize) -> Option<&'a str> {
        let (token, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest.trim_ascii_start();
        Some(token)
    }
}
