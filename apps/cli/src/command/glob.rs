//! Shell patterns for names: `*`, `?`, `[a-z]` and `[!a-z]`. A name that begins with a dot only
//! matches a pattern that also does.

/// Returns true if a name has characters that are special in patterns.
pub(super) fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|byte| b"*?[".contains(byte))
}

/// Returns true if a pattern matches all of a name. The time is at most proportional to the
/// product of both lengths.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.starts_with(b".") && !pattern.starts_with(b".") {
        return false;
    }
    let (mut rest, mut at) = (pattern, name);
    // The pattern after the last `*`, and the part of the name that the `*` doesn't cover yet.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some(after) = rest.strip_prefix(b"*") {
            rest = after;
            star = Some((after, at));
            continue;
        }
        match (one(rest, at.first().copied()), at) {
            (Some(after), [_, left @ ..]) => (rest, at) = (after, left),
            (None, []) if rest.is_empty() => return true,
            _ => match star {
                Some((after, [_, left @ ..])) => {
                    star = Some((after, left));
                    (rest, at) = (after, left);
                }
                _ => return false,
            },
        }
    }
}

/// Returns the rest of a pattern if its first character matches `byte`.
fn one(pattern: &[u8], byte: Option<u8>) -> Option<&[u8]> {
    let byte = byte?;
    match pattern {
        [b'?', after @ ..] => Some(after),
        [b'[', inside @ ..] => match set(inside) {
            Some((set, negated, after)) => (in_set(set, byte) != negated).then_some(after),
            None => (byte == b'[').then_some(inside),
        },
        [first, after @ ..] => (*first == byte).then_some(after),
        [] => None,
    }
}

/// Parses a set after its opening bracket: the content, whether it is negated, and the rest.
/// Returns `None` if the bracket is an ordinary character.
fn set(inside: &[u8]) -> Option<(&[u8], bool, &[u8])> {
    let (negated, inside) = match inside {
        [b'!' | b'^', inside @ ..] => (true, inside),
        inside => (false, inside),
    };
    // A closing bracket at the beginning belongs to the set.
    let end = inside.iter().skip(1).position(|byte| *byte == b']')? + 1;
    let (set, after) = inside.split_at_checked(end)?;
    Some((set, negated, after.get(1..)?))
}

fn in_set(set: &[u8], byte: u8) -> bool {
    match set {
        [low, b'-', high, rest @ ..] => (low..=high).contains(&&byte) || in_set(rest, byte),
        [first, rest @ ..] => *first == byte || in_set(rest, byte),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("*", "", true),
            ("*", ".a", false),
            (".*", ".a", true),
            ("*.iso", "a.iso", true),
            ("*.iso", "a.iso.part", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?", "", false),
            ("??", "ab", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[a", "[a", true),
            ("[-a]", "-", true),
            ("a", "b", false),
            ("", "", true),
        ] {
            let matched = matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(matched, expected, "{pattern} {name}");
        }
        let (pattern, name) = ("a*".repeat(100) + "b", "a".repeat(10_000));
        assert!(!matches(pattern.as_bytes(), name.as_bytes()));
        assert!(is_pattern(b"a[") && !is_pattern(b"a]"));
    }

    /// Does the same by trying everything that a `*` could cover.
    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], name) => name.is_empty(),
            ([b'*', after @ ..], name) => {
                (0..=name.len()).any(|covered| naive(after, &name[covered..]))
            }
            (pattern, [first, left @ ..]) => {
                one(pattern, Some(*first)).is_some_and(|after| naive(after, left))
            }
            _ => false,
        }
    }

    /// A fuzz target: a pattern, a zero byte, and a name.
    #[test]
    fn patterns_of_any_bytes() {
        bolero::check!().with_iterations(20_000).for_each(|input| {
            let mut parts = input.splitn(2, |byte| *byte == 0);
            let (pattern, name) = (parts.next().unwrap(), parts.next().unwrap_or_default());
            let matched = matches(pattern, name);
            if input.len() < 20 {
                let hidden = name.starts_with(b".") && !pattern.starts_with(b".");
                assert_eq!(matched, !hidden && naive(pattern, name));
            }
        });
    }
}
