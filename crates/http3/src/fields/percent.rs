//! Paths of request targets: names of any bytes, percent-encoded.

use std::fmt::Write;

/// Bytes of a name at most (`NAME_MAX` of Linux).
pub const MAX_NAME: usize = 255;

/// Names from the root to a resource, decoded. None of them is empty, `.` or `..`, has a NUL or a
/// slash, or is longer than [`MAX_NAME`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathName {
    /// The names; none for the root itself.
    pub names: Vec<Vec<u8>>,
    /// The path ends with a slash, so that it means a directory.
    pub slash: bool,
}

/// A path that is the name of no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path does not begin with a slash.
    #[error("the path does not begin with /")]
    Relative,
    /// A percent sign without two hexadecimal digits.
    #[error("a % in the path is not followed by two hexadecimal digits; write %25 for a %")]
    Percent,
    /// An empty name between two slashes.
    #[error("the path has an empty name between two slashes; leave one slash out")]
    Empty,
    /// A name `.` or `..`.
    #[error("the path has a name `.` or `..`; write the path without it")]
    Dots,
    /// A NUL or an encoded slash in a name.
    #[error("a name in the path has a NUL or a slash, which no file system allows")]
    Forbidden,
    /// A name longer than [`MAX_NAME`].
    #[error("a name in the path is longer than {MAX_NAME} bytes, which no file system allows")]
    TooLong,
}

impl PathName {
    /// The path of a request target, which begins with a slash. A query is no part of it.
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

    /// The path in its percent-encoded form.
    #[must_use]
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
    // Three bytes at most stand for one.
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

/// The bytes of a percent-encoded text.
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

/// A name in percent-encoded form: every byte that is not unreserved (RFC 3986 section 2.3) is
/// encoded.
#[must_use]
pub fn encode_name(name: &[u8]) -> String {
    encode(name, b"-._~")
}

/// Bytes in percent-encoded form with slashes as they are: the target of a symbolic link.
#[must_use]
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
}
