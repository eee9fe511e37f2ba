//! The sockets for clients, and their owners.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::tun::sys;

/// A socket that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The status socket is alive.
    #[error("another program listens on {}: stop it, or choose another `control`", .0.display())]
    InUse(PathBuf),
    /// Something else lies where the status socket belongs.
    #[error("{} is there and is no socket: remove it, or choose another `control`", .0.display())]
    NoSocket(PathBuf),
    /// The directory of the status socket is not there.
    #[error("there is no directory {}: make it, or choose another `control`", .0.display())]
    NoDirectory(PathBuf),
    /// The status socket cannot be made.
    #[error("cannot make the status socket {}: {source}", .path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The TCP address cannot be listened on.
    #[error("cannot listen on {address} for metrics: {source}")]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// No router answers.
    #[error("no router answers on {}: is it running, and is this its `control` socket? \
        ({source})", .path.display())]
    Silent {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Checks whether a status socket can be made at `path`. True: `path` is a socket without a
/// listener.
///
/// # Errors
/// Those errors of [`bind`] that can be found without making the socket.
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
            return match directory.is_dir() {
                true => Ok(false),
                false => Err(ControlError::NoDirectory(directory.to_owned())),
            };
        }
        Err(error) => return Err(failed(error)),
    };
    if !found.file_type().is_socket() {
        return Err(ControlError::NoSocket(path.to_owned()));
    }
    match sys::try_connect(path) {
        // Only this error proves that no process listens. A full queue or a socket of another kind
        // is in use.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(failed(error)),
        _ => Err(ControlError::InUse(path.to_owned())),
    }
}

/// Binds a Unix socket. A socket that a process left behind is replaced; any other file stays.
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

/// Opens the socket that was just bound to `path`. A user with write access to the directory may
/// have replaced it meanwhile by a link, or by another name of a foreign socket.
fn hold(path: &Path) -> io::Result<File> {
    let place = sys::place(path)?;
    let found = place.metadata()?;
    let own = found.uid() == sys::effective_user() && found.nlink() == 1;
    match found.file_type().is_socket() && own {
        true => Ok(place),
        false => Err(io::Error::other("something else was put in its place")),
    }
}

/// Binds a socket for Prometheus text over HTTP; returns its address, which has a port that the
/// system chose if `address` has none.
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
    /// Device and inode, which distinguish it from a socket that replaced it.
    inode: (u64, u64),
    /// The socket itself, wherever its path leads by now.
    place: File,
}

impl Socket {
    /// Makes it another user's.
    pub(super) fn give_to(&self, identity: sys::Identity) -> io::Result<()> {
        sys::give_to(&self.place, identity)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let own = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.inode);
        if own {
            // The directory may not be this user's any more; a socket without listener is replaced
            // at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    #[test]
    fn only_a_socket_without_listener_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        // A file, a directory and a link stay as they are.
        fs::write(&path, "precious").unwrap();
        assert!(matches!(bind(&path), Err(ControlError::NoSocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(bind(&path), Err(ControlError::NoSocket(_))));
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(matches!(bind(&path), Err(ControlError::NoSocket(_))));
        fs::remove_file(&path).unwrap();
        // So does the socket of a process that lives, of whatever kind.
        let other = UnixDatagram::bind(&path).unwrap();
        assert!(matches!(bind(&path), Err(ControlError::InUse(_))));
        drop(other);
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        assert!(matches!(bind(&path), Err(ControlError::InUse(_))));
        drop(other);
        let (_socket, _listener) = bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    /// What is put in the socket's place before it is handed over keeps its mode and its owner.
    #[test]
    fn only_the_socket_itself_is_handed_over() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let dir = tempfile::tempdir().unwrap();
        let (path, secret) = (dir.path().join("control.sock"), dir.path().join("secret"));
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

    /// A process that does not accept has a queue that is full in the end: it lives all the same.
    #[test]
    fn a_full_queue_is_somebodys() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
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
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
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
        assert_eq!(
            error.to_string(),
            "there is no directory /nonexistent/run: make it, or choose another `control`"
        );
    }
}
