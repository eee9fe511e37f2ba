//! `pathmark-attributes`, by which a client of this project sets the attributes of a stored
//! file, link or directory: `mode=420, time=1700000000, nanoseconds=5, link=:Li4veA==:`. For a
//! sparse file, `data=8192` is the number of bytes that it takes on disk. All members are
//! optional, and others are ignored.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::BadField;
use super::structured::{Bare, dictionary};

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

    use super::*;

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
        for bad in [
            "mode=4096",
            "mode=-1",
            "mode=a",
            "time=?1",
            "nanoseconds=1000000000",
            "link=::",
            "link=:AA==:",
            "link=a",
            "data=-1",
            "=",
        ] {
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
