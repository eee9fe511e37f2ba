//! Reads regular files. A pipe, a socket or a device is an error instead, so that reading cannot
//! hang.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Maximum length of the text, in bytes: more than a million routes.
const LONGEST: u64 = 256 << 20;

/// Opens the regular file at `path` for reading, without waiting for the writer of a pipe.
///
/// # Errors
/// Errors of the file system; [`io::ErrorKind::Other`] for anything that is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    if !found.is_file() {
        let what = "it is a pipe, a socket or a device; a regular file is needed";
        return Err(io::Error::other(what));
    }
    Ok(file)
}

/// Reads the text of the regular file at `path`, of at most 256 MiB.
///
/// # Errors
/// Errors of [`open_regular`], a longer file, or text that is not UTF-8.
pub fn read_regular(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = open_regular(path)?;
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    match text.len() as u64 > LONGEST {
        true => Err(io::Error::other("it is longer than 256 MiB")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Returns the text at a path, or its error, within ten seconds.
    fn said(path: &Path) -> String {
        let (tell, hear) = mpsc::channel();
        let path = path.to_owned();
        std::thread::spawn(move || {
            tell.send(read_regular(&path).unwrap_or_else(|e| e.to_string()))
        });
        hear.recv_timeout(Duration::from_secs(10))
            .expect("the file is still being read")
    }

    #[test]
    fn what_has_no_end_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(said(&pipe).contains("it is a pipe"), "{}", said(&pipe));
        // A writer that holds the pipe open without writing makes no difference.
        let mut both = File::options();
        let writer = both.read(true).write(true).open(&pipe).unwrap();
        assert!(said(&pipe).contains("it is a pipe"));
        drop(writer);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert!(said(&link).contains("a device"), "{}", said(&link));
        assert!(said(dir.path()).contains("it is a directory"));
        let long = dir.path().join("long");
        File::create(&long).unwrap().set_len(LONGEST + 1).unwrap();
        assert!(said(&long).contains("longer than 256 MiB"));
        fs::remove_file(&link).unwrap();
        fs::write(pipe.with_extension("toml"), "id = 1\n").unwrap();
        std::os::unix::fs::symlink("pipe.toml", &link).unwrap();
        assert_eq!(said(&link), "id = 1\n");
    }
}
