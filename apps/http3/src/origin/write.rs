//! Responds to PUT of a file, a link or a directory. If it is not stored, the client gets the
//! reason.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use http::StatusCode;
use http::header::{CONTENT_LENGTH, HeaderName, IF_MATCH, IF_NONE_MATCH, LOCATION};

use super::grant::{Grant, Reservation};
use super::intake::{Intake, take_in, welcome};
use super::send::{Broken, Exchange};
use super::shared::{Fault, Promise, Shared, disk_full, over_quota};
use super::uploads::Claim;
use crate::fields::{AttributesField, PathName};
use crate::lock;
use crate::pace::now;
use crate::plan::{self, Ask, PutRights, Reply, problem};
use crate::resource::{Time, Token, is_reserved};
use crate::root::{Attributes, Draft, Note, RootError, Upload, make_link, names_stat, target_of};
use crate::sink::blocking;

/// Request fields that apply when the upload completes.
const NOTED: [HeaderName; 4] = [IF_MATCH, IF_NONE_MATCH, plan::ATTRIBUTES, plan::REPR_DIGEST];

/// Stores the content of a PUT.
pub(super) async fn write(
    shared: &Arc<Shared>,
    exchange: &mut Exchange,
    ask: Ask,
) -> Result<(), Broken> {
    let stored = store(shared, exchange, ask).await;
    end(exchange, stored).await
}

/// Sends the reply to a request that stores something.
pub(super) async fn end(
    exchange: &mut Exchange,
    stored: Result<Reply, Fault>,
) -> Result<(), Broken> {
    let reply = match stored {
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
    let complete = ask.upload.complete;
    let length = match complete {
        Some(_) => plan::whole_length(&ask, 0, None)?,
        None => ask.body.length,
    };
    // A client that can't learn the upload's resource sends everything at once.
    let resumable = complete.is_some_and(|complete| !complete || ask.upload.same_version);
    let claim = if resumable {
        Some(claim(shared, &grant, &ask).await?)
    } else {
        None
    };
    let token = claim.as_ref().map(|claim| claim.token.clone());
    let note = token.map(|token| (token, note(&grant, exchange, length)));
    let begun = begin(shared, &grant, &ask, length, note).await;
    let (begun, claim) = match (begun, claim) {
        (Ok(begun), claim) => (begun, claim),
        (Err(fault), claim) => {
            if let Some(claim) = claim {
                claim.finish();
            }
            return Err(fault);
        }
    };
    let location = claim
        .as_ref()
        .map(|claim| location(&ask.path, &claim.token));
    welcome(exchange, &ask).await?;
    if let Some(location) = &location
        && ask.upload.same_version
    {
        let age = shared.uploads.limits.age;
        let interim = plan::resumable(location, &grant.rules, age);
        exchange.respond(interim).await?;
    }
    let intake = Intake {
        content: ask.body.length,
        complete: complete != Some(false),
        digest: None,
        ask,
        directory: begun.directory,
        draft: begun.draft,
        reservation: begun.reservation,
        promise: begun.promise,
        claim,
        offset: 0,
        length,
    };
    let reply = take_in(shared, exchange, intake).await?;
    Ok(match location {
        Some(location) if complete == Some(false) => reply.with(LOCATION, &location),
        _ => reply,
    })
}

/// Claims a new upload for this request.
async fn claim(shared: &Arc<Shared>, grant: &Arc<Grant>, ask: &Ask) -> Result<Claim, Fault> {
    let token = Token::of(rand::random());
    let stall = shared.limits.stall;
    let claim = shared
        .uploads
        .claim(&token, ask.path.before(), grant, stall)
        .await;
    // A random 128-bit token practically never repeats.
    claim.map_err(|_| std::io::Error::other("the number of an upload came twice").into())
}

/// Returns the path of an upload's resource, which is next to its file.
fn location(path: &PathName, token: &Token) -> String {
    let mut names = path.names.clone();
    names.pop();
    names.push(token.name());
    let slash = false;
    PathName { names, slash }.encode()
}

fn note(grant: &Grant, exchange: &Exchange, length: Option<u64>) -> Note {
    let headers = exchange.request.headers();
    let fields = NOTED.into_iter().flat_map(|name| {
        let lines = headers.get_all(&name).iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        lines.map(move |line| (name.as_str().to_owned(), line.to_owned()))
    });
    Note {
        owner: grant.name.clone(),
        path: exchange.request.uri().path().to_owned(),
        fields: fields.collect(),
        length,
    }
}

/// The file of a PUT before its content arrives.
struct Begun {
    directory: Arc<OwnedFd>,
    draft: Draft,
    reservation: Reservation,
    promise: Promise,
}

/// Begins a file, after checking the conditions that can already be known, which avoids a
/// useless transfer.
async fn begin(
    shared: &Arc<Shared>,
    grant: &Arc<Grant>,
    ask: &Ask,
    length: Option<u64>,
    note: Option<(Token, Note)>,
) -> Result<Begun, Fault> {
    let (shared, grant, mut ask) = (Arc::clone(shared), Arc::clone(grant), ask.clone());
    let begun = blocking(move || {
        ask.body.length = length;
        let name = ask.path.names.last().map_or(&[][..], Vec::as_slice);
        // Reject impossible names before looking at the directory.
        plan::before_write(&ask, &grant.rules, None, now()).or_else(only_name)?;
        let announced = length.unwrap_or(0);
        let reservation = grant.reserve(announced).ok_or_else(over_quota)?;
        let directory = Arc::new(directory(&shared, &grant, &ask, data_of(&ask, announced))?);
        let there = names_stat(directory.as_fd(), name)?;
        plan::before_write(&ask, &grant.rules, there.as_ref(), now())?;
        let mut draft = match note {
            Some((token, note)) => Upload::begin(&directory, &token, note)?.draft,
            None => Draft::fresh(&directory)?,
        };
        let promise = shared
            .space
            .promise(&draft.file(), data_of(&ask, announced))?;
        let promise = promise.ok_or_else(disk_full)?;
        if let Some(field) = &ask.body.attributes {
            draft.set_attributes(attributes(field));
        }
        Ok(Begun {
            directory,
            draft,
            reservation,
            promise,
        })
    });
    begun.await?
}

/// Opens the file's directory. If it doesn't exist, it is only created if the file is not
/// refused anyway.
fn directory(shared: &Shared, grant: &Grant, ask: &Ask, room: u64) -> Result<OwnedFd, Fault> {
    let prefix = grant.rules.prefix.len();
    match shared.root.parent(&ask.path, prefix, false) {
        Err(RootError::NotFound) => {}
        there => return Ok(there?),
    }
    plan::before_write(ask, &grant.rules, None, now())?;
    let above = File::from(shared.root.nearest(&ask.path, prefix)?);
    let promise = shared.space.promise(&above, room)?;
    promise.ok_or_else(disk_full)?;
    Ok(shared.root.parent(&ask.path, prefix, true)?)
}

/// Returns how many of the announced bytes need disk space, since holes need none.
pub(super) fn data_of(ask: &Ask, announced: u64) -> u64 {
    let data = ask.body.attributes.as_ref().and_then(|field| field.data);
    data.map_or(announced, |data| data.min(announced))
}

/// Keeps only refusals that are independent of existing files.
fn only_name(reply: Box<Reply>) -> Result<(), Box<Reply>> {
    match reply.status {
        StatusCode::PRECONDITION_FAILED => Ok(()),
        _ => Err(reply),
    }
}

/// Converts a field's attributes, restricted by this process's umask.
pub(super) fn attributes(field: &AttributesField) -> Attributes {
    let modified = field.modified.map(|(seconds, nanoseconds)| Time {
        seconds,
        nanoseconds,
    });
    let mode = field.mode;
    Attributes { mode, modified }.allowed()
}

/// Stores a link or a directory.
pub(super) fn entry(shared: &Shared, grant: &Grant, ask: &Ask) -> Result<Reply, Fault> {
    let field = ask.body.attributes.clone().unwrap_or_default();
    let attributes = attributes(&field);
    let created = |new: bool| {
        if new {
            Reply::empty(StatusCode::CREATED).with(CONTENT_LENGTH, "0")
        } else {
            Reply::empty(StatusCode::NO_CONTENT)
        }
    };
    let name = ask.path.names.last().map_or(&[][..], Vec::as_slice);
    if name.is_empty() || is_reserved(name) {
        let detail = "the name is that of the root or of unfinished files; choose another one";
        return Err(problem(StatusCode::FORBIDDEN, detail).into());
    }
    let prefix = grant.rules.prefix.len();
    let (directory, depth) = shared.root.parent_at(&ask.path, prefix, true)?;
    let _held = lock(&shared.commits);
    let there = names_stat(directory.as_fd(), name)?;
    let may_add = || {
        if there.is_some() || grant.add_file() {
            Ok(())
        } else {
            Err(over_quota())
        }
    };
    let Some(target) = &field.link else {
        may_add()?;
        // The last name of the path is created like those before it.
        let inside = PathName {
            names: [ask.path.names.as_slice(), &[b"x".to_vec()]].concat(),
            slash: false,
        };
        let made = shared.root.parent(&inside, prefix, true)?;
        if there.is_none() || grant.rules.put == PutRights::Replace {
            attributes.set(made)?;
        }
        return Ok(created(there.is_none()));
    };
    if ask.path.slash || !plan::is_inside(target, depth, prefix > 0) {
        let detail = "the link leads out of what the server has; links are relative, and inside";
        return Err(problem(StatusCode::FORBIDDEN, detail).into());
    }
    let own = target_of(directory.as_fd(), name)?;
    let same = own.as_ref().is_some_and(|own| own == target);
    plan::before_link(ask, &grant.rules, there.as_ref(), same, now())?;
    may_add()?;
    let modified = attributes.modified;
    make_link(directory.as_fd(), name, target, modified)?;
    Ok(created(there.is_none()))
}
