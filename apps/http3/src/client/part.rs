//! Manages the part of a file that has arrived. It is next to its target as `.pathmark-HASH.part`,
//! and `.pathmark-HASH-tag.part` records its version and a mark of SHA-256. HASH is the hash of the
//! target's name, so that temporary names stay short even if that name is long.
//!
//! Tag files hold the source of a part, its version, and a mark. The
//! mark is the state of SHA-256 at some position in the part, so that resuming only has to hash
//! the bytes after it.
//!
//! ```text
//!   https://host/path
//!   "entity tag"
//!   POSITION STATE        both in hexadecimal; the line is absent at first
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use sha2::digest::common::hazmat::{SerializableState, SerializedState};
use sha2::{Digest, Sha256};

use super::plan::Part;
use crate::fields::EntityTag;
use crate::resource::{RESERVED_PREFIX, TEMPORARY_SUFFIX};
use crate::root::{Draft, is_taken, open_file, read_piece};
use crate::sink::{Writer, blocking};

/// Maximum size of a tag file in bytes.
const MAX_TAG: u64 = 128 * 1024;
/// Bytes of the name's hash to use.
const HASH: usize = 16;

/// A part in progress, owned by this value.
pub(super) struct PartFile {
    pub(super) draft: Draft,
    directory: Arc<OwnedFd>,
    /// `None` if a later attempt couldn't recognize the part.
    tag_name: Option<Vec<u8>>,
}

/// Returns the temporary name for a target, with `more` before the ending.
fn temporary(target: &[u8], more: &[u8]) -> Vec<u8> {
    let hash = Sha256::digest(target);
    let hash = hash.iter().take(HASH);
    let hash: String = hash.map(|byte| format!("{byte:02x}")).collect();
    [RESERVED_PREFIX, hash.as_bytes(), more, TEMPORARY_SUFFIX].concat()
}

impl PartFile {
    /// Opens or creates the part of `target`. Returns `None` while another transfer holds it. If
    /// another user has taken its name in a shared directory, the part gets a different name, which
    /// later attempts can't find.
    ///
    /// # Errors
    /// Fails if the file can't be opened or created.
    pub(super) fn open(directory: Arc<OwnedFd>, target: &[u8]) -> io::Result<Option<Self>> {
        let mut draft = match Draft::resume(&directory, temporary(target, b"")) {
            Ok(Some(draft)) => draft,
            Ok(None) => return Ok(None),
            Err(error) if is_taken(&error) => {
                return Ok(Some(Self {
                    draft: Draft::fresh(&directory)?,
                    directory,
                    tag_name: None,
                }));
            }
            Err(error) => return Err(error),
        };
        let tag_name = temporary(target, b"-tag");
        draft.set_companion(tag_name.clone());
        Ok(Some(Self {
            draft,
            directory,
            tag_name: Some(tag_name),
        }))
    }

    /// Returns the part of a version from `source`, with its mark. Unless the mark is at its
    /// end, the last byte is fetched again, because otherwise the range requested for a complete
    /// part would be empty.
    ///
    /// # Errors
    /// Fails if the size can't be read.
    pub(super) fn part(&self, source: &str) -> io::Result<Option<(Part, Option<Mark>)>> {
        let length = self.draft.file().metadata()?.len();
        let text = self.read_tag().filter(|text| text.source == source);
        let part = text.map(|text| {
            let mark = text.mark.filter(|mark| mark.position <= length);
            let bytes = match &mark {
                // A mark is always before the end of the whole file.
                Some(mark) if mark.position == length => length,
                _ => length.saturating_sub(1),
            };
            let tag = text.tag;
            (Part { bytes, tag }, mark)
        });
        Ok(part.filter(|(part, _)| part.bytes > 0))
    }

    /// Reads the tag file. Returns `None` if it is missing or invalid.
    fn read_tag(&self) -> Option<TagText> {
        let file = open_file(&self.directory, self.tag_name.as_deref()?).ok()?;
        let mut text = String::new();
        file.take(MAX_TAG).read_to_string(&mut text).ok()?;
        TagText::parse(&text)
    }

    /// Saves a mark of the part. Does nothing without a tag.
    ///
    /// # Errors
    /// Fails if the tag file can't be written.
    pub(super) fn set_mark(&self, mark: Mark) -> io::Result<()> {
        let (Some(name), Some(mut text)) = (self.tag_name.as_deref(), self.read_tag()) else {
            return Ok(());
        };
        text.mark = Some(mark);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = openat(self.directory.as_fd(), name, flags, Mode::empty())?;
        // Marks never become shorter, so the new text overwrites the old one completely.
        File::from(file).write_all(text.write().as_bytes())
    }

    /// Discards the part, because the following bytes belong to the version `tag` from `source`.
    ///
    /// # Errors
    /// Fails if the part or its tag can't be written.
    pub(super) fn restart(&self, source: &str, tag: Option<&EntityTag>) -> io::Result<()> {
        // In this order, old bytes are never next to the new tag.
        self.draft.file().set_len(0)?;
        self.remove_tag()?;
        let (Some(name), Some(tag)) = (self.tag_name.as_deref(), tag) else {
            return Ok(());
        };
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o666);
        let mut file = File::from(openat(self.directory.as_fd(), name, flags, mode)?);
        let text = TagText {
            source: source.to_owned(),
            tag: tag.clone(),
            mark: None,
        };
        file.write_all(text.write().as_bytes())
    }

    /// Removes the tag.
    ///
    /// # Errors
    /// Fails if the tag file can't be removed.
    fn remove_tag(&self) -> io::Result<()> {
        let Some(name) = self.tag_name.as_deref() else {
            return Ok(());
        };
        match unlinkat(self.directory.as_fd(), name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the free space for a file in bytes. Some file systems don't know their size.
    pub(super) fn free_space(&self) -> io::Result<u64> {
        let space = rustix::fs::fstatvfs(self.draft.file())?;
        let free = match space.f_blocks {
            0 => return Ok(u64::MAX),
            // A part of the disk is reserved for root.
            _ if rustix::process::geteuid().is_root() => space.f_bfree,
            _ => space.f_bavail,
        };
        Ok(free.saturating_mul(space.f_frsize))
    }

    /// Removes the part and its tag.
    ///
    /// # Errors
    /// Fails if either file can't be removed.
    pub(super) fn discard(self) -> io::Result<()> {
        self.remove_tag()?;
        self.draft.discard()
    }
}

/// Saves a mark if the part is still incomplete, and returns the part file.
pub(super) async fn mark(
    file: PartFile,
    whole: Option<u64>,
    position: u64,
    hasher: Sha256,
) -> io::Result<PartFile> {
    if whole.is_none_or(|whole| position >= whole) {
        return Ok(file);
    }
    blocking(move || {
        // Without a mark, the next attempt only has to hash more.
        if let Err(error) = file.set_mark(Mark { position, hasher }) {
            tracing::debug!(%error, "a part has no mark");
        }
        file
    })
    .await
}

/// Hashes one piece of the part on disk.
fn hash_piece(writer: &mut Writer, end: u64) -> io::Result<()> {
    let piece = read_piece(&writer.file, writer.position, end)?;
    writer.hasher.update(&piece);
    writer.position += piece.len() as u64;
    Ok(())
}

pub(super) async fn hash_part(mut writer: Writer, bytes: u64) -> io::Result<Writer> {
    while writer.position < bytes {
        let hashed = blocking(move || {
            let hashed = hash_piece(&mut writer, bytes);
            hashed.map(|()| writer)
        });
        writer = hashed.await??;
    }
    Ok(writer)
}

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
    use std::os::unix::fs::FileExt;

    use sha2::Digest;

    use crate::resource::is_reserved;
    use crate::root::open_directory;

    use super::*;

    #[test]
    fn temporary_names_are_short_and_differ() {
        let long = [b'x'; 255];
        for target in [&long[..], b"a", b"\xff"] {
            for more in [&b""[..], b"-tag"] {
                let name = temporary(target, more);
                assert!(name.len() < 64 && is_reserved(&name));
            }
        }
        assert_ne!(temporary(b"a", b""), temporary(b"b", b""));
    }

    /// In a shared directory, another user might guess the name of a part.
    #[test]
    fn a_part_that_is_not_ours_is_passed_over() {
        let path = tempfile::tempdir().unwrap();
        let directory = Arc::new(open_directory(path.path()).unwrap());
        let victim = path.path().join("victim");
        std::fs::write(&victim, "safe").unwrap();
        let name = String::from_utf8(temporary(b"name", b"")).unwrap();
        std::fs::hard_link(&victim, path.path().join(name)).unwrap();
        let part = PartFile::open(Arc::clone(&directory), b"name")
            .unwrap()
            .unwrap();
        part.restart("here", Some(&known_tag())).unwrap();
        part.draft.file().write_all_at(b"abc", 0).unwrap();
        assert!(part.part("here").unwrap().is_none());
        drop(part);
        assert_eq!(std::fs::read(victim).unwrap(), b"safe");
        assert_eq!(std::fs::read_dir(path.path()).unwrap().count(), 2);
    }

    fn known_tag() -> EntityTag {
        EntityTag::parse(b"\"v1\"").unwrap()
    }

    #[test]
    fn a_part_is_known_by_its_source_and_version() {
        let path = tempfile::tempdir().unwrap();
        let directory = Arc::new(open_directory(path.path()).unwrap());
        let tag = known_tag();
        let open = || PartFile::open(Arc::clone(&directory), b"name").unwrap();
        let part = open().unwrap();
        assert!(open().is_none());
        assert!(part.part("here").unwrap().is_none());
        part.restart("here", Some(&tag)).unwrap();
        part.draft.file().write_all_at(b"abc", 0).unwrap();
        drop(part);
        let part = open().unwrap();
        let found = || {
            let part = part.part("here").unwrap();
            part.map(|(part, mark)| (part, mark.map(|mark| mark.position)))
        };
        let known = Part { bytes: 2, tag };
        assert_eq!(found(), Some((known.clone(), None)));
        assert!(part.part("there").unwrap().is_none());
        for (position, bytes, seen) in [(1, 2, Some(1)), (3, 3, Some(3)), (4, 2, None)] {
            let hasher = Sha256::new();
            part.set_mark(Mark { position, hasher }).unwrap();
            let known = Part {
                bytes,
                ..known.clone()
            };
            assert_eq!(found(), Some((known, seen)));
        }
        part.restart("here", Some(&known_tag())).unwrap();
        drop(part);
        // An empty part is removed together with its tag.
        assert_eq!(std::fs::read_dir(path.path()).unwrap().count(), 0);
        let part = open().unwrap();
        part.restart("here", None).unwrap();
        part.draft.file().write_all_at(b"abc", 0).unwrap();
        assert!(part.part("here").unwrap().is_none());
        part.discard().unwrap();
        assert_eq!(std::fs::read_dir(path.path()).unwrap().count(), 0);
    }

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
            let known = (read.source.as_str(), read.write());
            assert_eq!(known, ("https://host/a", text));
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
