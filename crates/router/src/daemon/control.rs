//! The status socket, and the TCP address that answers with Prometheus text.
//!
//! A client sends one line, `json`, `metrics` or `capacity PORT RATE`, gets the answer and the end of the connection. Slow clients hold up other
//! clients for a second at most, and packets never: the loop that moves them only takes a snapshot.

use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use super::prometheus;
use super::snapshot::Snapshot;
use crate::config::RateValue;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// The state as JSON.
    Json,
    /// Prometheus text.
    Metrics,
    /// That a port's control law reckon with another capacity.
    Capacity(Hint),
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json => f.write_str("json"),
            Self::Metrics => f.write_str("metrics"),
            Self::Capacity(Hint { port, rate }) => match rate {
                Some(rate) => write!(f, "capacity {port} {rate}"),
                None => write!(f, "capacity {port} none"),
            },
        }
    }
}

impl FromStr for Query {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let line = line.trim();
        match line {
            "json" | "" => return Ok(Self::Json),
            "metrics" => return Ok(Self::Metrics),
            _ => {}
        }
        // A port's name may have spaces, a rate has none.
        let hint = line.strip_prefix("capacity ");
        let Some((port, rate)) = hint.and_then(|hint| hint.trim_start().rsplit_once(' ')) else {
            return Err("ask for json, metrics or capacity PORT RATE".to_owned());
        };
        let rate = match rate {
            "none" => None,
            rate => match rate.parse::<RateValue>() {
                Ok(rate) if rate.bytes() > 0 => Some(rate),
                Err(error) => return Err(error.to_string()),
                Ok(_) => return Err("a capacity is at least 8bit, or none".to_owned()),
            },
        };
        let port = port.trim_end().to_owned();
        Ok(Self::Capacity(Hint { port, rate }))
    }
}

/// What a port's control law may reckon with, by the word of someone who sees the link behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The port's name.
    pub port: String,
    /// The capacity; `None`: what the configuration says.
    pub rate: Option<RateValue>,
}

/// What the loop that moves packets is asked to do.
#[derive(Debug)]
pub(super) enum Request {
    /// To say how things are.
    Snapshot(SyncSender<Snapshot>),
    /// To tell a port of a capacity, and whether there is such a port.
    Capacity(Hint, SyncSender<bool>),
}

/// Requests, and the descriptor that becomes readable with each.
#[derive(Debug)]
pub(super) struct Desk {
    requests: Receiver<Request>,
    bell: UnixStream,
    desk: SyncSender<Request>,
    ringer: UnixStream,
    /// Bound, but not served yet.
    doors: Vec<Door>,
}

/// A socket on which clients knock.
#[derive(Debug)]
enum Door {
    Unix(UnixListener),
    Tcp(TcpListener),
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
            doors: Vec::new(),
        })
    }

    pub(super) fn bell(&self) -> &UnixStream {
        &self.bell
    }

    /// What has been asked for.
    pub(super) fn requests(&self) -> impl Iterator<Item = Request> {
        let mut rings = [0; 16];
        while matches!((&self.bell).read(&mut rings), Ok(1..)) {}
        self.requests.try_iter()
    }

    fn client(&self) -> io::Result<Client> {
        Ok(Client {
            desk: self.desk.clone(),
            ringer: self.ringer.try_clone()?,
        })
    }

    /// Binds a Unix socket.
    pub(super) fn bind(&mut self, path: &Path) -> Result<Socket, ControlError> {
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
        self.doors.push(Door::Unix(listener));
        Ok(Socket(path.to_owned()))
    }

    /// Binds a socket for Prometheus text over HTTP.
    pub(super) fn bind_tcp(&mut self, address: SocketAddr) -> Result<(), ControlError> {
        let listener = TcpListener::bind(address)
            .map_err(|source| ControlError::Metrics { address, source })?;
        self.doors.push(Door::Tcp(listener));
        Ok(())
    }

    /// Serves the sockets that are bound, each in a thread. To be called once privileges are given up: a thread keeps those that
    /// it was born with.
    ///
    /// # Errors
    /// Those of copying a descriptor or starting a thread.
    pub(super) fn open(&mut self) -> io::Result<()> {
        for door in std::mem::take(&mut self.doors) {
            let client = self.client()?;
            std::thread::Builder::new().spawn(move || match door {
                Door::Unix(listener) => {
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
                }
                Door::Tcp(listener) => {
                    for stream in listener.incoming().flatten() {
                        let timeouts = (
                            stream.set_read_timeout(Some(PATIENCE)),
                            stream.set_write_timeout(Some(PATIENCE)),
                        );
                        if let (Ok(()), Ok(())) = timeouts {
                            let _ = client.http(&stream);
                        }
                    }
                }
            })?;
        }
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
    desk: SyncSender<Request>,
    ringer: UnixStream,
}

impl Client {
    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> Request) -> io::Result<T> {
        let gone = |_| io::Error::other("the router has stopped");
        let (reply, answer) = mpsc::sync_channel(1);
        self.desk.send(request(reply)).map_err(|_| gone(()))?;
        (&self.ringer).write_all(&[1])?;
        answer.recv().map_err(|_| gone(()))
    }

    fn snapshot(&self) -> io::Result<Snapshot> {
        self.ask(Request::Snapshot)
    }

    fn capacity(&self, hint: Hint) -> io::Result<serde_json::Value> {
        let (port, bits) = (hint.port.clone(), hint.rate.map(|rate| rate.bits));
        let known = self.ask(|reply| Request::Capacity(hint, reply))?;
        Ok(if known {
            serde_json::json!({ "port": port, "capacity_bps": bits })
        } else {
            serde_json::json!({ "error": format!("no port is called `{port}`") })
        })
    }

    fn unix(&self, mut stream: &UnixStream) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
        let text = match line.parse() {
            Ok(Query::Metrics) => prometheus::render(&self.snapshot()?),
            Ok(Query::Json) => serde_json::to_string(&self.snapshot()?)? + "\n",
            Ok(Query::Capacity(hint)) => self.capacity(hint)?.to_string() + "\n",
            Err(error) => serde_json::json!({ "error": error }).to_string() + "\n",
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
pub fn ask(path: &Path, query: &Query) -> Result<String, ControlError> {
    let talk = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(5 * PATIENCE))?;
        writeln!(stream, "{query}")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    talk().map_err(|source| ControlError::Silent {
        path: path.to_owned(),
        source,
    })
}
