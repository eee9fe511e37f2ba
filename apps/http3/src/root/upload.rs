//! Resumable uploads. The bytes that have arrived and a note are next to the final place of the
//! file.
//!
//! ```text
//!   .pathmark-TOKEN.part        the bytes; locked while a request appends to them
//!   .pathmark-TOKEN-put.part    the note, in JSON
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::draft::{Draft, Dropped};
use super::{open_file, stat_of};
use crate::resource::{Kind, Stat, Token};

/// Maximum size of a note in bytes. Header fields have at most 64 KiB together.
const LONGEST: u64 = 256 * 1024;
/// Maximum depth of directories to search, the same as for requests.
const MAX_DEPTH: usize = 128;

/// The stored part of the request that began an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The name of the client.
    pub owner: String,
    /// The path of the request, exactly as the client sent it.
    pub path: String,
    /// The fields that apply when the upload completes.
    pub fields: Vec<(String, String)>,
    /// The whole upload's length (Upload-Length or Content-Length), if announced.
    pub length: Option<u64>,
}

/// An upload whose lock is held by this value.
#[derive(Debug)]
pub struct Upload {
    /// The file with its bytes.
    pub draft: Draft,
    /// The note.
    pub note: Note,
}

/// An upload on disk.
#[derive(Clone, Debug)]
pub struct Lying {
    /// Its token.
    pub token: Token,
    /// Its directory, relative to the root.
    pub directory: Vec<Vec<u8>>,
    /// The owner according to its note.
    pub owner: String,
    /// The metadata of its bytes, or of its note if there are none.
    pub stat: Stat,
}

impl Upload {
    /// Begins an upload.
    ///
    /// # Errors
    /// Fails if the files can't be written.
    pub fn begin(directory: &Arc<OwnedFd>, token: &Token, note: Note) -> io::Result<Self> {
        let text = serde_json::to_vec(&note)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = token.note();
        let file = openat(directory, name.as_slice(), flags, Mode::RUSR | Mode::WUSR)?;
        let written = File::from(file).write_all(&text);
        let begun = written.and_then(|()| Self::hold(directory, token, note));
        if begun.is_err() {
            // Report the first error rather than one of removing the note.
            let _ = unlinkat(directory, name.as_slice(), AtFlags::empty());
        }
        begun?.ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }

    /// Opens an upload by its token. Returns `None` if it doesn't exist or another process holds
    /// it.
    ///
    /// # Errors
    /// Fails if the files can't be opened.
    pub fn open(directory: &Arc<OwnedFd>, token: &Token) -> io::Result<Option<Self>> {
        let Some(note) = read_note(directory.as_fd(), token)? else {
            return Ok(None);
        };
        let mut upload = Self::hold(directory, token, note)?;
        if let Some(upload) = &mut upload {
            upload.draft.set_dropped(Dropped::Kept);
        }
        Ok(upload)
    }

    fn hold(directory: &Arc<OwnedFd>, token: &Token, note: Note) -> io::Result<Option<Self>> {
        let draft = Draft::resume(directory, token.name())?;
        Ok(draft.map(|mut draft| {
            draft.set_companion(token.note());
            Self { draft, note }
        }))
    }
}

/// Reads the note for a token. Returns `None` if it doesn't exist or is invalid.
fn read_note(directory: BorrowedFd<'_>, token: &Token) -> io::Result<Option<Note>> {
    let file = match open_file(directory, &token.note()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).ok())
}

/// Finds all uploads beneath an open directory, omitting those that can't be read.
pub fn find_uploads(top: &OwnedFd) -> Vec<Lying> {
    let mut found = Vec::new();
    search(top.as_fd(), &mut Vec::new(), &mut found);
    found
}

fn search(here: BorrowedFd<'_>, names: &mut Vec<Vec<u8>>, found: &mut Vec<Lying>) {
    let Ok(entries) = Dir::read_from(here) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_bytes();
        if let Some(token) = Token::in_note(name) {
            found.extend(lying(here, token, names));
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let may_lead = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        let is_own = matches!(name, b"." | b"..");
        if may_lead
            && !is_own
            && names.len() < MAX_DEPTH
            && let Ok(directory) = openat(here, name, flags, Mode::empty())
        {
            names.push(name.to_vec());
            search(directory.as_fd(), names, found);
            names.pop();
        }
    }
}

fn lying(here: BorrowedFd<'_>, token: Token, names: &[Vec<u8>]) -> Option<Lying> {
    let note = read_note(here, &token).ok()??;
    let look = |name: Vec<u8>| statat(here, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
    let stat = look(token.name()).or_else(|_| look(token.note())).ok()?;
    let stat = stat_of(&stat);
    (stat.kind == Kind::File).then(|| Lying {
        token,
        directory: names.to_vec(),
        owner: note.owner,
        stat,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use crate::root::open_directory;

    use super::*;

    #[test]
    fn an_upload_outlives_its_request_and_is_found() {
        let path = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(path.path().join("a/b")).unwrap();
        let top = open_directory(path.path()).unwrap();
        let directory = Arc::new(open_directory(&path.path().join("a/b")).unwrap());
        let note = Note {
            owner: "camera".to_owned(),
            path: "/a/b/name".to_owned(),
            fields: vec![("if-none-match".to_owned(), "*".to_owned())],
            length: Some(10),
        };
        let token = Token::of(7);
        let upload = Upload::begin(&directory, &token, note.clone()).unwrap();
        upload.draft.file().write_all_at(b"abc", 0).unwrap();
        assert!(Upload::open(&directory, &token).unwrap().is_none(), "held");
        drop(upload);
        let found = find_uploads(&top);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].directory, [b"a", b"b"]);
        assert_eq!((found[0].owner.as_str(), found[0].stat.size), ("camera", 3));
        let upload = Upload::open(&directory, &token).unwrap().unwrap();
        assert_eq!(upload.note, note);
        upload.draft.discard().unwrap();
        assert!(Upload::open(&directory, &token).unwrap().is_none());
        assert!(find_uploads(&top).is_empty());

        // An upload without any bytes is useless when its request ends.
        drop(Upload::begin(&directory, &token, note).unwrap());
        let left = std::fs::read_dir(path.path().join("a/b")).unwrap().count();
        assert_eq!(left, 0);
    }
}
