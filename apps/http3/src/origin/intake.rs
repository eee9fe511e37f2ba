//! Stores a file: receives its content, verifies its digest, and renames it into place.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use sha2::Digest;

use super::grant::{Grant, Reservation};
use super::send::Exchange;
use super::shared::{Fault, Promise, Shared, over_quota};
use super::uploads::{Claim, Evicted};
use crate::fields::{PathName, Sha256Digest, boolean};
use crate::lock;
use crate::pace::now;
use crate::plan::{self, Ask, Reply, UploadState, problem};
use crate::root::{
    Draft, Dropped, Existing, KeepError, Placed, Upload, file_stat, hash_file, names_stat,
};
use crate::sink::{Sink, Writer, blocking};
use crate::wire::LinkError;

/// A file being stored.
pub(super) struct Intake {
    /// The PUT request, or the one that began the upload.
    pub(super) ask: Ask,
    /// The digest in this request's header section, unless it is the PUT itself.
    pub(super) digest: Option<Sha256Digest>,
    pub(super) directory: Arc<OwnedFd>,
    pub(super) draft: Draft,
    /// The client's quota reserved for the content.
    pub(super) reservation: Reservation,
    /// Disk space reserved for the content.
    pub(super) promise: Promise,
    /// The resumable upload, if there is one.
    pub(super) claim: Option<Claim>,
    /// Bytes brought by earlier requests.
    pub(super) offset: u64,
    /// Content-Length of this request.
    pub(super) content: Option<u64>,
    /// The whole file's length, if announced.
    pub(super) length: Option<u64>,
    /// Whether this request's content is the last.
    pub(super) complete: bool,
}

/// The received bytes, with their digest if they are the whole file.
struct Received {
    bytes: u64,
    digest: Option<Sha256Digest>,
    trailers: Option<HeaderMap>,
}

/// The reason why receiving content failed.
enum Failure {
    /// The file is unusable.
    Fault(Fault),
    /// The request broke off after this number of valid bytes.
    Broken(LinkError, u64),
}

impl<E: Into<Fault>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

/// Sends 100 (Continue) to a client that expects it before sending content.
pub(super) async fn welcome(exchange: &mut Exchange, ask: &Ask) -> Result<(), LinkError> {
    if !ask.body.expects_continue {
        return Ok(());
    }
    let mut interim = Response::new(());
    *interim.status_mut() = StatusCode::CONTINUE;
    exchange.respond(interim).await
}

/// Receives the content of a request.
pub(super) async fn take_in(
    shared: &Arc<Shared>,
    exchange: &mut Exchange,
    mut intake: Intake,
) -> Result<Reply, Fault> {
    let received = match receive(exchange, &mut intake).await {
        Ok(received) => received,
        Err(Failure::Fault(fault)) => {
            intake.remove().await?;
            return Err(fault);
        }
        Err(Failure::Broken(error, bytes)) => {
            intake.leave(shared, bytes).await?;
            return Err(error.into());
        }
    };
    let bytes = received.bytes;
    if !intake.complete {
        intake.draft.set_dropped(Dropped::Kept);
        let state = UploadState {
            offset: intake.offset + bytes,
            length: intake.length,
            age: shared.uploads.limits.age,
        };
        let status = match *exchange.request.method() {
            Method::PUT => StatusCode::CREATED,
            _ => StatusCode::NO_CONTENT,
        };
        let reply = plan::incomplete(status, &state, &exchange.terms.grant.rules);
        intake.leave(shared, bytes).await?;
        (exchange.bytes, exchange.is_part) = (bytes, true);
        return Ok(reply);
    }
    let reply = complete(shared, exchange, intake, received).await?;
    exchange.bytes = bytes;
    Ok(reply)
}

/// Verifies the digests of a whole file, and renames it into place.
async fn complete(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    mut intake: Intake,
    received: Received,
) -> Result<Reply, Fault> {
    // From here on, the draft is stored or removed, so no later request can resume it.
    intake.draft.set_dropped(Dropped::Removed);
    let (shared, grant) = (Arc::clone(shared), Arc::clone(&exchange.terms.grant));
    let stored = blocking(move || {
        let Intake {
            ask,
            digest,
            directory,
            draft,
            reservation,
            claim,
            offset,
            ..
        } = intake;
        let own = match received.digest {
            Some(own) => Ok(own),
            None => hash_file(&draft.file(), &AtomicBool::new(false)),
        };
        let stored = own.map_err(Fault::from).and_then(|own| {
            let known = [ask.body.digest, digest];
            check_digest(known, received.trailers.as_ref(), &own)?;
            // Sync the file's bytes before taking the lock, so that others don't have to wait.
            draft.file().sync_all()?;
            Ok(own)
        });
        let size = Size {
            reservation,
            bytes: received.bytes,
            offset,
        };
        let stored = match stored {
            Ok(own) => commit(&shared, &grant, &ask, &directory, draft, &own, size),
            Err(fault) => {
                size.release();
                Err(fault)
            }
        };
        let resumable = claim.is_some();
        if let Some(claim) = claim {
            claim.finish();
        }
        // Upload-Complete in a refusal means that the transfer is complete but its content is at
        // fault.
        let complete = |reply: Reply| {
            if resumable {
                reply.with(plan::UPLOAD_COMPLETE, boolean(true))
            } else {
                reply
            }
        };
        match stored {
            Err(Fault::Reply(reply)) => Err(Fault::from(complete(*reply))),
            stored => stored.map(complete),
        }
    });
    stored.await?
}

impl Intake {
    /// Ends the request without keeping anything of the file.
    async fn remove(mut self) -> io::Result<()> {
        self.draft.set_dropped(Dropped::Removed);
        blocking(move || {
            drop(self.draft);
            self.reservation.release(self.offset);
            if let Some(claim) = self.claim {
                claim.finish();
            }
        })
        .await
    }

    /// Ends the request after this number of bytes. An upload is kept for the next request.
    async fn leave(self, shared: &Arc<Shared>, bytes: u64) -> io::Result<()> {
        let Some(claim) = self.claim else {
            drop(self.draft);
            return Ok(());
        };
        let shared = Arc::clone(shared);
        let (draft, reservation, offset) = (self.draft, self.reservation, self.offset);
        blocking(move || {
            reservation.keep(bytes);
            lay_down(&shared, claim, draft, offset + bytes);
        })
        .await
    }
}

/// Keeps an upload of this number of bytes after its request.
pub(super) fn lay_down(shared: &Shared, claim: Claim, draft: Draft, bytes: u64) {
    let stat = file_stat(&draft.file());
    let last = stat.map_or(SystemTime::UNIX_EPOCH, |stat| stat.modified.to_system());
    if draft.end() {
        remove(shared, &claim.keep(bytes, last));
    } else {
        claim.finish();
    }
}

/// Removes uploads from the disk.
pub(super) fn remove(shared: &Shared, evicted: &[Evicted]) {
    for Evicted { token, directory } in evicted {
        let names = [directory.as_slice(), &[b"x".to_vec()]].concat();
        let slash = false;
        let removed = shared
            .root
            .parent(&PathName { names, slash }, 0, false)
            .map_err(io::Error::other)
            .and_then(
                |directory| match Upload::open(&Arc::new(directory), token)? {
                    Some(upload) => upload.draft.discard(),
                    None => Ok(()),
                },
            );
        if let Err(error) = removed {
            tracing::debug!(%error, "an unfinished upload stays");
        }
    }
}

/// Writes the content to the draft.
async fn receive(exchange: &mut Exchange, intake: &mut Intake) -> Result<Received, Failure> {
    let grant = Arc::clone(&exchange.terms.grant);
    let (file, offset) = (intake.draft.file(), intake.offset);
    let writer = match offset {
        0 => Writer::new(file),
        _ => Writer::after(file, offset),
    };
    let (mut sink, mut received) = (Sink::new(writer), 0_u64);
    let most = grant.rules.max_file.saturating_sub(offset);
    let ended = loop {
        let data = match next(exchange, intake.claim.as_ref()).await {
            Ok(data) => data,
            Err(error) => break Err(error),
        };
        let length = data.as_ref().map_or(0, Bytes::len) as u64;
        received = received.saturating_add(length);
        if received > most {
            return Err(plan::too_large(&grant.rules).into());
        }
        if !intake.reservation.grow_to(received) {
            return Err(over_quota().into());
        }
        check_length(intake.content, received, data.is_none())?;
        if intake
            .length
            .is_some_and(|length| received > length.saturating_sub(offset))
        {
            return Err(plan::wrong_length().into());
        }
        match data {
            Some(data) => sink.take(&data).await?,
            None => break Ok(()),
        }
        intake.promise.spend(length);
    };
    let trailers = match ended {
        Ok(()) => exchange.trailers().await,
        Err(error) => Err(error),
    };
    // Keep the bytes that arrived before a failure.
    let writer = sink.finish().await?;
    let bytes = writer.position.saturating_sub(offset);
    match trailers {
        Ok(trailers) => Ok(Received {
            bytes,
            digest: (offset == 0).then(|| writer.hasher.finalize().into()),
            trailers,
        }),
        Err(error) => Err(Failure::Broken(error, bytes)),
    }
}

/// Returns the next bytes, unless a later request takes over the upload.
async fn next(exchange: &mut Exchange, claim: Option<&Claim>) -> Result<Option<Bytes>, LinkError> {
    let Some(claim) = claim else {
        return exchange.data().await;
    };
    tokio::select! {
        biased;
        () = claim.stopped() => Err(LinkError::Superseded),
        data = exchange.data() => data,
    }
}

/// Compares the received length with Content-Length.
fn check_length(announced: Option<u64>, received: u64, ended: bool) -> Result<(), Fault> {
    let Some(announced) = announced else {
        return Ok(());
    };
    if received > announced || (ended && received < announced) {
        let detail = "the content is not as long as Content-Length says; send the file again";
        return Err(problem(StatusCode::BAD_REQUEST, detail).into());
    }
    Ok(())
}

/// Compares the digest with those in the header and trailer sections.
fn check_digest(
    known: [Option<Sha256Digest>; 2],
    trailers: Option<&HeaderMap>,
    digest: &Sha256Digest,
) -> Result<(), Fault> {
    let bad = |detail: &str| Fault::from(problem(StatusCode::BAD_REQUEST, detail));
    let trailer = match trailers {
        Some(trailers) => plan::digest_in(trailers).map_err(|error| bad(&error.to_string()))?,
        None => None,
    };
    let wrong = |announced: Option<Sha256Digest>| announced.is_some_and(|other| other != *digest);
    if known.into_iter().any(wrong) || wrong(trailer) {
        return Err(bad(
            "the content's SHA-256 is not the one in Repr-Digest; send the file again",
        ));
    }
    Ok(())
}

/// A whole file's share of its client's quota.
struct Size {
    reservation: Reservation,
    /// Bytes of the last request.
    bytes: u64,
    /// Bytes of earlier requests, which already count as stored.
    offset: u64,
}

impl Size {
    /// Releases everything, because the file is not kept.
    fn release(self) {
        self.reservation.release(self.offset);
    }
}

/// Renames a whole file into place if the preconditions still hold.
fn commit(
    shared: &Shared,
    grant: &Grant,
    ask: &Ask,
    directory: &OwnedFd,
    draft: Draft,
    digest: &Sha256Digest,
    size: Size,
) -> Result<Reply, Fault> {
    let (placed, replaced) = place(shared, grant, ask, directory, draft, size)?;
    match placed.verify(digest) {
        Ok(stat) => {
            shared.digests.keep(&stat, stat.is_settled(now()), *digest);
            let reply = plan::stored(replaced.is_some(), &stat, digest, now());
            Ok(match ask.body.attributes {
                Some(_) => reply.with(plan::ATTRIBUTES, "?1"),
                None => reply,
            })
        }
        Err(error) => Err(unkept(error)),
    }
}

fn unkept(error: KeepError) -> Fault {
    let status = match error {
        KeepError::Storage(error) => return error.into(),
        KeepError::Exists => StatusCode::PRECONDITION_FAILED,
        _ => StatusCode::CONFLICT,
    };
    problem(status, &error.to_string()).into()
}

/// Checks the preconditions and renames the file, atomically. Returns the size of the replaced
/// file. From then on the quota includes the new file instead of the replaced one, because
/// another request may replace it and release its bytes before it is verified.
fn place(
    shared: &Shared,
    grant: &Grant,
    ask: &Ask,
    directory: &OwnedFd,
    draft: Draft,
    size: Size,
) -> Result<(Placed, Option<u64>), Fault> {
    let name = ask.path.names.last().map_or(&[][..], Vec::as_slice);
    let _held = lock(&shared.commits);
    let placing = || {
        let there = names_stat(directory.as_fd(), name)?;
        plan::before_write(ask, &grant.rules, there.as_ref(), now())?;
        let existing = match there {
            Some(_) => Existing::Replace,
            None => Existing::Keep,
        };
        if there.is_none() && !grant.add_file() {
            return Err(over_quota());
        }
        let placed = draft.place(name, existing).map_err(unkept)?;
        Ok((placed, there.map(|there| there.size)))
    };
    let placed: Result<_, Fault> = placing();
    match &placed {
        Ok((_, replaced)) => {
            size.reservation.keep(size.bytes);
            grant.release(replaced.unwrap_or(0));
        }
        Err(_) => size.release(),
    }
    placed
}
