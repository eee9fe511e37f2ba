//! Reads a directory's entries piece by piece.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, readlinkat, statat};
use rustix::io::Errno;

use super::stat_of;
use crate::resource::{Entry, Kind, is_reserved};

/// Maximum number of names to sort together. To bound memory, larger directories are returned in
/// several sorted runs.
const RUN: usize = 16_384;
/// Maximum number of entries in a piece.
const PIECE: usize = 256;

/// Reads the entries of a directory.
pub struct Entries {
    directory: OwnedFd,
    reader: Dir,
    /// The names of this run in reverse order.
    run: Vec<Vec<u8>>,
}

impl Entries {
    /// Reads all entries of an open directory, except for unfinished files.
    ///
    /// # Errors
    /// Fails if the directory can't be read.
    pub fn of(directory: OwnedFd) -> io::Result<Self> {
        let reader = Dir::read_from(directory.as_fd())?;
        Ok(Self {
            directory,
            reader,
            run: Vec::new(),
        })
    }

    /// Returns the next entries, which are empty at the end. Names that disappear in the meantime
    /// are omitted.
    ///
    /// # Errors
    /// Fails if the directory can't be read.
    pub fn next_piece(&mut self) -> io::Result<Vec<Entry>> {
        let mut piece = Vec::new();
        while piece.len() < PIECE {
            if self.run.is_empty() {
                self.fill()?;
            }
            let Some(name) = self.run.pop() else {
                break;
            };
            piece.extend(self.entry(name)?);
        }
        Ok(piece)
    }

    fn fill(&mut self) -> io::Result<()> {
        while self.run.len() < RUN
            && let Some(entry) = self.reader.read()
        {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") && !is_reserved(name) {
                self.run.push(name.to_vec());
            }
        }
        self.run.sort_unstable_by(|one, other| other.cmp(one));
        Ok(())
    }

    fn entry(&self, name: Vec<u8>) -> io::Result<Option<Entry>> {
        let stat = match statat(&self.directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat_of(&stat),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let target = match stat.kind {
            Kind::Symlink => match readlinkat(&self.directory, name.as_slice(), Vec::new()) {
                Ok(target) => Some(target.into_bytes()),
                // Meanwhile another file has taken the name.
                Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
            _ => None,
        };
        Ok(Some(Entry { name, stat, target }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::open_directory;

    #[test]
    fn all_names_come_in_order_without_unfinished_ones() {
        let directory = tempfile::tempdir().unwrap();
        for n in 0..600 {
            std::fs::write(directory.path().join(format!("{n:03}")), "").unwrap();
        }
        std::fs::write(directory.path().join(".pathmark-7.part"), "").unwrap();
        std::os::unix::fs::symlink("000", directory.path().join("link")).unwrap();
        let mut entries = Entries::of(open_directory(directory.path()).unwrap()).unwrap();
        let mut all = Vec::new();
        loop {
            let piece = entries.next_piece().unwrap();
            if piece.is_empty() {
                break;
            }
            assert!(piece.len() <= PIECE);
            all.extend(piece);
        }
        assert_eq!(all.len(), 601);
        assert!(all.is_sorted_by(|one, other| one.name < other.name));
        let link = all.last().unwrap();
        assert_eq!(link.target.as_deref(), Some(&b"000"[..]));
        assert_eq!(link.stat.kind, Kind::Symlink);
    }
}
