//! Responses on their way, with a limit of time for each piece.

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

/// On what terms a request is responded to.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) stall: Duration,
    pub(super) grant: Arc<Grant>,
}

/// A request and its response, each step of which has a limit of time.
pub(super) struct Exchange {
    pub(super) link: ServerExchange,
    pub(super) request: Request<()>,
    pub(super) steward: Arc<dyn Steward>,
    pub(super) terms: Terms,
    /// The address of the client.
    pub(super) host: IpAddr,
    /// The place of the request among all, until its response is handed to the transport.
    pub(super) place: Option<places::Held>,
    /// The status of the response; 0 before it.
    pub(super) status: u16,
    /// Bytes of content that were sent, or stored.
    pub(super) bytes: u64,
    /// Why it is refused.
    pub(super) refusal: String,
    /// The path of the PUT that began the upload that it is about.
    pub(super) upload: Option<String>,
    /// Its content is not the last of its upload.
    pub(super) is_part: bool,
    /// The request's content is read.
    read: bool,
}

/// Waits for a step as long as the limit.
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

    /// Adds the steward's fields to the head of a response with a file's content.
    pub(super) fn begin(&self, head: &mut Response<()>) {
        head.headers_mut().extend(self.steward.begin(&self.request));
    }

    /// Ends such a response.
    pub(super) async fn end(&mut self, mut trailers: HeaderMap) -> Result<(), LinkError> {
        trailers.extend(self.steward.end(&self.request));
        let trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
        self.finish(trailers).await
    }

    /// The response has no content.
    pub(super) fn is_head_only(&self) -> bool {
        self.request.method() == Method::HEAD
    }

    /// The next bytes of the request's content; `None` at its end.
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

    /// Ready once the place of this request is wanted for another host.
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

    /// Ready once nobody wants the response, or the place of this request is wanted for another
    /// host. Work of the server that takes long ends then.
    pub(super) fn unwanted(&self) -> impl Future<Output = LinkError> + Send + use<> {
        let (gone, displaced) = (self.link.gone(), self.displaced());
        async move {
            tokio::select! {
                error = gone => error,
                error = displaced => error,
            }
        }
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

    /// Waits until content may pass.
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

    /// Sends a response that is whole in memory. The rest of the request is not read.
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

    /// Sends bytes of a file, and gives them to `hasher`. The next piece is read meanwhile.
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

/// The digest of what a hasher has seen.
pub(super) fn digest_of(hasher: Sha256) -> Sha256Digest {
    hasher.finalize().into()
}
