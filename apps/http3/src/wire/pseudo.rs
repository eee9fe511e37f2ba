//! Checks a request's pseudo-header fields, which come once each and before all other fields (RFC
//! 9114 section 4.3).
//!
//! `h3` 0.0.8 takes the last of several, for which a proxy in front of this server may have checked
//! the first. Only names are read here: `h3` decodes the section and rejects what is invalid.

/// The names of pseudo-header fields.
const NAMES: [&str; 6] = [
    ":authority",
    ":path",
    ":method",
    ":scheme",
    ":status",
    ":protocol",
];

/// The letters of these names in the Huffman code: code, number of bits, letter (RFC 7541 appendix
/// B).
const LETTERS: [(u8, u8, u8); 16] = [
    (0b101_1100, 7, b':'),
    (0b0_0011, 5, b'a'),
    (0b0_0100, 5, b'c'),
    (0b10_0100, 6, b'd'),
    (0b0_0101, 5, b'e'),
    (0b10_0111, 6, b'h'),
    (0b0_0110, 5, b'i'),
    (0b10_1000, 6, b'l'),
    (0b10_1001, 6, b'm'),
    (0b0_0111, 5, b'o'),
    (0b10_1011, 6, b'p'),
    (0b10_1100, 6, b'r'),
    (0b0_1000, 5, b's'),
    (0b0_1001, 5, b't'),
    (0b10_1101, 6, b'u'),
    (0b111_1010, 7, b'y'),
];

/// Returns false if the field section has a pseudo-header field twice or after another field.
pub(super) fn is_well_formed(section: &[u8]) -> bool {
    let (mut seen, mut has_fields) = ([false; NAMES.len()], false);
    for name in names(section) {
        match name.and_then(|name| seen.get_mut(name)) {
            Some(seen) if *seen || has_fields => return false,
            Some(seen) => *seen = true,
            None => has_fields = true,
        }
    }
    true
}

/// Returns true if the field section has a pseudo-header field. A trailer section has none.
pub(super) fn is_with_pseudo(section: &[u8]) -> bool {
    names(section).any(|name| name.is_some())
}

/// Returns for each field line the place of its name in [`NAMES`], if it is there.
fn names(section: &[u8]) -> impl Iterator<Item = Option<usize>> {
    // Required Insert Count and Base (RFC 9204 section 4.5.1).
    let begin = integer(section, 8).and_then(|(_, rest)| integer(rest, 7));
    let mut rest = begin.map_or(&[][..], |(_, rest)| rest);
    std::iter::from_fn(move || {
        let (name, after) = line(rest)?;
        rest = after;
        Some(name)
    })
}

/// Reads a field line (RFC 9204 section 4.5). Returns its place in [`NAMES`], if it is there, and
/// the bytes after the line.
fn line(bytes: &[u8]) -> Option<(Option<usize>, &[u8])> {
    let first = *bytes.first()?;
    // Nothing of the dynamic table is ever used, because this side allows none.
    if first & 0x80 != 0 {
        let (index, rest) = integer(bytes, 6)?;
        Some((in_static_table(index), rest))
    } else if first & 0x40 != 0 {
        let (index, rest) = integer(bytes, 4)?;
        Some((in_static_table(index), string(rest, 7)?.1))
    } else if first & 0x20 != 0 {
        let (name, rest) = string(bytes, 3)?;
        let place = if first & 0x08 != 0 {
            let name = decoded(name);
            NAMES.iter().position(|known| known.as_bytes() == name)
        } else {
            NAMES.iter().position(|known| known.as_bytes() == name)
        };
        Some((place, string(rest, 7)?.1))
    } else {
        None
    }
}

/// Returns the place in [`NAMES`] of an entry of the static table (RFC 9204 appendix A).
fn in_static_table(index: u64) -> Option<usize> {
    match index {
        0 => Some(0),
        1 => Some(1),
        15..=21 => Some(2),
        22..=23 => Some(3),
        24..=28 | 63..=71 => Some(4),
        _ => None,
    }
}

/// Decodes a name until a letter that is in none of [`NAMES`], or the padding.
fn decoded(name: &[u8]) -> Vec<u8> {
    let (mut letters, mut code, mut bits) = (Vec::new(), 0, 0);
    for bit in name
        .iter()
        .flat_map(|byte| (0..8).map(move |at| byte >> (7 - at) & 1))
    {
        (code, bits) = (code << 1 | bit, bits + 1);
        let found = LETTERS
            .iter()
            .find(|(of, length, _)| (*of, *length) == (code, bits));
        match found {
            Some((_, _, letter)) => {
                letters.push(*letter);
                (code, bits) = (0, 0);
            }
            None if bits > 7 => {
                letters.push(0);
                break;
            }
            None => {}
        }
    }
    letters
}

/// Reads a string whose length has a prefix of `bits`, without the flag in front of it.
fn string(bytes: &[u8], bits: u8) -> Option<(&[u8], &[u8])> {
    let (length, rest) = integer(bytes, bits)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// Reads an integer with a prefix of `bits` (RFC 9204 section 4.1.1).
fn integer(bytes: &[u8], bits: u8) -> Option<(u64, &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let most = (1_u64 << bits) - 1;
    let mut value = u64::from(*first) & most;
    if value < most {
        return Some((value, rest));
    }
    for shift in (0..56).step_by(7) {
        let (byte, after) = rest.split_first()?;
        value += u64::from(byte & 0x7f) << shift;
        rest = after;
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `:method: GET`, `:scheme: https`, `:authority: a`, `:path: /`.
    const HEAD: &[u8] = b"\0\0\xd1\xd7\x50\x01a\xc1";

    #[test]
    fn pseudo_header_fields_come_once_and_first() {
        let path = b"\x51\x02/b";
        let plain = b"\x25:path\x02/b";
        let huffman = b"\x2c\xb9\x58\xd3\x3f\x02/b";
        let protocol = b"\x27\x02:protocol\x01p";
        let (field, known) = (b"\x21x\x01s", b"\xdd");
        for (more, expected) in [
            (&[&b""[..]][..], true),
            (&[protocol, field, known, field], true),
            (&[b"\xc1"], false),
            (&[path], false),
            (&[plain], false),
            (&[huffman], false),
            (&[protocol, protocol], false),
            (&[field, protocol], false),
            (&[known, protocol], false),
            (&[b"\xcf"], false),
            // What cannot be read is for `h3` to reject.
            (&[b"\x51\x7f/"], true),
        ] {
            let section = [HEAD, &more.concat()].concat();
            assert_eq!(is_well_formed(&section), expected, "{more:x?}");
        }
        assert!(is_well_formed(b"") && is_well_formed(b"\xff"));
    }
}
