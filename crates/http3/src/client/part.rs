//! The part of a file that has arrived, next to its target: `.pathmark-HASH.part`, and in
//! `.pathmark-HASH-tag.part` the version that the part is of. HASH is that of the target's name, so
//! that temporary names are short, however long that name is.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::plan::Part;
use crate::fields::EntityTag;
use crate::resource::{RESERVED_PREFIX, TEMPORARY_SUFFIX};
use crate::root::Draft;

/// Bytes of a tag file at most.
const MAX_TAG: u64 = 128 * 1024;
/// Bytes of the name's hash.
const HASH: usize = 16;

/// A part under way, which this value owns.
#[derive(Debug)]
pub(super) struct PartFile {
    pub(super) draft: Draft,
    directory: Arc<OwnedFd>,
    tag_name: Vec<u8>,
}

/// The temporary name of a target, with something before the ending.
fn temporary(target: &[u8], more: &[u8]) -> Vec<u8> {
    let hash = Sha256::digest(target);
    let hash = hash.iter().take(HASH);
    let hash: String = hash.map(|byte| format!("{byte:02x}")).collect();
    [RESERVED_PREFIX, hash.as_bytes(), more, TEMPORARY_SUFFIX].concat()
}

impl PartFile {
    /// Opens or creates the part of `target`; `None` while another transfer holds it.
    ///
    /// # Errors
    /// Those of opening.
    pub(super) fn open(directory: Arc<OwnedFd>, target: &[u8]) -> io::Result<Option<Self>> {
        let draft = Draft::resume(&directory, temporary(target, b""))?;
        let tag_name = temporary(target, b"-tag");
        Ok(draft.map(|mut draft| {
            draft.set_companion(tag_name.clone());
            Self {
                draft,
                directory,
                tag_name,
            }
        }))
    }

    /// The part of a version from `source`. The last byte does not count: it is fetched once
    /// more, so that the range of a part that is whole is not empty.
    ///
    /// # Errors
    /// Those of asking for the size.
    pub(super) fn part(&self, source: &str) -> io::Result<Option<Part>> {
        let bytes = self.draft.file().metadata()?.len().saturating_sub(1);
        let tag = self.read_tag(source).filter(|_| bytes > 0);
        Ok(tag.map(|tag| Part { bytes, tag }))
    }

    /// The version of the part, if the tag file is one of `source`. A broken tag file is none.
    fn read_tag(&self, source: &str) -> Option<EntityTag> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let name = self.tag_name.as_slice();
        let file = openat(self.directory.as_fd(), name, flags, Mode::empty()).ok()?;
        let mut text = String::new();
        let file = File::from(file);
        file.take(MAX_TAG).read_to_string(&mut text).ok()?;
        let (from, tag) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let tag = EntityTag::parse(tag.as_bytes()).filter(EntityTag::is_strong);
        tag.filter(|_| from == source)
    }

    /// Drops what is there: the bytes to come are those of the version `tag` from `source`.
    ///
    /// # Errors
    /// Those of writing.
    pub(super) fn restart(&self, source: &str, tag: Option<&EntityTag>) -> io::Result<()> {
        // In this order old bytes never lie next to the new tag.
        self.draft.file().set_len(0)?;
        self.remove_tag()?;
        let Some(tag) = tag else {
            return Ok(());
        };
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = self.tag_name.as_slice();
        let mode = Mode::from_raw_mode(0o666);
        let mut file = File::from(openat(self.directory.as_fd(), name, flags, mode)?);
        file.write_all(format!("{source}\n{tag}\n").as_bytes())
    }

    /// Removes the tag, before the part gets its own name.
    ///
    /// # Errors
    /// Those of removing.
    pub(super) fn remove_tag(&self) -> io::Result<()> {
        match unlinkat(
            self.directory.as_fd(),
            self.tag_name.as_slice(),
            AtFlags::empty(),
        ) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the part and its tag.
    ///
    /// # Errors
    /// Those of removing.
    pub(super) fn discard(self) -> io::Result<()> {
        self.remove_tag()?;
        self.draft.discard()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::resource::is_reserved;
    use crate::root::open_directory;

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
        assert_eq!(part.part("here").unwrap(), None);
        part.restart("here", Some(&tag)).unwrap();
        part.draft.file().write_all_at(b"abc", 0).unwrap();
        drop(part);
        let part = open().unwrap();
        let known = Part { bytes: 2, tag };
        assert_eq!(part.part("here").unwrap(), Some(known));
        assert_eq!(part.part("there").unwrap(), None);
        part.restart("here", Some(&known_tag())).unwrap();
        drop(part);
        // An empty part goes, and its tag with it.
        assert_eq!(std::fs::read_dir(path.path()).unwrap().count(), 0);
        let part = open().unwrap();
        part.restart("here", None).unwrap();
        part.draft.file().write_all_at(b"abc", 0).unwrap();
        assert_eq!(part.part("here").unwrap(), None);
        part.discard().unwrap();
        assert_eq!(std::fs::read_dir(path.path()).unwrap().count(), 0);
    }
}
