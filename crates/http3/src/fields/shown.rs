//! Names for people, who may not see all characters, nor all bytes.

use std::fmt::Write;

/// True for characters that a terminal, a browser or a reader obeys, or takes for the end of a
/// line: control characters, separators of lines, marks and overrides of the direction of writing.
#[must_use]
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

/// A name as text: bytes that are not UTF-8 are escapes (`\xff`), so that names differ.
#[must_use]
pub fn text_of(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // A string takes all.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_as_their_bytes_do() {
        assert_eq!(text_of("a\u{e9}".as_bytes()), "a\u{e9}");
        assert_eq!(text_of(b"\xffa\xc3"), "\\xffa\\xc3");
        assert!(is_obeyed('\u{1b}') && is_obeyed('\u{202e}') && !is_obeyed('\u{e9}'));
    }
}
