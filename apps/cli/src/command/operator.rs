//! Additions of `serve` to an origin's connections: laws that clients can choose, a report of
//! the sender after each file, and with `--access-log` a line of JSON per request. A separate
//! thread writes these lines, so that a full disk or a missing reader loses lines but never delays
//! a transfer.
//!
//! | field | in | value |
//! |---|---|---|
//! | `pathmark-law` | request | the requested law, or `?1` for any |
//! | `pathmark-law` | response | the law with which the server sends |
//! | `pathmark-report` | trailers | [`SenderReport`] in JSON, if the request has `pathmark-law` |

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use pathmark::Connection;
use pathmark_cc::Algorithm;
use pathmark_http3::fields::PathName;
use pathmark_http3::http::header::{HeaderName, HeaderValue};
use pathmark_http3::http::{HeaderMap, Method, Request, StatusCode};
use pathmark_http3::origin::{End, Grant, Record, Steward, Tunnelling};
use pathmark_http3::plan::Reply;
use pathmark_http3::resource::is_reserved;
use pathmark_http3::wire::{ServerExchange, TcpConnection};
use pathmark_proxy::server::{Proxy, Session};
use pathmark_transport::crypto::tls::Pin;
use serde::Serialize;

use super::clients::Clients;
use super::{output, session};
use crate::report::SenderReport;

/// The field for a law.
pub(super) const LAW: HeaderName = HeaderName::from_static("pathmark-law");
/// The value with which a client leaves the choice of the law to the server.
pub(super) const ANY_LAW: &str = "?1";
/// The field for the sender's report.
pub(super) const REPORT: HeaderName = HeaderName::from_static("pathmark-report");

/// The laws that an operator lists. The endpoint uses the first law for clients that don't request
/// any listed law.
#[derive(Clone, Debug)]
pub(super) struct Laws(Arc<[Algorithm]>);

impl Laws {
    pub(super) fn new(laws: Vec<Algorithm>) -> Self {
        Self(laws.into())
    }

    /// Finds the law that a client requests, either exactly or by name with the operator's options.
    fn choose(&self, wish: &str) -> Option<usize> {
        let law = Algorithm::parse(wish).ok()?;
        let exactly = self.0.iter().position(|listed| *listed == law);
        let bare = wish == law.name();
        let named = |listed: &Algorithm| bare && listed.name() == law.name();
        exactly.or_else(|| self.0.iter().position(named))
    }
}

/// State shared by all connections of a server.
#[derive(Clone, Debug)]
pub(super) struct House {
    pub(super) laws: Laws,
    /// The clients that the operator lists. A new list replaces the previous list.
    pub(super) clients: Option<Arc<RwLock<Arc<Clients>>>>,
    pub(super) log: Option<AccessLog>,
    /// The proxy on the same port.
    pub(super) proxy: Option<Proxy>,
}

/// The operator of one connection.
#[derive(Debug)]
pub(super) struct Operator {
    /// The connection, unless it is one of TCP.
    connection: Option<Connection>,
    client: SocketAddr,
    /// The pin of the certificate that the client presented.
    shown: Option<Pin>,
    house: House,
    /// The proxy's session for the connection.
    flows: Option<Session>,
    /// The index of the law that was chosen first. Later choices are ignored, because each
    /// change would restart with a fresh window.
    chosen: OnceLock<usize>,
}

impl Operator {
    /// Creates the operator of a connection whose handshake is complete.
    pub(super) fn new(connection: Connection, house: House) -> Self {
        Self {
            flows: house.proxy.as_ref().map(|proxy| proxy.session(&connection)),
            client: connection.remote_address(),
            shown: shown(&connection.peer_certificates()),
            connection: Some(connection),
            house,
            chosen: OnceLock::new(),
        }
    }

    /// Does the same for a connection over TCP, whose law is that of the system.
    pub(super) fn over_tcp(connection: &TcpConnection, house: House) -> Self {
        Self {
            flows: None,
            client: connection.remote_address(),
            shown: shown(&connection.peer_certificates()),
            connection: None,
            house,
            chosen: OnceLock::new(),
        }
    }

    /// Applies the client's `wish`, and returns the law that sends to it.
    fn law(&self, wish: &str) -> Option<&Algorithm> {
        let connection = self.connection.as_ref()?;
        let chosen = match self.house.laws.choose(wish) {
            Some(wanted) => *self.chosen.get_or_init(|| {
                if let Some(law) = self.house.laws.0.get(wanted)
                    && wanted > 0
                {
                    connection.set_controller(pathmark::controller(law));
                    if let Some(signal) = pathmark::signal(law) {
                        // A client that doesn't support this signal gets the law's fallback.
                        let _ = connection.set_signal(signal);
                    }
                }
                wanted
            }),
            None => self.chosen.get().copied().unwrap_or(0),
        };
        self.house.laws.0.get(chosen)
    }
}

/// Returns the pin of the certificate that a client presented.
fn shown(chain: &[Vec<u8>]) -> Option<Pin> {
    chain.first().map(|certificate| Pin::of(certificate))
}

/// Returns a single field, or none if the value is invalid.
fn field(name: HeaderName, value: &str) -> HeaderMap {
    let mut fields = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(value) {
        fields.insert(name, value);
    }
    fields
}

impl House {
    /// Returns the rights of the client with this name.
    pub(super) fn grant(&self, name: &str) -> Option<Arc<Grant>> {
        self.clients()?.grant(name)
    }

    /// Returns the current list of clients.
    pub(super) fn clients(&self) -> Option<Arc<Clients>> {
        let clients = self.clients.as_ref()?;
        let clients = clients.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&clients))
    }
}

/// Removes the token of an unfinished upload from a path, because whoever reads the access log
/// could continue the upload with it.
fn logged(path: &str) -> Cow<'_, str> {
    let parsed = PathName::parse(path.as_bytes());
    let is_secret = |parsed: PathName| parsed.names.last().is_some_and(|name| is_reserved(name));
    let above = path.trim_end_matches('/').rsplit_once('/');
    match above {
        Some((above, _)) if parsed.is_ok_and(is_secret) => {
            Cow::Owned(format!("{above}/.pathmark-*.part"))
        }
        _ => Cow::Borrowed(path),
    }
}

impl Operator {
    /// Writes a line to the access log.
    fn log(&self, log: &AccessLog, record: &Record<'_>) {
        let clients = self.house.clients();
        let report = self.connection.as_ref().map(SenderReport::of);
        let largest = report.and_then(|report| report.bounded_by.largest());
        log.log(&Line {
            time: session::unix_time().as_secs_f64(),
            client: clients
                .as_ref()
                .and_then(|clients| clients.name(record.request, self.shown)),
            address: self.client.to_string(),
            method: record.request.method().as_str(),
            path: &logged(record.request.uri().path()),
            status: record.status,
            bytes: record.bytes,
            seconds: record.took.as_secs_f64(),
            bounded_by: largest.filter(|_| record.bytes > 0),
            error: match record.end {
                End::Done | End::Part => None,
                End::Refused(why) | End::BrokenOff(why) => Some(why),
            },
        });
    }
}

impl Steward for Operator {
    fn admit(&self, request: &Request<()>) -> Result<Option<Arc<Grant>>, Box<Reply>> {
        let clients = self.house.clients();
        clients
            .map(|clients| clients.admit(request, self.shown))
            .transpose()
    }

    fn begin(&self, request: &Request<()>) -> HeaderMap {
        let wish = request.headers().get(LAW);
        let law = wish.and_then(|wish| self.law(wish.to_str().unwrap_or_default()));
        law.map_or_else(HeaderMap::new, |law| field(LAW, &law.to_string()))
    }

    fn end(&self, request: &Request<()>) -> HeaderMap {
        let Some(connection) = &self.connection else {
            return HeaderMap::new();
        };
        if !request.headers().contains_key(LAW) {
            return HeaderMap::new();
        }
        let report = serde_json::to_string(&SenderReport::of(connection));
        field(REPORT, &report.unwrap_or_default())
    }

    fn tunnels(&self) -> usize {
        self.flows.as_ref().map_or(0, Session::streams)
    }

    fn connect(&self, request: Request<()>, exchange: ServerExchange) -> Tunnelling<'_> {
        Box::pin(async move {
            if let Some(flows) = &self.flows {
                flows.respond(&request, exchange).await;
            }
        })
    }

    fn ended(&self, record: &Record<'_>) {
        if let Some(log) = &self.house.log {
            self.log(log, record);
        }
        let (client, bytes) = (self.client, record.bytes);
        let path = record.path;
        let name = match PathName::parse(path.as_bytes()) {
            Ok(path) => super::target::shown(&path),
            Err(_) => path.to_owned(),
        };
        match (record.request.method(), record.end) {
            // A token may be a guess.
            (_, End::Refused(reason)) if record.status == StatusCode::UNAUTHORIZED => {
                tracing::info!(%client, name, reason, "refused");
            }
            (&Method::HEAD | &Method::OPTIONS, end) => {
                tracing::debug!(%client, name, ?end, "looked at");
            }
            // Clients request the listing of a directory before storing it.
            (&Method::GET, End::Refused(_)) if record.status == 404 && path.ends_with('/') => {
                tracing::debug!(%client, name, "there is no such directory");
            }
            (_, End::Refused(reason)) => tracing::info!(%client, name, reason, "refused"),
            (_, End::BrokenOff(error)) => tracing::info!(%client, name, error, "broke off"),
            (_, End::Part) => tracing::info!(%client, name, bytes, "stored in part"),
            (&Method::PUT | &Method::PATCH, End::Done) => {
                tracing::info!(%client, name, bytes, "stored");
            }
            (&Method::DELETE, End::Done) => tracing::info!(%client, name, "given up"),
            (_, End::Done) => tracing::info!(%client, name, bytes, "sent"),
        }
    }
}

/// Maximum number of waiting lines.
const WAITING: usize = 4096;
/// Maximum time to wait for the last lines.
const SETTLE: Duration = Duration::from_secs(1);
/// The name of the standard output.
const OUT: &str = "-";

/// A request.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    /// When it ended, in seconds since 1970-01-01 UTC.
    pub(super) time: f64,
    /// The client's name in the list of clients.
    pub(super) client: Option<&'a str>,
    pub(super) address: String,
    pub(super) method: &'a str,
    /// The path as the client sent it, but without an upload's token.
    pub(super) path: &'a str,
    /// The status, or 0 without a response.
    pub(super) status: u16,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// The limit that held the sender back most, over the whole connection.
    pub(super) bounded_by: Option<&'static str>,
    pub(super) error: Option<&'a str>,
}

/// A message to the thread.
#[derive(Debug)]
enum Message {
    Line(String),
    Reopen,
    /// All lines before this one are written.
    Settle(SyncSender<()>),
}

/// The access log.
#[derive(Clone, Debug)]
pub(super) struct AccessLog {
    lines: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl AccessLog {
    /// Begins logging to a file or to the standard output.
    ///
    /// # Errors
    /// Fails if the file can't be opened or the thread can't be started.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let opened = open(path).with_context(|| format!("cannot write {}", path.display()))?;
        let (lines, messages) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let (path, counter) = (path.to_owned(), Arc::clone(&lost));
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write(&path, opened, &messages, &counter))?;
        Ok(Self { lines, lost })
    }

    pub(super) fn log(&self, line: &impl Serialize) {
        let Ok(text) = output::json_text(line) else {
            return;
        };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.lines.try_send(Message::Line(text))
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines are written, unless the disk takes them too slowly.
    pub(super) fn settle(&self) {
        let (tell, settled) = sync_channel(1);
        if self.lines.try_send(Message::Settle(tell)).is_ok() {
            let _ = settled.recv_timeout(SETTLE);
        }
    }

    /// Reopens the file by its name, after the previous one was moved away.
    pub(super) fn reopen(&self) {
        // If the queue is full, the thread continues with the old file.
        let _ = self.lines.try_send(Message::Reopen);
    }
}

fn open(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    if path.as_os_str() == OUT {
        return Ok(Box::new(io::stdout()));
    }
    // Opening a pipe only for writing would wait for its reader.
    let is_pipe = std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo());
    let mut options = OpenOptions::new();
    let file: File = options.read(is_pipe).append(true).create(true).open(path)?;
    Ok(Box::new(file))
}

/// Writes lines until the log is dropped.
fn write(
    path: &Path,
    opened: Box<dyn Write + Send>,
    messages: &Receiver<Message>,
    lost: &AtomicU64,
) {
    let (mut file, mut failing) = (Some(opened), false);
    while let Ok(message) = messages.recv() {
        let line = match message {
            Message::Line(line) => line,
            Message::Reopen => {
                file = None;
                continue;
            }
            Message::Settle(tell) => {
                let _ = tell.try_send(());
                continue;
            }
        };
        let out = match file.as_mut() {
            Some(out) => Ok(out),
            None => open(path).map(|opened| file.insert(opened)),
        };
        let written = out.and_then(|out| out.write_all(line.as_bytes()).and_then(|()| out.flush()));
        match written {
            Ok(()) if failing => {
                let lost = lost.swap(0, Ordering::Relaxed);
                output::note!(
                    "pathmark: the access log is written again; {lost} lines are missing"
                );
                failing = false;
            }
            Ok(()) => {}
            Err(error) => {
                lost.fetch_add(1, Ordering::Relaxed);
                file = None;
                if !failing {
                    output::note!("pathmark: cannot write {}: {error}", path.display());
                }
                failing = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_of_an_upload_is_logged() {
        let token = "0123456789abcdef0123456789abcdef";
        for (name, above) in [
            (format!("/in/.pathmark-{token}.part"), "/in"),
            (format!("/%2Epathmark-{token}.part"), ""),
            (format!("/in/.PathMark-{token}-put.part/"), "/in"),
        ] {
            assert_eq!(logged(&name), format!("{above}/.pathmark-*.part"));
        }
        for path in ["/", "/in/pathmark.part", "/.pathmark-a/b", "*"] {
            assert_eq!(logged(path), path);
        }
    }

    #[test]
    fn clients_choose_among_what_is_listed() {
        let laws = ["vcp+bise+wlte", "xcp", "xcp[form=compact]", "cubic[iw=20]"];
        let laws = Laws::new(laws.iter().map(|law| law.parse().unwrap()).collect());
        for (wish, chosen) in [
            ("vcp+bise+wlte", Some(0)),
            ("xcp", Some(1)),
            ("xcp[form=compact]", Some(2)),
            // Only by name, using the operator's options.
            ("cubic", Some(3)),
            ("cubic[iw=20]", Some(3)),
            ("cubic[iw=10000]", None),
            ("xcp[loss=ignore]", None),
            ("vcp", None),
            ("vcp+bise+wlte[alpha=10]", None),
            ("no such law", None),
            (ANY_LAW, None),
            ("", None),
        ] {
            assert_eq!(laws.choose(wish), chosen, "{wish}");
        }
        assert_eq!(Laws::new(Vec::new()).choose("cubic"), None);
    }
}
