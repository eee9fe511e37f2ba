//! Paths in request targets, whose names are percent-encoded and can contain any bytes. Displays
//! names without harmful characters or invalid bytes.

use std::fmt::Write;

/// Maximum length of a name in bytes (`NAME_MAX` of Linux).
pub const MAX_NAME: usize = 255;

/// The decoded names from the root to a resource. No name is empty, `.` or `..`, contains a NUL or
/// a slash, or is longer than [`MAX_NAME`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathName {
    /// The names, which are empty for the root.
    pub names: Vec<Vec<u8>>,
    /// Whether the path ends with a slash and therefore denotes a directory.
    pub slash: bool,
}

/// The reason why a path can't be a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path doesn't begin with a slash.
    #[error("the path does not begin with /")]
    Relative,
    /// A percent sign isn't followed by two hexadecimal digits.
    #[error("a % in the path is not followed by two hexadecimal digits; write %25 for a %")]
    Percent,
    /// A name between two slashes is empty.
    #[error("the path has an empty name between two slashes; leave one slash out")]
    Empty,
    /// A name is `.` or `..`.
    #[error("the path has a name `.` or `..`; write the path without it")]
    Dots,
    /// A name contains a NUL or an encoded slash.
    #[error("a name in the path has a NUL or a slash, which no file system allows")]
    Forbidden,
    /// A name is longer than [`MAX_NAME`].
    #[error("a name in the path is longer than {MAX_NAME} bytes, which no file system allows")]
    TooLong,
}

impl PathName {
    /// Parses the path of a request target, which must begin with a slash and exclude the query.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn parse(path: &[u8]) -> Result<Self, PathError> {
        let inside = path.strip_prefix(b"/").ok_or(PathError::Relative)?;
        if inside.is_empty() {
            return Ok(Self {
                names: Vec::new(),
                slash: true,
            });
        }
        let (inside, slash) = match inside.strip_suffix(b"/") {
            Some(before) => (before, true),
            None => (inside, false),
        };
        let names = inside.split(|byte| *byte == b'/').map(decode_name);
        let names = names.collect::<Result<_, _>>()?;
        Ok(Self { names, slash })
    }

    /// Returns the names before the last one.
    pub(crate) fn before(&self) -> &[Vec<u8>] {
        self.names.split_last().map_or(&[], |(_, before)| before)
    }

    /// Encodes the path.
    pub fn encode(&self) -> String {
        let mut path = String::new();
        for name in &self.names {
            path.push('/');
            path.push_str(&encode_name(name));
        }
        if self.slash || path.is_empty() {
            path.push('/');
        }
        path
    }
}

fn decode_name(encoded: &[u8]) -> Result<Vec<u8>, PathError> {
    // At most three bytes encode one byte.
    if encoded.len() > 3 * MAX_NAME {
        return Err(PathError::TooLong);
    }
    let name = decode_bytes(encoded)?;
    if name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Err(PathError::Forbidden);
    }
    if name.len() > MAX_NAME {
        return Err(PathError::TooLong);
    }
    match name.as_slice() {
        b"" => Err(PathError::Empty),
        b"." | b".." => Err(PathError::Dots),
        _ => Ok(name),
    }
}

/// Decodes percent-encoded text.
///
/// # Errors
/// [`PathError::Percent`].
pub fn decode_bytes(encoded: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let byte = hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low);
                (byte.ok_or(PathError::Percent)?, after)
            }
            (b'%', _) => return Err(PathError::Percent),
            (byte, after) => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    Ok(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    let digit = char::from(digit).to_digit(16)?;
    u8::try_from(digit).ok()
}

/// Percent-encodes a name, except for unreserved bytes (RFC 3986 section 2.3).
pub fn encode_name(name: &[u8]) -> String {
    encode(name, b"-._~")
}

/// Percent-encodes bytes except for slashes, for example the target of a symbolic link.
pub fn encode_bytes(bytes: &[u8]) -> String {
    encode(bytes, b"-._~/")
}

fn encode(bytes: &[u8], plain: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || plain.contains(byte) {
            text.push(char::from(*byte));
        } else {
            // Writing to a string never fails.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Returns true for characters that terminals, browsers or readers may interpret: control
/// characters, line separators, and marks or overrides of the writing direction.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// Converts a name to text. Bytes that aren't UTF-8 are escaped (`\xff`).
pub fn text_of(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string never fails.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(path: &str) -> Result<(Vec<Vec<u8>>, bool), PathError> {
        PathName::parse(path.as_bytes()).map(|path| (path.names, path.slash))
    }

    #[test]
    fn paths_are_decoded() {
        let some = |names: &[&[u8]], slash| {
            Ok((
                names.iter().map(|name| name.to_vec()).collect::<Vec<_>>(),
                slash,
            ))
        };
        assert_eq!(names("/"), some(&[], true));
        assert_eq!(names("/a"), some(&[b"a"], false));
        assert_eq!(names("/a/b%20c/"), some(&[b"a", b"b c"], true));
        assert_eq!(names("/%ff%0A%25"), some(&[b"\xff\n%"], false));
        assert_eq!(names("/..."), some(&[b"..."], false));
        assert_eq!(names("/a+b;c=1"), some(&[b"a+b;c=1"], false));
    }

    #[test]
    fn names_of_no_file_are_refused() {
        let long = "x".repeat(256);
        for (path, error) in [
            ("", PathError::Relative),
            ("a", PathError::Relative),
            ("*", PathError::Relative),
            ("/%", PathError::Percent),
            ("/%4", PathError::Percent),
            ("/%+1", PathError::Percent),
            ("//", PathError::Empty),
            ("/a//b", PathError::Empty),
            ("/.", PathError::Dots),
            ("/a/../b", PathError::Dots),
            ("/a/%2e%2E", PathError::Dots),
            ("/a%2fb", PathError::Forbidden),
            ("/a%00", PathError::Forbidden),
            (&format!("/{long}"), PathError::TooLong),
            (&format!("/{}", "%41".repeat(256)), PathError::TooLong),
        ] {
            assert_eq!(names(path), Err(error), "{path}");
        }
        assert!(names(&format!("/{}", "%41".repeat(255))).is_ok());
    }

    proptest! {
        #[test]
        fn every_name_survives(bytes in proptest::collection::vec(1..=255_u8, 1..=MAX_NAME)) {
            let allowed = !bytes.contains(&b'/') && bytes != b"." && bytes != b"..";
            let path = PathName { names: vec![bytes], slash: false };
            let parsed = PathName::parse(path.encode().as_bytes());
            prop_assert!(!allowed || parsed == Ok(path));
        }
    }

    #[test]
    fn names_differ_as_their_bytes_do() {
        assert_eq!(text_of("a\u{e9}".as_bytes()), "a\u{e9}");
        assert_eq!(text_of(b"\xffa\xc3"), "\\xffa\\xc3");
        assert!(is_obeyed('\u{1b}') && is_obeyed('\u{202e}') && !is_obeyed('\u{e9}'));
    }
}
