//! Hooks by which the program around an origin takes part in a connection's requests.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request};

use super::grant::Grant;
use crate::plan::Reply;
use crate::wire::ServerExchange;

/// Fields of a program's own in responses, and records of requests. There is one for each
/// connection.
pub trait Steward: Debug + Send + Sync + 'static {
    /// The rights of a request's client; `None`: those by the origin's rules.
    ///
    /// # Errors
    /// The reply to a client that is not known.
    fn admit(&self, _request: &Request<()>) -> Result<Option<Arc<Grant>>, Box<Reply>> {
        Ok(None)
    }

    /// Fields of the response with a file's content, before its first byte is sent.
    fn begin(&self, _request: &Request<()>) -> HeaderMap {
        HeaderMap::new()
    }

    /// Fields of its trailer section, when all of the content is handed to the transport.
    fn end(&self, _request: &Request<()>) -> HeaderMap {
        HeaderMap::new()
    }

    /// Streams of the connection for CONNECT requests, which [`connect`](Self::connect) gets if
    /// there are any: an origin has no use for them.
    fn tunnels(&self) -> usize {
        0
    }

    /// Responds to a CONNECT request, and returns when its tunnel has ended.
    fn connect(&self, _request: Request<()>, _exchange: ServerExchange) -> Tunnelling<'_> {
        Box::pin(std::future::ready(()))
    }

    /// Another request has ended.
    fn ended(&self, _record: &Record<'_>) {}
}

/// A tunnel under way.
pub type Tunnelling<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A steward that adds nothing.
#[derive(Clone, Copy, Debug)]
pub struct Idle;

impl Steward for Idle {}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its head.
    pub request: &'a Request<()>,
    /// The path of the file that it is about: for an upload, the path of the PUT that began it.
    pub path: &'a str,
    /// The status of its response; 0 where there is none.
    pub status: u16,
    /// Bytes of content that were sent, or stored by a PUT.
    pub bytes: u64,
    /// The time from its head to its end.
    pub took: Duration,
    /// How it ended.
    pub end: End<'a>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// The client has acknowledged all of the response, or its file is stored.
    Done,
    /// Content of an upload is kept, and more is to come.
    Part,
    /// The response is a refusal for this reason.
    Refused(&'a str),
    /// The stream, the connection or the file failed.
    BrokenOff(&'a str),
}
