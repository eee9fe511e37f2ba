//! Entity tags (RFC 9110 section 8.8.3) and their lists (sections 13.1.1 and 13.1.2).

use std::fmt;

use super::{BadField, trim};

/// An entity tag. Its opaque part excludes the quotation marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityTag {
    weak: bool,
    opaque: String,
}

/// The value of If-Match or If-None-Match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagList {
    /// `*`, which matches any existing representation.
    Any,
    /// These tags, of which there may be none.
    Tags(Vec<EntityTag>),
}

impl EntityTag {
    /// Creates a tag whose opaque part is hexadecimal, so that its characters are always valid.
    pub(crate) fn from_hash(weak: bool, hash: &[u8]) -> Self {
        let opaque = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { weak, opaque }
    }

    /// Parses a field value with one tag, `"opaque"` or `W/"opaque"`. Tags with bytes above 127
    /// are rejected, because this crate's origin never creates them.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (tag, rest) = Self::parse_prefix(trim(value))?;
        rest.is_empty().then_some(tag)
    }

    /// Parses a tag at the beginning of `value`, and also returns the rest.
    fn parse_prefix(value: &[u8]) -> Option<(Self, &[u8])> {
        let (weak, quoted) = match value.strip_prefix(b"W/") {
            Some(rest) => (true, rest),
            None => (false, value),
        };
        let inside = quoted.strip_prefix(b"\"")?;
        let end = inside.iter().position(|byte| *byte == b'"')?;
        let (opaque, rest) = inside.split_at_checked(end)?;
        let allowed = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x7e);
        if !opaque.iter().all(allowed) {
            return None;
        }
        let opaque = String::from_utf8(opaque.to_vec()).ok()?;
        Some((Self { weak, opaque }, rest.strip_prefix(b"\"")?))
    }

    /// Returns true unless the tag begins with `W/`.
    pub const fn is_strong(&self) -> bool {
        !self.weak
    }

    /// Compares strongly (RFC 9110 section 8.8.3.2).
    pub fn matches_strongly(&self, other: &Self) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Compares weakly.
    pub fn matches_weakly(&self, other: &Self) -> bool {
        self.opaque == other.opaque
    }
}

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.weak { "W/" } else { "" };
        write!(f, "{prefix}\"{}\"", self.opaque)
    }
}

impl TagList {
    /// Parses all lines of the field `field`. Returns `None` if there are none.
    ///
    /// # Errors
    /// [`BadField`].
    pub fn parse<'a>(
        field: &'static str,
        lines: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Option<Self>, BadField> {
        let mut tags = Vec::new();
        let (mut any, mut count) = (false, 0_usize);
        for line in lines {
            count += 1;
            if trim(line) == b"*" {
                any = true;
            } else {
                Self::parse_line(line, &mut tags).ok_or(BadField(field))?;
            }
        }
        match (any, count) {
            (_, 0) => Ok(None),
            (true, 1) => Ok(Some(Self::Any)),
            (true, _) => Err(BadField(field)),
            (false, _) => Ok(Some(Self::Tags(tags))),
        }
    }

    /// Parses one line of tags separated by commas, where elements can be empty.
    fn parse_line(line: &[u8], tags: &mut Vec<EntityTag>) -> Option<()> {
        let mut rest = trim(line);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix(b",") {
                rest = trim(after);
                continue;
            }
            let (tag, after) = EntityTag::parse_prefix(rest)?;
            tags.push(tag);
            rest = trim(after);
            if !rest.is_empty() && !rest.starts_with(b",") {
                return None;
            }
        }
        Some(())
    }

    /// Returns true if If-Match with this value holds for a resource's tag, which is `None` if
    /// the resource doesn't exist.
    pub fn holds_strongly(&self, tag: Option<&EntityTag>) -> bool {
        match (self, tag) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::Tags(tags), Some(tag)) => tags.iter().any(|listed| listed.matches_strongly(tag)),
        }
    }

    /// Returns true if any tag in the list matches weakly, so that If-None-Match fails.
    pub fn has_weakly(&self, tag: Option<&EntityTag>) -> bool {
        match (self, tag) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::Tags(tags), Some(tag)) => tags.iter().any(|listed| listed.matches_weakly(tag)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(lines: &[&str]) -> Result<Option<TagList>, BadField> {
        TagList::parse("If-Match", lines.iter().map(|line| line.as_bytes()))
    }

    #[test]
    fn tags_are_read_and_written() {
        for (text, strong) in [
            ("\"xyzzy\"", true),
            ("W/\"xyzzy\"", false),
            ("\"\"", true),
            ("\"a,b\"", true),
        ] {
            let tag = EntityTag::parse(text.as_bytes()).unwrap();
            assert_eq!((tag.is_strong(), tag.to_string().as_str()), (strong, text));
        }
        for text in [
            "",
            "xyzzy",
            "\"a",
            "w/\"a\"",
            "\"a\"b",
            "\"a b\"",
            "\"\u{e9}\"",
            "*",
        ] {
            assert_eq!(EntityTag::parse(text.as_bytes()), None, "{text}");
        }
    }

    /// The table in RFC 9110 section 8.8.3.2.
    #[test]
    fn comparison_follows_the_table_of_the_rfc() {
        for (one, other, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            let one = EntityTag::parse(one.as_bytes()).unwrap();
            let other = EntityTag::parse(other.as_bytes()).unwrap();
            assert_eq!(one.matches_strongly(&other), strong);
            assert_eq!(one.matches_weakly(&other), weak);
        }
    }

    #[test]
    fn lists_may_be_spread_over_lines() {
        assert_eq!(list(&[]), Ok(None));
        assert_eq!(list(&[" * "]), Ok(Some(TagList::Any)));
        let Ok(Some(TagList::Tags(tags))) = list(&["\"a\" , W/\"b,c\",,", ",\"d\""]) else {
            panic!("it is a list");
        };
        let tags: Vec<_> = tags.iter().map(ToString::to_string).collect();
        assert_eq!(tags, ["\"a\"", "W/\"b,c\"", "\"d\""]);
        for bad in [&["*", "\"a\""][..], &["a"], &["\"a\" \"b\""], &["\"a\", *"]] {
            assert!(list(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn lists_hold_or_fail() {
        let tag = EntityTag::parse(b"\"a\"").unwrap();
        let weak = EntityTag::parse(b"W/\"a\"").unwrap();
        let tags = TagList::Tags(vec![tag.clone()]);
        assert!(tags.holds_strongly(Some(&tag)) && tags.has_weakly(Some(&tag)));
        assert!(!tags.holds_strongly(Some(&weak)) && tags.has_weakly(Some(&weak)));
        assert!(!TagList::Any.holds_strongly(None) && TagList::Any.holds_strongly(Some(&weak)));
        assert!(!TagList::Any.has_weakly(None) && TagList::Any.has_weakly(Some(&weak)));
    }
}
