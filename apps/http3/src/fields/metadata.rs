//! Metadata of a file: entity tags (RFC 9110 section 8.8.3) and their lists (sections 13.1.1 and
//! 13.1.2), Repr-Digest and Want-Repr-Digest (RFC 9530) with `sha-256`, and its attributes.
//!
//! By `pathmark-attributes`, a client of this project sets the attributes of a stored file, link
//! or directory: `mode=420, time=1700000000, nanoseconds=5, link=:Li4veA==:`. For a sparse file,
//! `data=8192` is the number of bytes that it takes on disk. All members are optional, and others
//! are ignored.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::structured::{Bare, dictionary, member};
use super::{BadField, split_once, trim};

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
        let (opaque, rest) = split_once(inside, b'"')?;
        let allowed = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x7e);
        if !opaque.iter().all(allowed) {
            return None;
        }
        let opaque = String::from_utf8(opaque.to_vec()).ok()?;
        Some((Self { weak, opaque }, rest))
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
        self.has(tag, EntityTag::matches_strongly)
    }

    /// Returns true if any tag in the list matches weakly, so that If-None-Match fails.
    pub fn has_weakly(&self, tag: Option<&EntityTag>) -> bool {
        self.has(tag, EntityTag::matches_weakly)
    }

    fn has(&self, tag: Option<&EntityTag>, matches: fn(&EntityTag, &EntityTag) -> bool) -> bool {
        match (self, tag) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::Tags(tags), Some(tag)) => tags.iter().any(|listed| matches(listed, tag)),
        }
    }
}

/// This crate's algorithm, as named in digest fields.
const SHA_256: &str = "sha-256";

/// The SHA-256 of a whole representation.
pub type Sha256Digest = [u8; 32];

/// Joins all lines of a field into one list.
fn joined<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut all = Vec::new();
    for line in lines {
        if !all.is_empty() {
            all.extend_from_slice(b", ");
        }
        all.extend_from_slice(line);
    }
    all
}

/// Parses the `sha-256` member of Repr-Digest or Content-Digest. Returns `None` if it is missing.
///
/// # Errors
/// [`BadField`], if the value is invalid or the digest doesn't have 32 bytes.
pub fn sha256_digest<'a>(
    field: &'static str,
    lines: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Option<Sha256Digest>, BadField> {
    match member(&joined(lines), SHA_256).ok_or(BadField(field))? {
        None => Ok(None),
        Some(Bare::Bytes(bytes)) => bytes.try_into().map(Some).map_err(|_| BadField(field)),
        Some(_) => Err(BadField(field)),
    }
}

/// Parses the preference for `sha-256` in Want-Repr-Digest: 1 to 10, or 0 if it isn't wanted.
/// Because the field is only a hint, an invalid value is treated as 0.
pub fn sha256_preference<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> u8 {
    match member(&joined(lines), SHA_256).flatten() {
        Some(Bare::Integer(wish @ 1..=10)) => u8::try_from(wish).unwrap_or(0),
        _ => 0,
    }
}

/// Formats a value of Repr-Digest.
pub fn sha256_field(digest: &Sha256Digest) -> String {
    format!("{SHA_256}=:{}:", STANDARD.encode(digest))
}

/// Maximum length of a link's target in bytes (`PATH_MAX` of Linux).
const MAX_TARGET: usize = 4095;

/// The value of the field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributesField {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The modification time: seconds since the Unix epoch, and nanoseconds after this second.
    pub modified: Option<(i64, u32)>,
    /// The target, if it is a symbolic link.
    pub link: Option<Vec<u8>>,
    /// How many bytes of a sparse file aren't holes, as far as its client can tell.
    pub data: Option<u64>,
}

impl AttributesField {
    /// Parses all lines of the field. Returns `None` if there is none.
    ///
    /// # Errors
    /// [`BadField`].
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Self>, BadField> {
        let lines: Vec<&[u8]> = lines.into_iter().collect();
        if lines.is_empty() {
            return Ok(None);
        }
        Self::read(&lines.join(&b", "[..]))
            .map(Some)
            .ok_or(BadField("pathmark-attributes"))
    }

    fn read(value: &[u8]) -> Option<Self> {
        let (mut field, mut seconds, mut nanoseconds) = (Self::default(), None, 0);
        for (key, value) in dictionary(value)? {
            match (key.as_str(), value) {
                ("mode", Bare::Integer(mode @ 0..=0o7777)) => {
                    field.mode = Some(u32::try_from(mode).ok()?);
                }
                ("time", Bare::Integer(time)) => seconds = Some(time),
                ("nanoseconds", Bare::Integer(part @ 0..=999_999_999)) => {
                    nanoseconds = u32::try_from(part).ok()?;
                }
                ("link", Bare::Bytes(target))
                    if (1..=MAX_TARGET).contains(&target.len()) && !target.contains(&0) =>
                {
                    field.link = Some(target);
                }
                ("data", Bare::Integer(bytes @ 0..)) => field.data = Some(bytes.unsigned_abs()),
                ("mode" | "time" | "nanoseconds" | "link" | "data", _) => return None,
                _ => {}
            }
        }
        field.modified = seconds.map(|seconds| (seconds, nanoseconds));
        Some(field)
    }

    /// Formats the field's value.
    pub fn write(&self) -> String {
        let mode = self.mode.map(|mode| format!("mode={mode}"));
        let time = self
            .modified
            .map(|(seconds, part)| format!("time={seconds}, nanoseconds={part}"));
        let link = self.link.as_ref();
        let link = link.map(|target| format!("link=:{}:", STANDARD.encode(target)));
        let data = self.data.map(|bytes| format!("data={bytes}"));
        let members: Vec<_> = [mode, time, link, data].into_iter().flatten().collect();
        members.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

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
        for text in r#"|xyzzy|"a|w/"a"|"a"b|"a b"|"é"|*"#.split('|') {
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

    fn read(lines: &[&str]) -> Result<Option<Sha256Digest>, BadField> {
        sha256_digest("Repr-Digest", lines.iter().map(|line| line.as_bytes()))
    }

    /// The example in RFC 9530 appendix B.1.
    #[test]
    fn the_example_of_the_rfc_is_written_and_read() {
        let digest: Sha256Digest = Sha256::digest(b"{\"hello\": \"world\"}\n").into();
        let field = sha256_field(&digest);
        let written = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
        assert_eq!(field, written);
        assert_eq!(read(&[&field]), Ok(Some(digest)));
        assert_eq!(read(&["sha-512=:AA==:", &field]), Ok(Some(digest)));
    }

    #[test]
    fn absent_and_broken_digests_differ() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["sha-512=:AA==:"]), Ok(None));
        for bad in "sha-256=:AA==: sha-256 sha-256=7 sha-256=: SHA-256=:AA==:".split(' ') {
            assert!(read(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn wishes_are_between_one_and_ten() {
        for (value, wish) in [
            ("sha-256=10", 10),
            ("sha-512=3, sha-256=1", 1),
            ("sha-256=0", 0),
            ("sha-256=11", 0),
            ("sha-256", 0),
            ("sha-512=3", 0),
            ("=", 0),
            ("", 0),
        ] {
            assert_eq!(sha256_preference([value.as_bytes()]), wish, "{value}");
        }
    }

    fn parse(line: &str) -> Result<Option<AttributesField>, BadField> {
        AttributesField::parse([line.as_bytes()])
    }

    #[test]
    fn members_are_read_and_bad_ones_refused() {
        assert_eq!(AttributesField::parse([]), Ok(None));
        assert_eq!(parse("other=1"), Ok(Some(AttributesField::default())));
        let expected = AttributesField {
            mode: Some(0o644),
            modified: Some((-5, 0)),
            link: Some(b"../x".to_vec()),
            data: Some(4096),
        };
        let value = "mode=420, time=-5, link=:Li4veA==:, data=4096";
        assert_eq!(parse(value), Ok(Some(expected)));
        let bad =
            "mode=4096 mode=-1 mode=a time=?1 nanoseconds=1000000000 link=:: link=:AA==: link=a";
        for bad in bad.split(' ').chain(["data=-1", "="]) {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            mode in proptest::option::of(0..0o10000_u32),
            modified in proptest::option::of((-1_000_000..5_000_000_i64, 0..1_000_000_000_u32)),
            link in proptest::option::of(proptest::collection::vec(1..=255_u8, 1..50)),
            data in proptest::option::of(0..1_000_000_u64),
        ) {
            let field = AttributesField { mode, modified, link, data };
            prop_assert_eq!(parse(&field.write()), Ok(Some(field)));
        }
    }
}
