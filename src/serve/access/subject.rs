//! The names in a certificate's subject. What is read here has been verified before.

use rustls::pki_types::CertificateDer;

/// What a certificate says of its owner.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// `CN`; the last, as in Go.
    pub(super) common_name: String,
    /// `O`.
    pub(super) organizations: Vec<String>,
    /// The attribute 1.3.6.1.4.1.57683.2, which holds a user's UID (apimachinery `pkg/apis/asn1`).
    pub(super) uids: Vec<String>,
}

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];

const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const NUMERIC_STRING: u8 = 0x12;
const PRINTABLE_STRING: u8 = 0x13;
const T61_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const BMP_STRING: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

// === impl Subject ===

impl Subject {
    /// Reads a certificate's subject; `None` if it is not as it should be.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
        Self::read(certificate.subject())
    }

    /// Reads the inside of a `Name`: a sequence of sets of sequences of an identifier and a text.
    fn read(mut name: &[u8]) -> Option<Self> {
        let mut subject = Self::default();
        while !name.is_empty() {
            let mut set = take(&mut name, SET)?;
            while !set.is_empty() {
                let mut attribute = take(&mut set, SEQUENCE)?;
                let identifier = take(&mut attribute, OBJECT_IDENTIFIER)?;
                let (tag, value) = next(&mut attribute)?;
                match identifier {
                    COMMON_NAME => subject.common_name = text(tag, value)?,
                    ORGANIZATION => subject.organizations.push(text(tag, value)?),
                    UID => subject.uids.push(text(tag, value)?),
                    _ => {}
                }
            }
        }
        Some(subject)
    }
}

/// The next element, which must have this tag.
fn take<'a>(rest: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    next(rest).filter(|(found, _)| *found == tag).map(|(_, value)| value)
}

/// The next element: its tag and what is in it.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let [tag, length, tail @ ..] = *rest else { return None };
    let (length, tail) = if *length < 0x80 {
        (usize::from(*length), tail)
    } else {
        // Two bytes of length are more than any name has.
        let (bytes, tail) = tail.split_at_checked(usize::from(*length & 0x7f)).filter(|(bytes, _)| (1..=2).contains(&bytes.len()))?;
        (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), tail)
    };
    let (value, tail) = tail.split_at_checked(length)?;
    *rest = tail;
    Some((*tag, value))
}

/// Go's `parseASN1String`.
fn text(tag: u8, value: &[u8]) -> Option<String> {
    match tag {
        UTF8_STRING | NUMERIC_STRING | PRINTABLE_STRING | IA5_STRING => String::from_utf8(value.to_vec()).ok(),
        T61_STRING => Some(value.iter().map(|byte| char::from(*byte)).collect()),
        BMP_STRING => {
            let (pairs, []) = value.as_chunks::<2>() else { return None };
            String::from_utf16(&pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect::<Vec<_>>()).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    #[test]
    fn names_are_read_whatever_their_type() {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Änne");
        params
            .distinguished_name
            .push(DnType::OrganizationName, DnValue::PrintableString("system:masters".replace(':', "-").try_into().unwrap()));
        params.distinguished_name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "some-uid");
        params.distinguished_name.push(DnType::CountryName, "NO");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let subject = Subject::of(certificate.der()).unwrap();
        assert_eq!(subject.common_name, "Änne");
        assert_eq!(subject.organizations, ["system-masters"]);
        assert_eq!(subject.uids, ["some-uid"]);
    }

    #[test]
    fn long_names_and_broken_ones() {
        let long = "n".repeat(300);
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, long.as_str());
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(Subject::of(certificate.der()).unwrap().organizations, [long]);
        for broken in [&[0x31, 0x05, 0x30][..], &[0x31, 0x84, 1, 1, 1, 1], &[0x30, 0x00], &[0x31, 0x02, 0x30, 0x10]] {
            assert_eq!(Subject::read(broken), None, "{broken:?}");
        }
    }
}
