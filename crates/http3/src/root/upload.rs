//! Uploads that can be resumed: the bytes that have arrived, and a note on them, next to the place
//! where the file is to be.
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
use super::stat_of;
use crate::resource::{Kind, Stat, Token};

/// Bytes of a note at most: header fields have 64 KiB together.
const LONGEST: u64 = 256 * 1024;
/// Directories beneath each other that are searched, as deep as requests lead.
const MAX_DEPTH: usize = 128;

/// The request that began an upload, as far as the server keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The name of the client that began it.
    pub owner: String,
    /// The path of the request, as the client wrote it.
    pub path: String,
    /// Its fields that count once the upload is complete.
    pub fields: Vec<(String, String)>,
    /// Bytes of the whole upload (Upload-Length or Content-Length), if announced.
    pub length: Option<u64>,
}

/// An upload that this value holds.
#[derive(Debug)]
pub struct Upload {
    /// The file of its bytes.
    pub draft: Draft,
    /// The note.
    pub note: Note,
}

/// An upload on the disk.
#[derive(Clone, Debug)]
pub struct Lying {
    /// Its token.
    pub token: Token,
    /// The directory that it is in, from the root on.
    pub directory: Vec<Vec<u8>>,
    /// The owner in its note.
    pub owner: String,
    /// The metadata of its bytes, or of the note where there are none.
    pub stat: Stat,
}

impl Upload {
    /// Begins an upload.
    ///
    /// # Errors
    /// Those of writing.
    pub fn begin(directory: &Arc<OwnedFd>, token: &Token, note: Note) -> io::Result<Self> {
        let text = serde_json::to_vec(&note)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = token.note();
        let file = openat(directory, name.as_slice(), flags, Mode::RUSR | Mode::WUSR)?;
        let written = File::from(file).write_all(&text);
        let begun = written.and_then(|()| Self::hold(directory, token, note));
        if begun.is_err() {
            // The failure above is the one that counts.
            let _ = unlinkat(directory, name.as_slice(), AtFlags::empty());
        }
        begun?.ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }

    /// The upload of a token; none where there is none, or while another process holds it.
    ///
    /// # Errors
    /// Those of opening.
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

/// The note of a token; none where there is none that can be read.
fn read_note(directory: BorrowedFd<'_>, token: &Token) -> io::Result<Option<Note>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match openat(directory, token.note().as_slice(), flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).ok())
}

/// All uploads beneath an open directory. Uploads that cannot be read are left out.
#[must_use]
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

    use super::*;
    use crate::root::open_directory;

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

        // One that has no bytes when its request ends was of no use.
        drop(Upload::begin(&directory, &token, note).unwrap());
        assert_eq!(
            std::fs::read_dir(path.path().join("a/b")).unwrap().count(),
            0
        );
    }
}
