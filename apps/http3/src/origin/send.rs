//! Sends responses, with a time limit for each piece.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response};
use sha2::{Digest, Sha256};

use super::grant::Grant;
use super::places;
use super::steward::Steward;
use crate::fields::{Sha256Digest, Span};
use crate::plan::Reply;
use crate::reader::Reader;
use crate::wire::{LinkError, ServerExchange};

/// Maximum payload of a DATA frame in bytes. The client must accept each one within the time limit.
const FRAME: usize = 16 * 1024;
/// Bytes of a request's content that must arrive within the time limit, unless it ends.
const LEAST: usize = 1024;

/// The reason why a request did not end as planned.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("reading the file failed: {0}")]
    Read(#[from] io::Error),
    #[error("the file changed during the response")]
    Changed,
}

/// The terms on which a request is served.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) stall: Duration,
    pub(super) grant: Arc<Grant>,
}

/// A request and its response, with a time limit on each step.
pub(super) struct Exchange {
    pub(super) link: ServerExchange,
    pub(super) request: Request<()>,
    pub(super) steward: Arc<dyn Steward>,
    pub(super) terms: Terms,
    /// The client's address.
    pub(super) host: IpAddr,
    /// The request's place, held until its response is handed to the transport.
    pub(super) place: Option<places::Held>,
    /// The response's status, or 0 before it is sent.
    pub(super) status: u16,
    /// Bytes of content sent or stored.
    pub(super) bytes: u64,
    /// The reason for a refusal.
    pub(super) refusal: String,
    /// The path of the PUT that began the upload, if the request is about one.
    pub(super) upload: Option<String>,
    /// Whether this content is not the last of its upload.
    pub(super) is_part: bool,
    /// Whether all of the request's content was read.
    read: bool,
}

/// Runs a step with the time limit.
pub(super) async fn within<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let step = tokio::time::timeout(limit, step).await;
    step.unwrap_or(Err(LinkError::TimedOut))
}

impl Exchange {
    pub(super) const fn new(
        link: ServerExchange,
        request: Request<()>,
        steward: Arc<dyn Steward>,
        terms: Terms,
        host: IpAddr,
    ) -> Self {
        Self {
            link,
            request,
            steward,
            terms,
            host,
            place: None,
            status: 0,
            bytes: 0,
            refusal: String::new(),
            upload: None,
            is_part: false,
            read: false,
        }
    }

    /// Adds the steward's fields to the header section of a response with a file's content.
    pub(super) fn begin(&self, head: &mut Response<()>) {
        head.headers_mut().extend(self.steward.begin(&self.request));
    }

    /// Ends such a response.
    pub(super) async fn end(&mut self, mut trailers: HeaderMap) -> Result<(), LinkError> {
        trailers.extend(self.steward.end(&self.request));
        let trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
        self.finish(trailers).await
    }

    /// Returns true if the response must have no content.
    pub(super) fn is_head_only(&self) -> bool {
        self.request.method() == Method::HEAD
    }

    /// Returns the next bytes of the request's content, or `None` at its end.
    pub(super) async fn data(&mut self) -> Result<Option<Bytes>, LinkError> {
        if self.read {
            return Ok(None);
        }
        let (stall, displaced) = (self.terms.stall, self.displaced());
        let step = tokio::select! {
            biased;
            error = displaced => return Err(error),
            step = within(stall, self.enough()) => step?,
        };
        self.pass(step.len()).await;
        Ok(Some(step).filter(|data| !data.is_empty()))
    }

    /// Completes once another host needs the place of this request.
    fn displaced(&self) -> impl Future<Output = LinkError> + Send + use<> {
        let displaced = self.place.as_ref().map(places::Held::displaced);
        async move {
            match displaced {
                Some(displaced) => displaced.await,
                None => std::future::pending().await,
            }
            LinkError::Displaced
        }
    }

    /// Completes once the client doesn't want the response or another host needs this place, so
    /// that long work can end early.
    pub(super) fn unwanted(&self) -> impl Future<Output = LinkError> + Send + use<> {
        let (gone, displaced) = (self.link.gone(), self.displaced());
        async move {
            tokio::select! {
                error = gone => error,
                error = displaced => error,
            }
        }
    }

    /// Collects [`LEAST`] bytes of content, or all that remains.
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
        within(self.terms.stall, self.link.trailers()).await
    }

    pub(super) async fn respond(&mut self, head: Response<()>) -> Result<(), LinkError> {
        self.status = head.status().as_u16();
        within(self.terms.stall, self.link.respond(head)).await
    }

    pub(super) async fn send(&mut self, mut data: Bytes) -> Result<(), LinkError> {
        while !data.is_empty() {
            let frame = data.split_to(data.len().min(FRAME));
            let length = frame.len();
            let displaced = self.displaced();
            tokio::select! {
                biased;
                error = displaced => return Err(error),
                sent = within(self.terms.stall, self.link.send(frame)) => sent?,
            }
            self.bytes += length as u64;
            self.pass(length).await;
        }
        Ok(())
    }

    /// Counts these bytes and waits for the pace to allow them.
    async fn pass(&self, bytes: usize) {
        if let Some(place) = &self.place {
            place.passed(bytes);
        }
        if let Some(pace) = &self.terms.grant.pace {
            pace.pass(bytes).await;
        }
    }

    pub(super) async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), LinkError> {
        within(self.terms.stall, self.link.finish(trailers)).await?;
        self.place = None;
        Ok(())
    }

    /// Sends a response that is completely in memory, without reading the rest of the request.
    pub(super) async fn reply(
        &mut self,
        reply: &Reply,
        now: std::time::SystemTime,
    ) -> Result<(), LinkError> {
        self.refusal.clone_from(&reply.detail);
        self.respond(reply.head(now)).await?;
        if !self.is_head_only() {
            self.send(reply.body.clone()).await?;
        }
        self.finish(None).await
    }

    /// Sends bytes of a file and feeds them to `hasher`, while reading the next piece.
    pub(super) async fn send_span(
        &mut self,
        file: &Arc<File>,
        span: Span,
        hasher: &mut Option<Sha256>,
    ) -> Result<(), Broken> {
        let reader = Reader {
            file: Arc::clone(file),
            position: span.first,
            end: span.end(),
            hasher: hasher.take(),
        };
        let mut next = reader.next();
        loop {
            let (reader, piece) = next.await.map_err(io::Error::other)??;
            if piece.is_empty() {
                *hasher = reader.hasher;
                return Ok(());
            }
            next = reader.next();
            self.send(piece).await?;
        }
    }
}

pub(super) fn digest_of(hasher: Sha256) -> Sha256Digest {
    hasher.finalize().into()
}
