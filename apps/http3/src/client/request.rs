//! Sends a client's requests, with a time limit on each step. Defines the errors of transfers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use pathmark_driver as driver;

use super::plan::refusal;
use super::resume::Ledger;
use crate::fields::PathName;
use crate::pace::Pace;
use crate::root::KeepError;
use crate::wire::{ClientExchange, ClientLink, LinkError};

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
    link: ClientExchange,
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
        Ok(Self {
            link: within(limits.stall, ClientLink::new(connection, limits.head_bytes)).await?,
            authority: authority.to_owned(),
            authorization: None,
            ledger: None,
            limits,
        })
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

    /// Returns the URI for an already encoded path on the same host.
    pub(super) fn uri_of(&self, path: &str) -> Option<Uri> {
        let uri = Uri::builder()
            .scheme("https")
            .authority(self.authority.as_str());
        uri.path_and_query(path).build().ok()
    }

    /// Returns the URI for a path, or describes why it has none.
    pub(super) fn uri(&self, path: &PathName) -> Result<Uri, String> {
        let uri = Uri::builder()
            .scheme("https")
            .authority(self.authority.as_str());
        let uri = uri.path_and_query(path.encode()).build();
        uri.map_err(|error| format!("the path or host has no URI: {error}"))
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

async fn within<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let step = tokio::time::timeout(limit, step).await;
    step.unwrap_or(Err(LinkError::TimedOut))
}

impl Exchange {
    /// Informs the transport of the content's length.
    pub(super) fn announce(&self, bytes: u64) {
        self.link.announce(bytes);
    }

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

    /// Returns an interim response, if one has arrived.
    pub(super) fn interim(&mut self) -> Option<Response<()>> {
        self.link.interim()
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

/// A response without a success status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server refused with status {status}{}", reason(*.status, .detail))]
pub struct Refusal {
    /// The status code.
    pub status: StatusCode,
    /// The problem details, or else the status code's phrase. Control characters are replaced.
    pub detail: String,
}

/// Formats the details after a status, without repeating its phrase.
fn reason(status: StatusCode, detail: &str) -> String {
    let phrase = status.canonical_reason().unwrap_or_default();
    match detail.strip_prefix(phrase) {
        Some(rest) if rest.is_empty() || rest.starts_with(';') => rest.to_owned(),
        _ => format!(": {detail}"),
    }
}

/// The reason why a file was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GetError {
    /// The stream or connection failed, and nothing is kept.
    #[error("{0}")]
    Link(#[from] LinkError),
    /// The stream or connection failed, but the next attempt can resume after the bytes that are
    /// kept.
    #[error("{0}; the bytes that arrived are kept, and the next attempt resumes there")]
    Kept(#[source] LinkError),
    /// The server refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The path or target cannot be used in a request or a file system.
    #[error("{0}")]
    Name(String),
    /// The response doesn't match the request.
    #[error("the server's response is not usable: {0}")]
    Response(&'static str),
    /// The server gave up because the file changed.
    #[error("the file changed while it was sent; fetch it again")]
    Changed,
    /// The length of the file differs from the listing.
    #[error("the file has another length than the server listed; fetch it again")]
    Unlisted,
    /// The directory is larger than allowed.
    #[error(transparent)]
    TooMany(#[from] super::walk::TooMany),
    /// The content ended early. The part that arrived is kept.
    #[error("the server ended the content after {received} of {announced} bytes; try again")]
    Short {
        /// Bytes received.
        received: u64,
        /// Bytes that the server announced.
        announced: u64,
    },
    /// The content doesn't match the server's digest, so it was removed.
    #[error("the content's SHA-256 is not the one that the server announced; fetch it again")]
    Digest,
    /// Another transfer writes to the same target.
    #[error("another transfer is writing the file; wait for its end, or choose another directory")]
    Busy,
    /// The file could not be renamed to its target.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// Access to the local disk failed.
    #[error("cannot write the file: {0}")]
    Storage(#[from] io::Error),
}

/// The reason why a file was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// The stream or connection failed.
    #[error("the transfer broke off: {0}")]
    Link(#[from] LinkError),
    /// The server refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The path cannot be used in a request.
    #[error("{0}")]
    Name(String),
    /// The source is not a regular file.
    #[error("the source is a directory, a device, a socket or a pipe; only files can be sent")]
    Source,
    /// The operating system does not report the source's size.
    #[error("the system does not say how many bytes the source has; copy it, and send the copy")]
    Endless,
    /// The server's files could not be listed.
    #[error("cannot see what the server has: {0}")]
    Listing(String),
    /// The server does not store symbolic links.
    #[error("the server keeps no symbolic links")]
    NoLinks,
    /// The directory is larger than allowed.
    #[error(transparent)]
    TooMany(#[from] super::walk::TooMany),
    /// The source was modified during the transfer.
    #[error("the source changed while it was sent, and nothing was stored; send it again")]
    Changed,
    /// The source was truncated during the transfer.
    #[error("the source became shorter while it was sent, and nothing was stored; send it again")]
    Shorter,
    /// The server announced the digest of different content.
    #[error("the server stored content with another SHA-256; send the file again")]
    Digest,
    /// Access to the local disk failed.
    #[error("cannot read the file: {0}")]
    Storage(#[from] io::Error),
}
