//! Hooks through which a program can take part in an origin's requests.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request};

use super::grant::Grant;
use crate::plan::Reply;
use crate::wire::ServerExchange;

/// Adds a program's own fields to responses, and records requests. Each connection has its own
/// steward.
pub trait Steward: Debug + Send + Sync + 'static {
    /// Returns the rights of a request's client, or `None` to apply the origin's rules.
    ///
    /// # Errors
    /// The reply to an unknown client.
    fn admit(&self, _request: &Request<()>) -> Result<Option<Arc<Grant>>, Box<Reply>> {
        Ok(None)
    }

    /// Returns header fields for a response with a file's content, before its first byte is sent.
    fn begin(&self, _request: &Request<()>) -> HeaderMap {
        HeaderMap::new()
    }

    /// Returns trailer fields, after all of the content was handed to the transport.
    fn end(&self, _request: &Request<()>) -> HeaderMap {
        HeaderMap::new()
    }

    /// Returns how many streams a connection can have for CONNECT requests. If there are any,
    /// [`connect`](Self::connect) handles these requests, which are useless to an origin.
    fn tunnels(&self) -> usize {
        0
    }

    /// Responds to a CONNECT request, and completes when its tunnel has ended.
    fn connect(&self, _request: Request<()>, _exchange: ServerExchange) -> Tunnelling<'_> {
        Box::pin(std::future::ready(()))
    }

    /// Records the end of any other request.
    fn ended(&self, _record: &Record<'_>) {}
}

/// A running tunnel.
pub type Tunnelling<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A steward that adds nothing.
#[derive(Clone, Copy, Debug)]
pub struct Idle;

impl Steward for Idle {}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The request's header section.
    pub request: &'a Request<()>,
    /// The path of the file. For an upload, it is that of the PUT that began it.
    pub path: &'a str,
    /// The response's status, or 0 without a response.
    pub status: u16,
    /// Bytes of content sent, or stored by a PUT.
    pub bytes: u64,
    /// The time from the header section to the end.
    pub took: Duration,
    /// How the request ended.
    pub end: End<'a>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// The client has acknowledged all of the response, or the file is stored.
    Done,
    /// Part of an upload was stored, and more content is to follow.
    Part,
    /// The request was refused for this reason.
    Refused(&'a str),
    /// The stream, the connection or the file failed.
    BrokenOff(&'a str),
}
