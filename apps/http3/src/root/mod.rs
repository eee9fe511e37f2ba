//! The directory that an origin serves. Names are resolved to open files, but never to files
//! outside the directory.

mod draft;
mod tree;
mod upload;
mod walk;

use std::fs::File;
use std::io;

use rustix::fs::FileType;

use crate::resource::{Kind, Stat, Time};

pub use draft::{Draft, Dropped, Existing, KeepError, Placed};
pub use tree::{Attributes, Entries, Tree, look, make_link, set_bits};
pub use upload::{Cancel, Lying, Note, Upload, find_uploads, hash_file, read_piece, still_has};
pub use walk::{Found, Root, RootError, names_stat, open_directory};

pub(crate) use draft::is_taken;
pub(crate) use upload::Hashing;

/// Returns the metadata of an open file.
///
/// # Errors
/// Fails if the metadata can't be read.
pub fn file_stat(file: &File) -> io::Result<Stat> {
    Ok(stat_of(&rustix::fs::fstat(file)?))
}

/// Converts metadata to this crate's type.
pub(crate) fn stat_of(stat: &rustix::fs::Stat) -> Stat {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    };
    // Nanoseconds are below 10^9, and seconds are signed regardless of their type.
    let time = |seconds: i64, nanoseconds: u64| Time {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
    };
    Stat {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        changed: time(stat.st_ctime, stat.st_ctime_nsec),
        device: stat.st_dev,
        inode: stat.st_ino,
    }
}
