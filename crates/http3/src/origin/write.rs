//! PUT.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, StatusCode};

use super::grant::Grant;
use super::read::refusal;
use super::send::{Broken, Exchange, digest_of};
use super::shared::{Shared, now};
use crate::blocking::blocking;
use crate::fields::{AttributesField, PathName, Sha256Digest};
use crate::plan::{self, Ask, PutRights, Reply, problem};
use crate::resource::{Time, is_reserved};
use crate::root::{
    Attributes, Draft, Existing, KeepError, Placed, RootError, make_link, names_stat,
};
use crate::sink::{Sink, Writer};
use crate::wire::LinkError;

/// Why a file is not stored.
enum Fault {
    /// The client gets this reply.
    Reply(Box<Reply>),
    /// The stream failed.
    Link(LinkError),
}

impl From<LinkError> for Fault {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<Box<Reply>> for Fault {
    fn from(reply: Box<Reply>) -> Self {
        Self::Reply(reply)
    }
}

impl From<Reply> for Fault {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply.into())
    }
}

impl From<RootError> for Fault {
    fn from(error: RootError) -> Self {
        let reply = match error {
            RootError::NotFound => {
                let detail = "a file or a link has the name of a directory in the path; choose \
                              another name";
                problem(StatusCode::CONFLICT, detail)
            }
            RootError::Storage(error) => return Self::from(error),
            error => refusal(&error),
        };
        reply.into()
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        storage(&error).into()
    }
}

/// The reply to a PUT that the server's disk cannot take.
fn storage(error: &io::Error) -> Reply {
    if let Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) =
        rustix::io::Errno::from_io_error(error)
    {
        return refusal(&RootError::Busy);
    }
    use io::ErrorKind::{
        FileTooLarge, NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    let (status, detail) = match error.kind() {
        StorageFull | QuotaExceeded => (
            StatusCode::INSUFFICIENT_STORAGE,
            "the server's disk is full; free space there, then try again".to_owned(),
        ),
        FileTooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "the server's file system takes no file of this size".to_owned(),
        ),
        PermissionDenied | ReadOnlyFilesystem => (
            StatusCode::FORBIDDEN,
            "the server has no permission to write there; its operator can grant it".to_owned(),
        ),
        NotFound => (
            StatusCode::CONFLICT,
            "the directory or the unfinished file was removed meanwhile; send the file again"
                .to_owned(),
        ),
        _ => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the server could not store the file: {error}"),
        ),
    };
    problem(status, &detail)
}

/// Stores the content of a PUT.
pub(super) async fn write(
    shared: &Arc<Shared>,
    exchange: &mut Exchange,
    ask: Ask,
) -> Result<(), Broken> {
    let reply = match store(shared, exchange, ask).await {
        Ok(reply) => reply,
        Err(Fault::Reply(reply)) => *reply,
        Err(Fault::Link(error)) => return Err(error.into()),
    };
    Ok(exchange.reply(&reply, now()).await?)
}

async fn store(shared: &Arc<Shared>, exchange: &mut Exchange, ask: Ask) -> Result<Reply, Fault> {
    let grant = Arc::clone(&exchange.terms.grant);
    let field = ask.body.attributes.as_ref();
    if field.is_some_and(|field| field.link.is_some() || ask.path.slash) {
        let shared = Arc::clone(shared);
        let marked = |reply: Reply| reply.with(plan::ATTRIBUTES, "?1");
        return blocking(move || entry(&shared, &grant, &ask))
            .await?
            .map(marked);
    }
    let (directory, draft) = begin(shared, &grant, &ask).await?;
    if ask.body.expects_continue {
        let mut interim = Response::new(());
        *interim.status_mut() = StatusCode::CONTINUE;
        exchange.respond(interim).await?;
    }
    let (draft, digest, bytes) = receive(&grant, exchange, &ask, draft).await?;
    let trailers = exchange.trailers().await?;
    check_digest(&ask, trailers.as_ref(), &digest)?;
    let shared = Arc::clone(shared);
    let stored =
        blocking(move || commit((&shared, &grant), &ask, &directory, draft, &digest)).await??;
    exchange.bytes = bytes;
    Ok(stored)
}

/// Refuses what is plain by now, which spares the transfer, and begins a file.
async fn begin(
    shared: &Arc<Shared>,
    grant: &Arc<Grant>,
    ask: &Ask,
) -> Result<(Arc<OwnedFd>, Draft), Fault> {
    let (shared, grant, ask) = (Arc::clone(shared), Arc::clone(grant), ask.clone());
    let begun = blocking(move || {
        let name = ask.path.names.last().map_or(&[][..], Vec::as_slice);
        // A name that no file has is refused before the directory is looked at.
        plan::before_write(&ask, &grant.rules, None, now()).or_else(only_name)?;
        if !grant.has_room(ask.body.length.unwrap_or(0)) {
            return Err(over_quota());
        }
        let directory = Arc::new(shared.root.parent(&ask.path, true)?);
        let there = names_stat(directory.as_fd(), name)?;
        plan::before_write(&ask, &grant.rules, there.as_ref(), now())?;
        let mut draft = Draft::fresh(&directory)?;
        if let Some(field) = &ask.body.attributes {
            draft.set_attributes(attributes(field));
        }
        Ok((directory, draft))
    });
    begun.await?
}

/// What a field asks for, as far as this process's umask allows.
fn attributes(field: &AttributesField) -> Attributes {
    let modified = field.modified.map(|(seconds, nanoseconds)| Time {
        seconds,
        nanoseconds,
    });
    let mode = field.mode;
    Attributes { mode, modified }.allowed()
}

/// Stores a link or a directory.
fn entry(shared: &Shared, grant: &Grant, ask: &Ask) -> Result<Reply, Fault> {
    let field = ask.body.attributes.clone().unwrap_or_default();
    let attributes = attributes(&field);
    let created = |new: bool| match new {
        true => Reply::empty(StatusCode::CREATED).with(CONTENT_LENGTH, "0"),
        false => Reply::empty(StatusCode::NO_CONTENT),
    };
    let name = ask.path.names.last().map_or(&[][..], Vec::as_slice);
    if name.is_empty() || is_reserved(name) {
        let detail = "the name is that of the root or of unfinished files; choose another one";
        return Err(problem(StatusCode::FORBIDDEN, detail).into());
    }
    let directory = shared.root.parent(&ask.path, true)?;
    let _held = shared
        .commits
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let there = names_stat(directory.as_fd(), name)?;
    let Some(target) = &field.link else {
        // The name of the path's end is made as those before it are.
        let inside = PathName {
            names: [ask.path.names.as_slice(), &[b"x".to_vec()]].concat(),
            slash: false,
        };
        let made = shared.root.parent(&inside, true)?;
        if there.is_none() || grant.rules.put == PutRights::Replace {
            attributes.set(made)?;
        }
        return Ok(created(there.is_none()));
    };
    if ask.path.slash || !plan::is_inside(&ask.path, target) {
        let detail = "the link leads out of what the server has; links are relative, and inside";
        return Err(problem(StatusCode::FORBIDDEN, detail).into());
    }
    let own = readlink(directory.as_fd(), name)?;
    let same = own.as_ref().is_some_and(|own| own == target);
    plan::before_link(ask, &grant.rules, there.as_ref(), same, now())?;
    let modified = attributes.modified;
    make_link(directory.as_fd(), name, target, modified)?;
    Ok(created(there.is_none()))
}

/// The target of a link; none if the name is that of nothing or of something else.
fn readlink(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    use rustix::io::Errno;
    match rustix::fs::readlinkat(directory, name, Vec::new()) {
        Ok(target) => Ok(Some(target.into_bytes())),
        Err(Errno::NOENT | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn over_quota() -> Fault {
    let detail = "the operator lets this client store no more; remove files there first";
    problem(StatusCode::INSUFFICIENT_STORAGE, detail).into()
}

/// A refusal that holds whatever the name is for now.
fn only_name(reply: Box<Reply>) -> Result<(), Box<Reply>> {
    match reply.status {
        StatusCode::PRECONDITION_FAILED => Ok(()),
        _ => Err(reply),
    }
}

/// Writes the content to the draft; its digest.
async fn receive(
    grant: &Grant,
    exchange: &mut Exchange,
    ask: &Ask,
    draft: Draft,
) -> Result<(Draft, Sha256Digest, u64), Fault> {
    let most = grant.rules.max_file;
    let (mut sink, mut received) = (Sink::new(Writer::new(draft.file())), 0_u64);
    loop {
        let data = exchange.data().await?;
        let length = data.as_ref().map_or(0, Bytes::len);
        received = received.saturating_add(length as u64);
        if received > most {
            return Err(plan::too_large(&grant.rules).into());
        }
        if !grant.has_room(received) {
            return Err(over_quota());
        }
        check_length(ask.body.length, received, data.is_none())?;
        match data {
            Some(data) => sink.take(&data).await?,
            None => break,
        }
    }
    let writer = sink.finish().await?;
    Ok((draft, digest_of(writer.hasher), received))
}

/// Compares what arrived with Content-Length.
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

/// Compares the digest with those in header and trailer section.
fn check_digest(
    ask: &Ask,
    trailers: Option<&HeaderMap>,
    digest: &Sha256Digest,
) -> Result<(), Fault> {
    let bad = |detail: &str| Fault::from(problem(StatusCode::BAD_REQUEST, detail));
    let trailer = match trailers {
        Some(trailers) => plan::digest_in(trailers).map_err(|error| bad(&error.to_string()))?,
        None => None,
    };
    let wrong = |announced: Option<Sha256Digest>| announced.is_some_and(|other| other != *digest);
    if wrong(ask.body.digest) || wrong(trailer) {
        return Err(bad(
            "the content's SHA-256 is not the one in Repr-Digest; send the file again",
        ));
    }
    Ok(())
}

/// Gives a whole file its name if the preconditions still hold.
fn commit(
    (shared, grant): (&Shared, &Grant),
    ask: &Ask,
    directory: &OwnedFd,
    draft: Draft,
    digest: &Sha256Digest,
) -> Result<Reply, Fault> {
    // The file's bytes reach the disk before others wait.
    draft.file().sync_all()?;
    let (placed, replaced) = place((shared, grant), ask, directory, draft)?;
    match placed.and_then(|placed| placed.verify(digest)) {
        Ok(stat) => {
            shared.digests.keep(&stat, stat.is_settled(now()), *digest);
            grant.count(stat.size, replaced.unwrap_or(0));
            let reply = plan::stored(replaced.is_some(), &stat, digest, now());
            Ok(match ask.body.attributes {
                Some(_) => reply.with(plan::ATTRIBUTES, "?1"),
                None => reply,
            })
        }
        Err(KeepError::Storage(error)) => Err(error.into()),
        Err(error @ KeepError::Exists) => {
            Err(problem(StatusCode::PRECONDITION_FAILED, &error.to_string()).into())
        }
        Err(error) => Err(problem(StatusCode::CONFLICT, &error.to_string()).into()),
    }
}

/// Checks the preconditions and gives the file its name as one step; the bytes of the file that it
/// replaced.
fn place(
    (shared, grant): (&Shared, &Grant),
    ask: &Ask,
    directory: &OwnedFd,
    draft: Draft,
) -> Result<(Result<Placed, KeepError>, Option<u64>), Fault> {
    let name = ask.path.names.last().map_or(&[][..], Vec::as_slice);
    let _held = shared
        .commits
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let there = names_stat(directory.as_fd(), name)?;
    plan::before_write(ask, &grant.rules, there.as_ref(), now())?;
    let existing = match there {
        Some(_) => Existing::Replace,
        None => Existing::Keep,
    };
    Ok((draft.place(name, existing), there.map(|there| there.size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_the_disk_have_their_status() {
        for (number, status) in [
            (rustix::io::Errno::NOSPC, 507),
            (rustix::io::Errno::DQUOT, 507),
            (rustix::io::Errno::FBIG, 413),
            (rustix::io::Errno::ROFS, 403),
            (rustix::io::Errno::ACCESS, 403),
            (rustix::io::Errno::NOENT, 409),
            (rustix::io::Errno::IO, 500),
        ] {
            assert_eq!(storage(&number.into()).status.as_u16(), status, "{number}");
        }
    }
}
