//! The text of a configuration, from a file that ends.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Longest file that is read, in bytes: a million routes and more.
const LONGEST: u64 = 256 << 20;

/// Reads the file at `path`. A pipe may keep its reader waiting for ever, and a device may have no
/// end: a router that reads one again would never be done with it.
///
/// # Errors
/// Those of the file, and what it is instead of one.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut options = File::options();
    // Opening a pipe waits for whoever writes to it, otherwise.
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    if !found.is_file() {
        let what = "it is a pipe, a socket or a device: write the configuration into a file";
        return Err(io::Error::other(what));
    }
    let mut text = String::new();
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

    /// What `read` says of a path, within ten seconds: reading may be what hangs.
    fn said(path: &Path) -> String {
        let (tell, hear) = mpsc::channel();
        let path = path.to_owned();
        std::thread::spawn(move || tell.send(read(&path).unwrap_or_else(|e| e.to_string())));
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
        // With somebody who has it open, and writes nothing.
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
