//! Sends a client's requests, with a time limit on each step. Defines the errors of transfers.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use pathmark_driver as driver;
use sha2::{Digest, Sha256};

use super::plan::{Refusal, refusal};
use crate::fields::PathName;
use crate::pace::Pace;
use crate::resource::Stat;
use crate::root::Existing;
use crate::sink::blocking;
use crate::wire::{ClientExchange, ClientLink, LinkError, TcpConnection, within};

/// Maximum payload of a DATA frame in bytes. The server must accept each one within the time limit.
const FRAME: usize = 16 * 1024;
/// The slowest disk of a server to wait for, in bytes per second.
const SLOWEST_DISK: u64 = 10_000_000;
/// Maximum number of bytes to read of a refusal's content.
const MAX_PROBLEM: usize = 64 * 1024;

/// Limits on the client's resources that a server can use.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// Maximum size of a header section in bytes.
    pub head_bytes: u64,
    /// Time limit for the response to begin and for its trailer section, since a server may hash
    /// a file first.
    pub answer: Duration,
    /// Time without progress after which a transfer fails.
    pub stall: Duration,
    /// Maximum number of content bytes if the server announces no length. Such content also
    /// never takes more than half of the free space.
    pub unannounced: u64,
    /// The maximum rate of content in each direction.
    pub pace: Option<Pace>,
}

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The transfer begins.
    Begin {
        /// The file's size in bytes, if it is announced.
        bytes: Option<u64>,
        /// Bytes that are already there.
        offset: u64,
    },
    /// This number of further bytes arrived, or was handed to the transport.
    Bytes(u64),
    /// All bytes and their digest have arrived. The file must still be renamed and read back.
    Arrived,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            head_bytes: 64 * 1024,
            answer: Duration::from_secs(300),
            stall: Duration::from_secs(30),
            unannounced: u64::MAX,
            pace: None,
        }
    }
}

/// Fetches and stores files over one connection, which clones share.
#[derive(Clone)]
pub struct Client {
    link: ClientLink,
    authority: String,
    authorization: Option<HeaderValue>,
    pub(super) ledger: Option<Arc<dyn Ledger>>,
    pub(super) limits: ClientLimits,
}

/// A request in progress.
pub(super) struct Exchange {
    pub(super) link: ClientExchange,
    limits: ClientLimits,
}

impl Client {
    /// Begins HTTP/3 on a connection whose handshake is complete. `authority` is the host of the
    /// URI, with a port unless it is 443. The connection should send keep-alive packets, because
    /// a side that hashes a large file can be silent for longer than the idle timeout.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn new(
        connection: driver::Connection,
        authority: &str,
        limits: ClientLimits,
    ) -> Result<Self, LinkError> {
        let link = ClientLink::new(connection, limits.head_bytes);
        let link = within(limits.stall, link).await?;
        Ok(Self::of(link, authority, limits))
    }

    /// Begins HTTP/2 on a connection over TCP.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn over_tcp(
        connection: TcpConnection,
        authority: &str,
        limits: ClientLimits,
    ) -> Result<Self, LinkError> {
        let link = ClientLink::over_tcp(connection, limits.head_bytes);
        let link = within(limits.stall, link).await?;
        Ok(Self::of(link, authority, limits))
    }

    fn of(link: ClientLink, authority: &str, limits: ClientLimits) -> Self {
        Self {
            link,
            authority: authority.to_owned(),
            authorization: None,
            ledger: None,
            limits,
        }
    }

    /// Sends this bearer token (RFC 6750) with each request.
    ///
    /// # Errors
    /// Describes the fault in the token.
    pub fn with_token(mut self, token: &str) -> Result<Self, &'static str> {
        const NONE: &str = "a token has visible characters of ASCII, one at least";
        let visible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.ok().filter(|_| visible).ok_or(NONE)?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
    }

    /// Records uploads in `ledger`, so that a later client can resume those that break off.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Returns the URI for an already encoded path on the same host, or describes why it has none.
    pub(super) fn uri_of(&self, path: &str) -> Result<Uri, String> {
        let uri = Uri::builder()
            .scheme("https")
            .authority(self.authority.as_str());
        let uri = uri.path_and_query(path).build();
        uri.map_err(|error| format!("the path or host has no URI: {error}"))
    }

    pub(super) fn uri(&self, path: &PathName) -> Result<Uri, String> {
        self.uri_of(&path.encode())
    }

    pub(super) async fn request(
        &self,
        method: Method,
        uri: Uri,
        mut headers: HeaderMap,
    ) -> Result<Exchange, LinkError> {
        if let Some(value) = &self.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        let mut head = Request::new(());
        *head.method_mut() = method;
        *head.uri_mut() = uri;
        *head.headers_mut() = headers;
        let link = within(self.limits.stall, self.link.request(head)).await?;
        Ok(Exchange {
            link,
            limits: self.limits.clone(),
        })
    }

    /// Sends a request without content.
    pub(super) async fn request_bare(
        &self,
        method: Method,
        uri: Uri,
        headers: HeaderMap,
    ) -> Result<Exchange, LinkError> {
        let mut exchange = self.request(method, uri, headers).await?;
        exchange.finish(None).await?;
        Ok(exchange)
    }
}

pub(super) fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

impl Exchange {
    /// Allows more time for the response, because the server reads a file of this size first.
    pub(super) fn allow(&mut self, bytes: u64) {
        self.limits.answer += Duration::from_secs(bytes / SLOWEST_DISK);
    }

    /// Allows more time between steps, because the server may read a file of this size again
    /// after sending it completely.
    pub(super) fn has_all(&mut self, bytes: u64) {
        let reading = Duration::from_secs(bytes / SLOWEST_DISK);
        self.limits.stall = self.limits.stall.max(reading);
    }

    pub(super) async fn send(&mut self, mut data: Bytes) -> Result<(), LinkError> {
        while !data.is_empty() {
            let frame = data.split_to(data.len().min(FRAME));
            self.pass(frame.len()).await;
            within(self.limits.stall, self.link.send(frame)).await?;
        }
        Ok(())
    }

    pub(super) async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), LinkError> {
        within(self.limits.stall, self.link.finish(trailers)).await
    }

    pub(super) async fn response(&mut self) -> Result<Response<()>, LinkError> {
        within(self.limits.answer, self.link.response()).await
    }

    pub(super) async fn data(&mut self) -> Result<Option<Bytes>, LinkError> {
        let data = within(self.limits.stall, self.link.data()).await?;
        self.pass(data.as_ref().map_or(0, Bytes::len)).await;
        Ok(data)
    }

    /// Waits until the configured pace allows this number of bytes.
    async fn pass(&self, bytes: usize) {
        if let Some(pace) = &self.limits.pace {
            pace.pass(bytes).await;
        }
    }

    /// Returns the trailer section, after the content was read.
    pub(super) async fn trailers(&mut self) -> Result<Option<HeaderMap>, LinkError> {
        within(self.limits.answer, self.link.trailers()).await
    }

    /// Reads the refusal that begins with `response`.
    pub(super) async fn refusal(&mut self, response: &Response<()>) -> Refusal {
        let mut content = Vec::new();
        let limit = self.limits.stall;
        let reading = async {
            while let Ok(Some(data)) = self.data().await {
                content.extend_from_slice(&data);
                if content.len() > MAX_PROBLEM {
                    break;
                }
            }
        };
        // A refusal that breaks off or arrives too slowly is still a refusal.
        let _ = tokio::time::timeout(limit, reading).await;
        refusal(response.status(), response.headers(), &content)
    }
}

/// Keeps short texts under keys for as long as an upload can be resumed. Its methods may block.
pub trait Ledger: Debug + Send + Sync {
    /// Returns the text for a key.
    fn find(&self, key: &str) -> Option<String>;

    /// Keeps a text, replacing the previous text. If this fails, the upload just can't be resumed.
    fn keep(&self, key: &str, text: &str);

    /// Removes the text for a key.
    fn forget(&self, key: &str);
}

/// The ledger's page for one upload.
#[derive(Clone, Debug)]
pub(super) struct Page {
    ledger: Arc<dyn Ledger>,
    key: String,
    version: String,
}

impl Page {
    /// Returns the page for uploading a source to a URI.
    pub(super) fn of(
        ledger: &Arc<dyn Ledger>,
        uri: &Uri,
        existing: Existing,
        source: &Stat,
    ) -> Self {
        let file = (source.device, source.inode);
        let key = Sha256::digest(format!("{uri} {existing:?} {file:?}"));
        let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let (modified, changed) = (source.modified, source.changed);
        Self {
            ledger: Arc::clone(ledger),
            key,
            version: format!(
                "{} {}.{:09} {}.{:09}",
                source.size,
                modified.seconds,
                modified.nanoseconds,
                changed.seconds,
                changed.nanoseconds
            ),
        }
    }

    /// Returns the path of the upload's resource, and whether the source is unchanged.
    pub(super) async fn find(&self) -> io::Result<Option<(String, bool)>> {
        let page = self.clone();
        let text = blocking(move || page.ledger.find(&page.key)).await?;
        let found = text
            .as_deref()
            .and_then(|text| text.trim_end().split_once('\n'));
        Ok(found.map(|(version, path)| (path.to_owned(), version == self.version)))
    }

    pub(super) async fn keep(&self, path: &str) -> io::Result<()> {
        let (page, text) = (self.clone(), format!("{}\n{path}\n", self.version));
        blocking(move || page.ledger.keep(&page.key, &text)).await
    }

    pub(super) async fn forget(&self) -> io::Result<()> {
        let page = self.clone();
        blocking(move || page.ledger.forget(&page.key)).await
    }
}
