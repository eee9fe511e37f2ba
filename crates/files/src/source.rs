//! A file to send: opened without waiting, read on threads that may block, and checked for changes.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::protocol::{BROKEN_OFF, CHANGED, SHORTER};

/// Opens a plain file to read. A pipe or device is an error ([`ErrorKind::InvalidInput`]), also one
/// that would have the open wait for its other end.
///
/// # Errors
/// Those of opening.
pub(super) fn open_plain(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is no plain file",
        ))
    }
}

/// Runs what may block on a thread for that.
///
/// # Errors
/// Those of the work.
pub(super) async fn blocking<T: Send + 'static, E: From<io::Error> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error).into()))
}

/// An error of a file, with what to do where a user would not know.
pub(super) fn with_cause(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EMFILE) => io::Error::new(
            error.kind(),
            "the process has as many files open as its limit allows; raise the hard limit \
             (ulimit -Hn)",
        ),
        _ => error,
    }
}

/// Why a file was not sent whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The stream failed.
    #[error("the transfer broke off: {0}")]
    Stream(io::Error),
    /// The file could not be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It has fewer bytes than it had at the beginning.
    #[error("it became shorter while it was sent")]
    Shorter,
    /// It was written to.
    #[error("it changed while it was sent")]
    Changed,
}

impl SendError {
    /// The error code with which the stream is reset, so that the peer knows why.
    #[must_use]
    pub const fn code(&self) -> u32 {
        match self {
            Self::Stream(_) | Self::Read(_) => BROKEN_OFF,
            Self::Shorter => SHORTER,
            Self::Changed => CHANGED,
        }
    }
}

/// Size and time of the last change of what is in a file. Two that differ are of different content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    bytes: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        Self {
            bytes: metadata.len(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        }
    }
}

/// A file to send, and what it was like when it was opened.
#[derive(Debug)]
pub struct Source {
    file: File,
    version: Version,
}

impl Source {
    /// Opens a plain file. To be called where blocking is allowed.
    ///
    /// # Errors
    /// Those of opening; [`ErrorKind::InvalidInput`] if it is not a plain file, or has no size, as
    /// the kernel's files in `/proc`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(open_plain(path)?)
    }

    /// A file that is open.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn new(file: File) -> io::Result<Self> {
        let version = Version::of(&file.metadata()?);
        if version.bytes == 0 && file.read_at(&mut [0], 0)? > 0 {
            let why = "the system does not say how many bytes it has; copy it, and send the copy";
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        Ok(Self { file, version })
    }

    /// Its size.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.version.bytes
    }

    /// Changes when the file does.
    #[must_use]
    pub fn tag(&self) -> String {
        let Version {
            bytes,
            seconds,
            nanoseconds,
        } = self.version;
        let modified = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        // Before 1970 all are one.
        format!("{bytes:x}-{:x}", modified.max(0))
    }

    /// Fills `part` with the bytes at `position`.
    ///
    /// # Errors
    /// [`SendError::Shorter`], or what reading fails with.
    pub(super) fn read(&self, part: &mut [u8], position: u64) -> Result<(), SendError> {
        self.file
            .read_exact_at(part, position)
            .map_err(|error| match error.kind() {
                ErrorKind::UnexpectedEof => SendError::Shorter,
                _ => SendError::Read(error),
            })
    }

    /// Checks, after the last read, that no process changed the file while it was read.
    ///
    /// # Errors
    /// [`SendError::Shorter`] and [`SendError::Changed`].
    pub(super) fn check(&self) -> Result<(), SendError> {
        let now = Version::of(&self.file.metadata()?);
        if now == self.version {
            Ok(())
        } else if now.bytes < self.version.bytes {
            Err(SendError::Shorter)
        } else {
            Err(SendError::Changed)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nix::sys::stat::Mode;

    use super::*;

    #[test]
    fn what_is_no_plain_file_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        for path in [pipe.as_path(), directory.path(), Path::new("/dev/null")] {
            let error = Source::open(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}", path.display());
        }
        // It has bytes, and a size of 0.
        let error = Source::open(Path::new("/proc/self/status")).unwrap_err();
        assert!(error.to_string().contains("how many bytes"), "{error}");
    }

    #[test]
    fn a_file_that_changed_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, [1; 10]).unwrap();
        let source = Source::open(&path).unwrap();
        source.check().unwrap();
        // Of the same size, by a writer that sets the time itself: the clock of files is coarse.
        fs::write(&path, [2; 10]).unwrap();
        let writer = File::options().write(true).open(&path).unwrap();
        let later = fs::metadata(&path).unwrap().modified().unwrap();
        let later = later + std::time::Duration::from_nanos(1);
        writer.set_modified(later).unwrap();
        assert!(matches!(source.check(), Err(SendError::Changed)));
        writer.set_len(9).unwrap();
        assert!(matches!(source.check(), Err(SendError::Shorter)));
        let read = source.read(&mut [0; 10], 0);
        assert!(matches!(read, Err(SendError::Shorter)));
        writer.set_len(11).unwrap();
        assert!(matches!(source.check(), Err(SendError::Changed)));
    }
}
