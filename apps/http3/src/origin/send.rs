//! Sends responses, with a time limit for each piece. Computes digests of files, each only once
//! per version and using few threads.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response};
use sha2::{Digest, Sha256};

use super::grant::{Grant, Steward};
use crate::fields::{Sha256Digest, Span};
use crate::lock;
use crate::places::{self, Places};
use crate::plan::Reply;
use crate::resource::Stat;
use crate::root::{Cancel, Hashing, still_has};
use crate::sink::{Reader, blocking};
use crate::wire::{LinkError, ServerExchange, within};

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

/// Bytes to hash before others get a turn, which takes a fraction of a second.
const TURN: u64 = 64 << 20;
/// Maximum number of cached digests.
const KEPT: usize = 256;

/// Caches digests, and limits the threads that compute them. Hosts take turns, so that nobody
/// has to wait for other hosts' large files.
#[derive(Debug)]
pub(super) struct Digests {
    known: Mutex<VecDeque<(Stat, Sha256Digest)>>,
    places: Places,
}

impl Digests {
    pub(super) fn new(places: usize) -> Self {
        Self {
            known: Mutex::new(VecDeque::new()),
            places: Places::new(places, places),
        }
    }

    /// Returns the digest of a version, if it is cached.
    pub(super) fn known(&self, stat: &Stat) -> Option<Sha256Digest> {
        let known = lock(&self.known);
        let found = known
            .iter()
            .find(|(version, _)| version.is_same_version(stat));
        found.map(|(_, digest)| *digest)
    }

    /// Caches the digest of a version, replacing the oldest. It is skipped unless `settled`,
    /// which means that any later change gets a different timestamp.
    pub(super) fn keep(&self, stat: &Stat, settled: bool, digest: Sha256Digest) {
        if !settled {
            return;
        }
        let mut known = lock(&self.known);
        if known.len() == KEPT {
            known.pop_front();
        }
        known.push_back((*stat, digest));
    }

    /// Returns the digest of an open file, computing it for `host` on a blocking thread if
    /// necessary. Dropping the future cancels this work.
    pub(super) async fn of(
        &self,
        host: IpAddr,
        file: &Arc<File>,
        stat: &Stat,
        settled: bool,
    ) -> io::Result<Sha256Digest> {
        let (share, cancel) = (self.places.of(host), Cancel::default());
        let mut hashing = Hashing::default();
        loop {
            // Meanwhile another request may have computed it.
            if let Some(digest) = self.known(stat) {
                return Ok(digest);
            }
            let _place = share.take().await;
            let (flag, file) = (cancel.flag(), Arc::clone(file));
            let turn = blocking(move || {
                let is_whole = hashing.advance(&file, TURN, &flag);
                is_whole.map(|is_whole| (hashing, is_whole))
            });
            let is_whole;
            (hashing, is_whole) = turn.await??;
            if is_whole {
                let digest = hashing.hasher.finalize().into();
                self.keep(stat, settled, digest);
                return Ok(digest);
            }
        }
    }

    /// Returns true if an open file's content hasn't changed since its metadata was `before`.
    /// See [`still_has`].
    pub(super) async fn still(
        &self,
        file: &Arc<File>,
        before: Stat,
        digest: Option<Sha256Digest>,
    ) -> io::Result<bool> {
        let cancel = Cancel::default();
        let (flag, file) = (cancel.flag(), Arc::clone(file));
        blocking(move || still_has(&file, &before, digest.as_ref(), &flag)).await?
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use sha2::Sha256;

    use crate::root::file_stat;

    use super::*;

    /// Large files are hashed in turns, so that another host's small one is not delayed.
    #[tokio::test]
    async fn a_host_with_large_files_holds_up_no_other() {
        let digests = Arc::new(Digests::new(2));
        let large = tempfile::tempfile().unwrap();
        large.set_len(4 << 40).unwrap();
        let (large, stat) = (Arc::new(large), regular_of(1));
        let hogs: Vec<_> = (0..8)
            .map(|_| {
                let (digests, large) = (Arc::clone(&digests), Arc::clone(&large));
                let host = "192.0.2.1".parse().unwrap();
                tokio::spawn(async move { digests.of(host, &large, &stat, true).await })
            })
            .collect();
        let host = digests.places.of("192.0.2.1".parse().unwrap());
        while host.take_now().is_some() {
            tokio::task::yield_now().await;
        }
        let small = tempfile::tempfile().unwrap();
        small.write_all_at(b"small", 0).unwrap();
        let (small, other) = (Arc::new(small), "192.0.2.2".parse().unwrap());
        let own = file_stat(&small).unwrap();
        let digest = digests.of(other, &small, &own, true);
        assert_eq!(digest.await.unwrap()[..], Sha256::digest(b"small")[..]);
        for hog in &hogs {
            assert!(!hog.is_finished());
            hog.abort();
        }
    }

    fn regular_of(inode: u64) -> Stat {
        Stat {
            inode,
            ..crate::resource::tests::regular(4 << 40)
        }
    }
}
