//! Reads and writes tag files, which hold the source of a part, its version, and a mark. The
//! mark is the state of SHA-256 at some position in the part, so that resuming only has to hash
//! the bytes after it.
//!
//! ```text
//!   https://host/path
//!   "entity tag"
//!   POSITION STATE        both in hexadecimal; the line is absent at first
//! ```

use sha2::Sha256;
use sha2::digest::common::hazmat::{SerializableState, SerializedState};

use crate::fields::EntityTag;

/// The SHA-256 state for the first bytes of a part.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// The number of these bytes.
    pub(super) position: u64,
    /// The hasher after these bytes.
    pub(super) hasher: Sha256,
}

/// The content of a tag file.
#[derive(Clone, Debug)]
pub(super) struct TagText {
    /// The URI from which the part was fetched.
    pub(super) source: String,
    /// The strong tag of its version.
    pub(super) tag: EntityTag,
    /// The last mark.
    pub(super) mark: Option<Mark>,
}

impl TagText {
    /// Parses a tag file. Returns `None` if [`write`](Self::write) could not have written it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let (source, tag, mark) = (lines.next()?, lines.next()?, lines.next());
        let tag = EntityTag::parse(tag.as_bytes()).filter(EntityTag::is_strong)?;
        let mark = match mark {
            Some(line) => Some(Mark::parse(line)?),
            None => None,
        };
        lines.next().is_none().then(|| Self {
            source: source.to_owned(),
            tag,
            mark,
        })
    }

    pub(super) fn write(&self) -> String {
        let head = format!("{}\n{}\n", self.source, self.tag);
        match &self.mark {
            Some(mark) => format!("{head}{}\n", mark.write()),
            None => head,
        }
    }
}

impl Mark {
    fn parse(line: &str) -> Option<Self> {
        let (position, state) = line.split_once(' ')?;
        let mut bytes = SerializedState::<Sha256>::default();
        if state.len() != 2 * bytes.len() || !state.is_ascii() {
            return None;
        }
        for (byte, place) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(state.get(place..place + 2)?, 16).ok()?;
        }
        Some(Self {
            position: u64::from_str_radix(position, 16).ok()?,
            hasher: Sha256::deserialize(&bytes).ok()?,
        })
    }

    fn write(&self) -> String {
        let state = self.hasher.serialize();
        let state: String = state.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:x} {state}", self.position)
    }
}

#[cfg(test)]
mod tests {
    use sha2::Digest;

    use super::*;

    fn text(mark: Option<Mark>) -> String {
        let tag = EntityTag::parse(b"\"v1\"").unwrap();
        let source = "https://host/a".to_owned();
        TagText { source, tag, mark }.write()
    }

    #[test]
    fn a_hasher_goes_on_from_its_mark() {
        for length in [0, 1, 63, 64, 1000] {
            let content: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let hasher = Sha256::new_with_prefix(&content);
            let position = content.len() as u64;
            let text = text(Some(Mark { position, hasher }));
            let read = TagText::parse(&text).unwrap();
            assert_eq!(
                (read.source.as_str(), read.write()),
                ("https://host/a", text)
            );
            let mark = read.mark.unwrap();
            assert_eq!(mark.position, position);
            let whole = mark.hasher.chain_update(b"more").finalize();
            assert_eq!(whole, Sha256::digest([&content, &b"more"[..]].concat()));
        }
    }

    #[test]
    fn what_is_not_written_is_not_read() {
        let good = text(None);
        assert!(TagText::parse(&good).is_some_and(|read| read.mark.is_none()));
        for bad in ["", "\n", "a\n", "a\nW/\"v\"\n", "a\n\"v\""] {
            assert!(TagText::parse(bad).is_none(), "{bad}");
        }
        for more in ["\n", "7\n", "7 00\n", "x 00\n", "7 \u{e9}\n"] {
            assert!(TagText::parse(&format!("{good}{more}")).is_none(), "{more}");
        }
        let hasher = Sha256::new();
        let marked = text(Some(Mark {
            position: 7,
            hasher,
        }));
        let cut = marked.get(..marked.len() - 2).unwrap();
        assert!(TagText::parse(&format!("{cut}\n")).is_none());
        assert!(TagText::parse(&format!("{marked}more\n")).is_none());
    }

    /// A fuzz target: parsed files must be written back unchanged.
    #[test]
    fn tag_files_of_any_bytes() {
        bolero::check!().with_iterations(20_000).for_each(|input| {
            if let Ok(text) = std::str::from_utf8(input)
                && let Some(read) = TagText::parse(text)
            {
                let again = TagText::parse(&read.write());
                assert!(again.is_some_and(|again| again.write() == read.write()));
            }
        });
    }
}
