//! The status socket, and the TCP address that answers with Prometheus text.
//!
//! A client sends one line, `json` or `metrics`, gets the answer and the end of the connection. Slow clients hold up other
//! clients for a second at most, and packets never: the loop that moves them only takes a snapshot.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use super::prometheus;
use super::snapshot::Snapshot;

/// How long a client may take for its line, or for reading the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest request that is read.
const LONGEST: u64 = 8 * 1024;

/// A socket that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The status socket is alive.
    #[error("another router answers on {}: stop it, or choose another `control`", .0.display())]
    InUse(PathBuf),
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
    #[error("no router answers on {}: is it running, and is this its `control` socket? ({source})", .path.display())]
    Silent {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// The state as JSON.
    Json,
    /// Prometheus text.
    Metrics,
}

impl Query {
    const fn word(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Metrics => "metrics",
        }
    }
}

/// Requests for snapshots, and the descriptor that becomes readable with each.
#[derive(Debug)]
pub(super) struct Desk {
    requests: Receiver<SyncSender<Snapshot>>,
    bell: UnixStream,
    desk: SyncSender<SyncSender<Snapshot>>,
    ringer: UnixStream,
}

impl Desk {
    pub(super) fn new() -> io::Result<Self> {
        let (bell, ringer) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let (desk, requests) = mpsc::sync_channel(4);
        Ok(Self {
            requests,
            bell,
            desk,
            ringer,
        })
    }

    pub(super) fn bell(&self) -> &UnixStream {
        &self.bell
    }

    /// Answers everyone who has asked.
    pub(super) fn serve(&self, mut snapshot: impl FnMut() -> Snapshot) {
        let mut rings = [0; 16];
        while matches!((&self.bell).read(&mut rings), Ok(1..)) {}
        for reply in self.requests.try_iter() {
            // A client that has gone away in the meantime needs no answer.
            let _ = reply.try_send(snapshot());
        }
    }

    fn client(&self) -> io::Result<Client> {
        Ok(Client {
            desk: self.desk.clone(),
            ringer: self.ringer.try_clone()?,
        })
    }

    /// Serves a Unix socket.
    pub(super) fn listen(&self, path: &Path) -> Result<Socket, ControlError> {
        let failed = |source| ControlError::Socket {
            path: path.to_owned(),
            source,
        };
        if UnixStream::connect(path).is_ok() {
            return Err(ControlError::InUse(path.to_owned()));
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o660)).map_err(failed)?;
        let client = self.client().map_err(failed)?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let timeouts = (
                    stream.set_read_timeout(Some(PATIENCE)),
                    stream.set_write_timeout(Some(PATIENCE)),
                );
                if let (Ok(()), Ok(())) = timeouts {
                    // A client that breaks off harms only itself.
                    let _ = client.unix(&stream);
                }
            }
        });
        Ok(Socket(path.to_owned()))
    }

    /// Serves Prometheus text over HTTP.
    pub(super) fn listen_tcp(&self, address: SocketAddr) -> Result<(), ControlError> {
        let failed = |source| ControlError::Metrics { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let client = self.client().map_err(failed)?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let timeouts = (
                    stream.set_read_timeout(Some(PATIENCE)),
                    stream.set_write_timeout(Some(PATIENCE)),
                );
                if let (Ok(()), Ok(())) = timeouts {
                    let _ = client.http(&stream);
                }
            }
        });
        Ok(())
    }
}

/// A bound status socket, removed when dropped.
#[derive(Debug)]
pub(super) struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        // The directory may not be this user's any more; a socket without listener is replaced at the next start.
        let _ = fs::remove_file(&self.0);
    }
}

/// The side of the threads that talk to clients.
struct Client {
    desk: SyncSender<SyncSender<Snapshot>>,
    ringer: UnixStream,
}

impl Client {
    fn snapshot(&self) -> io::Result<Snapshot> {
        let gone = |_| io::Error::other("the router has stopped");
        let (reply, answer) = mpsc::sync_channel(1);
        self.desk.send(reply).map_err(|_| gone(()))?;
        (&self.ringer).write_all(&[1])?;
        answer.recv().map_err(|_| gone(()))
    }

    fn unix(&self, mut stream: &UnixStream) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
        let text = match line.trim() {
            "metrics" => prometheus::render(&self.snapshot()?),
            "json" | "" => serde_json::to_string(&self.snapshot()?)? + "\n",
            other => format!(
                "{{\"error\":\"unknown request, ask for json or metrics\",\"length\":{}}}\n",
                other.len()
            ),
        };
        stream.write_all(text.as_bytes())
    }

    fn http(&self, mut stream: impl Read + Write + Copy) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
        let (status, body) = match line.split(' ').take(2).collect::<Vec<_>>().as_slice() {
            ["GET", "/metrics" | "/"] => ("200 OK", prometheus::render(&self.snapshot()?)),
            ["GET", _] => ("404 Not Found", "try /metrics\n".to_owned()),
            _ => ("400 Bad Request", "try GET /metrics\n".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())
    }
}

/// Asks a running router.
///
/// # Errors
/// [`ControlError::Silent`].
pub fn ask(path: &Path, query: Query) -> Result<String, ControlError> {
    let talk = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(5 * PATIENCE))?;
        writeln!(stream, "{}", query.word())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    talk().map_err(|source| ControlError::Silent {
        path: path.to_owned(),
        source,
    })
}
