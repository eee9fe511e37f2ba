//! Dictionaries and items of structured fields (RFC 9651), limited to the needs of this crate, and
//! two uses of them: Priority (RFC 9218), of which only the urgency is used, and the fields of
//! resumable uploads (draft-ietf-httpbis-resumable-upload-12). Values of the latter are items,
//! which are ignored if they are invalid.

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};

/// Decodes byte sequences, whose padding is optional (RFC 9651 section 4.2.7).
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The value of a member. Its parameters are validated and dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bare {
    Integer(i64),
    Bytes(Vec<u8>),
    Boolean(bool),
    /// A type that none of this crate's fields uses.
    Other,
}

/// Maximum number of members in a dictionary, including repeated keys. RFC 9651 section 3.2
/// requires parsers to support this number.
const MAX_MEMBERS: usize = 1024;

/// Parses an item. Returns `None` if it is invalid.
pub(super) fn item(input: &[u8]) -> Option<Bare> {
    let mut rest = Input(skip(input, b" "));
    let value = rest.bare()?;
    rest.parameters()?;
    skip(rest.0, b" ").is_empty().then_some(value)
}

/// Parses a dictionary in order, keeping the last member of each key. Returns `None` if it is
/// invalid or has more than 1024 members.
pub(super) fn dictionary(input: &[u8]) -> Option<Vec<(String, Bare)>> {
    let mut members: Vec<(String, Bare)> = Vec::new();
    let mut rest = Input(skip(input, b" "));
    let mut read = 0;
    while !rest.0.is_empty() {
        read += 1;
        if read > MAX_MEMBERS {
            return None;
        }
        let key = rest.key()?;
        let value = if rest.take(b'=') {
            rest.member()?
        } else {
            Bare::Other
        };
        rest.parameters()?;
        members.retain(|(known, _)| *known != key);
        members.push((key, value));
        rest.0 = skip(rest.0, b" \t");
        if rest.0.is_empty() {
            break;
        }
        if !rest.take(b',') {
            return None;
        }
        rest.0 = skip(rest.0, b" \t");
        // A trailing comma.
        if rest.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

/// Parses a dictionary, and returns its member with this key, if there is one. Returns `None` if
/// the dictionary is invalid.
pub(super) fn member(input: &[u8], key: &str) -> Option<Option<Bare>> {
    let mut members = dictionary(input)?.into_iter();
    Some(
        members
            .find(|(known, _)| known == key)
            .map(|(_, value)| value),
    )
}

fn skip<'a>(input: &'a [u8], blanks: &[u8]) -> &'a [u8] {
    let start = input.iter().position(|byte| !blanks.contains(byte));
    input
        .get(start.unwrap_or(input.len())..)
        .unwrap_or_default()
}

/// The remaining bytes to parse.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, byte: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if *first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    /// Takes the bytes up to the first one outside `class`.
    fn while_in(&mut self, class: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !class(*byte));
        let (taken, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    fn key(&mut self) -> Option<String> {
        let first = *self.0.first()?;
        if !first.is_ascii_lowercase() && first != b'*' {
            return None;
        }
        let class = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
        };
        String::from_utf8(self.while_in(class).to_vec()).ok()
    }

    /// Parses an item or an inner list.
    fn member(&mut self) -> Option<Bare> {
        if !self.take(b'(') {
            return self.bare();
        }
        loop {
            self.0 = skip(self.0, b" ");
            if self.take(b')') {
                return Some(Bare::Other);
            }
            self.bare()?;
            self.parameters()?;
            if !matches!(self.0.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.0 = skip(self.0, b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare()?;
            }
        }
        Some(())
    }

    fn bare(&mut self) -> Option<Bare> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b':' => self.bytes(),
            b'?' => {
                self.take(b'?');
                let set = self.take(b'1');
                (set || self.take(b'0')).then_some(Bare::Boolean(set))
            }
            b'@' => {
                self.take(b'@');
                matches!(self.number()?, Bare::Integer(_)).then_some(Bare::Other)
            }
            first if first.is_ascii_alphabetic() || first == b'*' => {
                let class =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
                self.while_in(class);
                Some(Bare::Other)
            }
            _ => None,
        }
    }

    /// Parses an integer with at most 15 digits, or a decimal with at most 12 digits before the
    /// point and 3 after.
    fn number(&mut self) -> Option<Bare> {
        let negative = self.take(b'-');
        let digits = self.while_in(|byte| byte.is_ascii_digit());
        if digits.is_empty() || digits.len() > 15 {
            return None;
        }
        if self.take(b'.') {
            let fraction = self.while_in(|byte| byte.is_ascii_digit());
            let fits = digits.len() <= 12 && (1..=3).contains(&fraction.len());
            return fits.then_some(Bare::Other);
        }
        let number: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        Some(Bare::Integer(if negative { -number } else { number }))
    }

    fn string(&mut self) -> Option<Bare> {
        self.take(b'"');
        loop {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            match first {
                b'"' => return Some(Bare::Other),
                b'\\' if self.take(b'"') || self.take(b'\\') => {}
                b'\\' => return None,
                0x20..=0x7e => {}
                _ => return None,
            }
        }
    }

    fn bytes(&mut self) -> Option<Bare> {
        self.take(b':');
        let encoded = self.while_in(|byte| byte != b':');
        if !self.take(b':') {
            return None;
        }
        Some(Bare::Bytes(BASE64.decode(encoded).ok()?))
    }
}

/// The urgency of a request without a Priority field.
const DEFAULT: u8 = 3;

/// Parses the urgency of a request from 0, which is most urgent, to 7. For an invalid value, it
/// returns the default (RFC 9218 section 4).
pub fn urgency<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> u8 {
    let lines: Vec<&[u8]> = lines.into_iter().collect();
    match member(&lines.join(&b", "[..]), "u").flatten() {
        Some(Bare::Integer(urgency @ 0..=7)) => u8::try_from(urgency).unwrap_or(DEFAULT),
        _ => DEFAULT,
    }
}

/// The draft's interop version, by which both sides recognize it.
pub const INTEROP_VERSION: u64 = 8;

/// The fields of a message about an upload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadFields {
    /// Upload-Complete: whether the content is the last of the upload.
    pub complete: Option<bool>,
    /// Upload-Offset: number of bytes before the content.
    pub offset: Option<u64>,
    /// Upload-Length: number of bytes in the whole upload.
    pub length: Option<u64>,
    /// Whether Upload-Draft-Interop-Version is that of this crate.
    pub same_version: bool,
}

impl UploadFields {
    /// Parses the fields. `line` must return a field's line, if the message has the field only
    /// once.
    pub fn read<'a>(line: impl Fn(&'static str) -> Option<&'a [u8]>) -> Self {
        let number = |name| match item(line(name)?)? {
            Bare::Integer(number) => u64::try_from(number).ok(),
            _ => None,
        };
        let complete = line("upload-complete").and_then(item);
        Self {
            complete: match complete {
                Some(Bare::Boolean(complete)) => Some(complete),
                _ => None,
            },
            offset: number("upload-offset"),
            length: number("upload-length"),
            same_version: number("upload-draft-interop-version") == Some(INTEROP_VERSION),
        }
    }
}

/// Formats an item of type Boolean.
pub const fn boolean(value: bool) -> &'static str {
    if value { "?1" } else { "?0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_bounded() {
        let keys = |n: usize| {
            let keys: Vec<String> = (0..n).map(|key| format!("k{key}")).collect();
            dictionary(keys.join(",").as_bytes()).map(|members| members.len())
        };
        assert_eq!(keys(MAX_MEMBERS), Some(MAX_MEMBERS));
        assert_eq!(keys(MAX_MEMBERS + 1), None);
        let repeated = ["a"; MAX_MEMBERS + 1].join(",");
        assert_eq!(dictionary(repeated.as_bytes()), None);
    }

    #[test]
    fn members_of_every_type_are_read() {
        let members = dictionary(
            b"  a=1, b=:aGVsbG8=:;q=\"x\\\"\" ,\tc, d=(1 \"two\";p tok) ,\
              e=?1,f=-2.5,g=*/x, h=@7,a=-3",
        );
        let expected = [
            ("b", Bare::Bytes(b"hello".to_vec())),
            ("c", Bare::Other),
            ("d", Bare::Other),
            ("e", Bare::Boolean(true)),
            ("f", Bare::Other),
            ("g", Bare::Other),
            ("h", Bare::Other),
            ("a", Bare::Integer(-3)),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value));
        assert_eq!(members, Some(expected.to_vec()));
        assert_eq!(dictionary(b""), Some(Vec::new()));
        let bare = dictionary(b"b=:aGVsbG8:").unwrap();
        assert_eq!(bare, [("b".to_owned(), Bare::Bytes(b"hello".to_vec()))]);
    }

    #[test]
    fn items_are_read() {
        assert_eq!(item(b" 7;a=1 "), Some(Bare::Integer(7)));
        assert_eq!(item(b"?0"), Some(Bare::Boolean(false)));
        for bad in ["", "?", "?2", "1, 2", "1 2", "a=1=", "?1x"] {
            assert_eq!(item(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn what_is_outside_the_grammar_is_refused() {
        let bad = r#"A=1|1=1|a=|a=1,|a=1 b=2|a=:a|a=:*:|a="x|a="\x"|a=(1|a=(1"x")|a=?2|a=1."#;
        let more = "a=1234567890123456|a=1.1234|a;=1|a=@1.5|a,,b|,a|a=é|a=--1";
        for bad in bad.split('|').chain(more.split('|')) {
            assert_eq!(dictionary(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn urgencies_are_between_zero_and_seven() {
        for (value, expected) in [
            ("", 3),
            ("u=0", 0),
            ("u=7, i", 7),
            ("i", 3),
            ("u=8", 3),
            ("u=-1", 3),
            ("u=a", 3),
            ("u=1, u=2", 2),
            ("u=", 3),
        ] {
            assert_eq!(urgency([value.as_bytes()]), expected, "{value}");
        }
        assert_eq!(urgency([]), 3);
        assert_eq!(urgency([&b"u=1"[..], b"i"]), 1);
    }

    #[test]
    fn fields_outside_the_grammar_are_ignored() {
        let read = |complete: &'static str, offset: &'static str| {
            UploadFields::read(|name| match name {
                "upload-complete" => Some(complete.as_bytes()),
                "upload-offset" => Some(offset.as_bytes()),
                "upload-draft-interop-version" => Some(b"8"),
                _ => None,
            })
        };
        let fields = read("?1", "7");
        assert_eq!((fields.complete, fields.offset), (Some(true), Some(7)));
        assert!(fields.same_version && fields.length.is_none());
        for (complete, offset) in [("1", "-1"), ("?2", "1.5"), ("?0, ?1", "?1"), ("", "")] {
            let fields = read(complete, offset);
            assert_eq!((fields.complete, fields.offset), (None, None), "{complete}");
        }
    }
}
