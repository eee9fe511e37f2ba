//! Priority (RFC 9218), of which only the urgency is used.

use super::structured::{Bare, dictionary};

/// The urgency of a request without a Priority field.
const DEFAULT: u8 = 3;

/// Parses the urgency of a request from 0, which is most urgent, to 7. For an invalid value, it
/// returns the default (RFC 9218 section 4).
pub fn urgency<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> u8 {
    let lines: Vec<&[u8]> = lines.into_iter().collect();
    let members = dictionary(&lines.join(&b", "[..])).unwrap_or_default();
    let urgency = members.into_iter().find(|(key, _)| key == "u");
    match urgency {
        Some((_, Bare::Integer(urgency @ 0..=7))) => u8::try_from(urgency).unwrap_or(DEFAULT),
        _ => DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
