//! Displays names without harmful characters or invalid bytes.

use std::fmt::Write;

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
    use super::*;

    #[test]
    fn names_differ_as_their_bytes_do() {
        assert_eq!(text_of("a\u{e9}".as_bytes()), "a\u{e9}");
        assert_eq!(text_of(b"\xffa\xc3"), "\\xffa\\xc3");
        assert!(is_obeyed('\u{1b}') && is_obeyed('\u{202e}') && !is_obeyed('\u{e9}'));
    }
}
