//! The sockets for clients, with their owners; and the client of the status socket, for `show` and
//! `capacity`.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use super::exchange::Query;
use crate::tun::sys;

/// A socket that cannot be created, or does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Another program listens on the status socket.
    #[error("another program listens on {}: stop it, or choose another `control`", .0.display())]
    InUse(PathBuf),
    /// Another kind of file is at the status socket's path.
    #[error("{} is there and is no socket: remove it, or choose another `control`", .0.display())]
    NoSocket(PathBuf),
    /// The directory of the status socket does not exist.
    #[error("there is no directory {}: make it, or choose another `control`", .0.display())]
    NoDirectory(PathBuf),
    /// The status socket cannot be created.
    #[error("cannot make the status socket {}: {source}", .path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The TCP address is not available.
    #[error("cannot listen on {address} for metrics: {source}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// No router answers.
    #[error("no router answers on {}: is it running, and is this its `control` socket? \
        ({source})", .path.display())]
    Silent {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Checks whether a status socket can be created at `path`. True: `path` is a socket without a
/// listener.
///
/// # Errors
/// The errors of [`bind`] that can be detected without creating the socket.
pub(super) fn vacant(path: &Path) -> Result<bool, ControlError> {
    let failed = |source| ControlError::Socket {
        path: path.to_owned(),
        source,
    };
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            return if directory.is_dir() {
                Ok(false)
            } else {
                Err(ControlError::NoDirectory(directory.to_owned()))
            };
        }
        Err(error) => return Err(failed(error)),
    };
    if !found.file_type().is_socket() {
        return Err(ControlError::NoSocket(path.to_owned()));
    }
    match sys::try_connect(path) {
        // Only this error proves that no process listens. A socket with a full queue, or of
        // another kind, is in use.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(failed(error)),
        _ => Err(ControlError::InUse(path.to_owned())),
    }
}

/// Binds a Unix socket. An abandoned socket is replaced; any other file stays.
///
/// # Errors
/// [`ControlError`].
pub fn bind(path: &Path) -> Result<(Socket, UnixListener), ControlError> {
    let failed = |source| ControlError::Socket {
        path: path.to_owned(),
        source,
    };
    if vacant(path)? {
        fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let place = hold(path).map_err(failed)?;
    sys::set_mode(&place, 0o660).map_err(failed)?;
    let found = place.metadata().map_err(failed)?;
    let socket = Socket {
        path: path.to_owned(),
        inode: (found.dev(), found.ino()),
        place,
    };
    Ok((socket, listener))
}

/// Opens the socket that was just bound to `path`. In the meantime, a user with write access to
/// the directory may have replaced it by a link, or by another name of a foreign socket.
fn hold(path: &Path) -> io::Result<File> {
    let place = sys::place(path)?;
    let found = place.metadata()?;
    let own = found.uid() == sys::effective_user() && found.nlink() == 1;
    if found.file_type().is_socket() && own {
        Ok(place)
    } else {
        Err(io::Error::other("something else was put in its place"))
    }
}

/// Binds a socket for Prometheus text over HTTP. Returns its address, with a port chosen by the
/// system if `address` has none.
pub(super) fn bind_tcp(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ControlError> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let own = listener.local_addr()?;
        Ok((listener, own))
    };
    listen().map_err(|source| ControlError::Metrics { address, source })
}

/// A bound status socket, removed when dropped.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    /// Device and inode, which distinguish it from a socket that has replaced it.
    inode: (u64, u64),
    /// The socket itself, regardless of what its path now names.
    place: File,
}

impl Socket {
    /// Transfers it to another user.
    pub(super) fn give_to(&self, identity: sys::Identity) -> io::Result<()> {
        sys::give_to(&self.place, identity)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let own = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.inode);
        if own {
            // This user may have lost access to the directory, but the next start replaces a
            // socket without a listener.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Timeout for the connection, the query and the complete answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum length of an answer in bytes, which allows several kilobytes for each of 10,000
/// ports.
const LONGEST: usize = 64 << 20;

/// Sends a query to a running router and returns its answer.
///
/// # Errors
/// [`ControlError::Silent`].
pub fn ask(path: &Path, query: &Query) -> Result<String, ControlError> {
    talk(path, query, PATIENCE, LONGEST).map_err(|source| ControlError::Silent {
        path: path.to_owned(),
        source: match source.kind() {
            io::ErrorKind::TimedOut => io::Error::new(source.kind(), "it took longer than 5 s"),
            _ => source,
        },
    })
}

/// Turns "would block", which a socket returns after its timeout, into "timed out".
fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

fn talk(path: &Path, query: &Query, patience: Duration, longest: usize) -> io::Result<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a command waits for its answer in real time"
    )]
    let now = Instant::now;
    let until = now() + patience;
    let mut stream = sys::connect_within(path, patience)?;
    let left = || match until.saturating_duration_since(now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(Some(left)),
    };
    stream.set_write_timeout(left()?)?;
    writeln!(stream, "{query}").map_err(in_time)?;
    let mut answer = Vec::new();
    let mut piece = [0; 64 * 1024];
    loop {
        stream.set_read_timeout(left()?)?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(len) if answer.len() + len > longest => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the answer is too long",
                ));
            }
            Ok(len) => answer.extend_from_slice(piece.get(..len).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(in_time(error)),
        }
    }
    String::from_utf8(answer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::os::unix::net::UnixListener;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    /// A path for a socket, in a directory of its own.
    fn place() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        (dir, path)
    }

    #[test]
    fn only_a_socket_without_listener_is_replaced() {
        let (_dir, path) = place();
        // A file, a directory and a link stay as they are.
        fs::write(&path, "precious").unwrap();
        let refused = |part: &str| {
            let error = bind(&path).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused("is there and is no socket: remove it");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refused("is no socket");
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        refused("is no socket");
        fs::remove_file(&path).unwrap();
        // So does the socket of a live process, whatever its kind.
        let other = UnixDatagram::bind(&path).unwrap();
        refused("another program listens on ");
        drop(other);
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        refused("another program listens on ");
        drop(other);
        let (_socket, _listener) = bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    /// If another file replaces the socket before it is handed over, this file keeps its mode
    /// and owner.
    #[test]
    fn only_the_socket_itself_is_handed_over() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let (dir, path) = place();
        let secret = dir.path().join("secret");
        fs::write(&secret, "").unwrap();
        fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        symlink(&secret, &path).unwrap();
        assert!(hold(&path).is_err());
        fs::remove_file(&path).unwrap();
        fs::hard_link(&secret, &path).unwrap();
        assert!(hold(&path).is_err());
        fs::remove_file(&path).unwrap();
        let (socket, _listener) = bind(&path).unwrap();
        assert_eq!(mode(&path), 0o660);
        let moved = dir.path().join("moved");
        fs::rename(&path, &moved).unwrap();
        symlink(&secret, &path).unwrap();
        sys::set_mode(&socket.place, 0o640).unwrap();
        let own = fs::metadata(&secret).unwrap();
        let (user, group) = (own.uid(), own.gid());
        socket.give_to(sys::Identity { user, group }).unwrap();
        assert_eq!((mode(&moved), mode(&secret)), (0o640, 0o600));
    }

    /// The queue of a process that does not accept will be full at some point, although the
    /// process is alive.
    #[test]
    fn a_full_queue_is_somebodys() {
        let (_dir, path) = place();
        let listener = UnixListener::bind(&path).unwrap();
        sys::set_backlog(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = sys::try_connect(&path) {
            waiting.push(stream);
            assert!(waiting.len() < 100, "the queue has no end");
        }
        assert!(matches!(bind(&path), Err(ControlError::InUse(_))));
    }

    #[test]
    fn only_its_own_socket_is_removed() {
        let (_dir, path) = place();
        let (socket, listener) = bind(&path).unwrap();
        drop((socket, listener));
        assert!(!path.exists());
        let (socket, _listener) = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(socket);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = bind(Path::new("/nonexistent/run/control.sock")).unwrap_err();
        let expected =
            "there is no directory /nonexistent/run: make it, or choose another `control`";
        assert_eq!(error.to_string(), expected);
    }

    const SHORT: Duration = Duration::from_millis(100);

    /// A listener that does not accept connections must not block the command.
    #[test]
    fn a_queue_that_stays_full_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        sys::set_backlog(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = sys::try_connect(&path) {
            waiting.push(stream);
        }
        let error = talk(&path, &Query::Json, SHORT, LONGEST).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    /// Endless answers, fast or slow, must be cut off.
    #[test]
    fn an_answer_without_end_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            for piece in [&[b'x'; 1000][..], b""] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                io::BufReader::new(&stream).read_line(&mut line).unwrap();
                assert_eq!(line, "json\n");
                while !piece.is_empty() && stream.write_all(piece).is_ok() {}
                // Until the other side closes.
                while matches!(stream.read(&mut [0]), Ok(1..)) {}
            }
        });
        let error = talk(&path, &Query::Json, PATIENCE, 50_000).unwrap_err();
        assert_eq!(error.to_string(), "the answer is too long");
        let error = talk(&path, &Query::Json, SHORT, LONGEST).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error:?}");
        server.join().unwrap();
    }
}
