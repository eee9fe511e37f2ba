//! Responses on their way, with a limit of time for each piece.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use crate::fields::{Sha256Digest, Span};
use crate::plan::Reply;
use crate::root::read_piece;
use crate::wire::{LinkError, ServerExchange};

/// Bytes of a DATA frame at most, which a client has the limit of time to take.
const FRAME: usize = 16 * 1024;
/// Bytes of a request's content that have to arrive within the limit of time, unless it ends.
const LEAST: usize = 1024;

/// Why a request did not end as planned.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("reading the file failed: {0}")]
    Read(#[from] io::Error),
    #[error("the file changed during the response")]
    Changed,
}

/// A request and its response, each step of which has a limit of time.
pub(super) struct Exchange {
    link: ServerExchange,
    stall: Duration,
    /// The request is a HEAD: its response has no content.
    head_only: bool,
    status: u16,
    /// The request's content is read.
    read: bool,
}

/// Waits for a step as long as the limit.
async fn within<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let step = tokio::time::timeout(limit, step).await;
    step.unwrap_or(Err(LinkError::TimedOut))
}

impl Exchange {
    pub(super) const fn new(link: ServerExchange, stall: Duration, head_only: bool) -> Self {
        Self {
            link,
            stall,
            head_only,
            status: 0,
            read: false,
        }
    }

    /// The status of the response; 0 before it.
    pub(super) const fn status(&self) -> u16 {
        self.status
    }

    pub(super) const fn is_head_only(&self) -> bool {
        self.head_only
    }

    /// Tells the transport how urgent the response is, and how long.
    pub(super) fn hint(&self, urgency: u8, bytes: u64) {
        self.link.hint(urgency, bytes);
    }

    /// The next bytes of the request's content; `None` at its end.
    pub(super) async fn data(&mut self) -> Result<Option<Bytes>, LinkError> {
        if self.read {
            return Ok(None);
        }
        let step = within(self.stall, self.enough()).await?;
        Ok(Some(step).filter(|data| !data.is_empty()))
    }

    /// Content of some length, or all that is left.
    async fn enough(&mut self) -> Result<Bytes, LinkError> {
        let mut collected = BytesMut::new();
        while let Some(data) = self.link.data().await? {
            if collected.is_empty() && data.len() >= LEAST {
                return Ok(data);
            }
            collected.extend_from_slice(&data);
            if collected.len() >= LEAST {
                return Ok(collected.freeze());
            }
        }
        self.read = true;
        Ok(collected.freeze())
    }

    pub(super) async fn trailers(&mut self) -> Result<Option<HeaderMap>, LinkError> {
        within(self.stall, self.link.trailers()).await
    }

    pub(super) async fn respond(&mut self, head: Response<()>) -> Result<(), LinkError> {
        self.status = head.status().as_u16();
        within(self.stall, self.link.respond(head)).await
    }

    pub(super) async fn send(&mut self, mut data: Bytes) -> Result<(), LinkError> {
        while !data.is_empty() {
            let frame = data.split_to(data.len().min(FRAME));
            within(self.stall, self.link.send(frame)).await?;
        }
        Ok(())
    }

    pub(super) async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), LinkError> {
        within(self.stall, self.link.finish(trailers)).await
    }

    /// Sends a response that is whole in memory; what is left of the request is not read.
    pub(super) async fn reply(
        &mut self,
        reply: &Reply,
        now: std::time::SystemTime,
    ) -> Result<(), LinkError> {
        self.respond(reply.head(now)).await?;
        if !self.head_only {
            self.send(reply.body.clone()).await?;
        }
        self.finish(None).await
    }

    /// Sends bytes of a file, and gives them to `hasher`.
    pub(super) async fn send_span(
        &mut self,
        file: &Arc<File>,
        span: Span,
        hasher: &mut Option<Sha256>,
    ) -> Result<(), Broken> {
        let (mut position, end) = (span.first, span.end());
        let mut next = read(file, position, end);
        while position < end {
            let piece = next.await.map_err(io::Error::other)??;
            position += piece.len() as u64;
            next = read(file, position, end);
            if let Some(hasher) = hasher {
                hasher.update(&piece);
            }
            self.send(piece).await?;
        }
        Ok(())
    }
}

/// Reads a piece on a thread that may block.
fn read(file: &Arc<File>, from: u64, end: u64) -> JoinHandle<io::Result<Bytes>> {
    let file = Arc::clone(file);
    tokio::task::spawn_blocking(move || read_piece(&file, from, end))
}

/// The digest of what a hasher has seen.
pub(super) fn digest_of(hasher: Sha256) -> Sha256Digest {
    hasher.finalize().into()
}
