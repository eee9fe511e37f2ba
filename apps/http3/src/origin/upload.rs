//! Responds to HEAD, PATCH and DELETE for resumable uploads.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Request, StatusCode};

use super::intake::{Intake, lay_down, take_in, welcome};
use super::send::{Broken, Exchange};
use super::shared::{Fault, Shared, disk_full, over_quota};
use super::uploads::{Claim, Unclaimed};
use super::write::{attributes, data_of, end};
use crate::pace::now;
use crate::plan::{self, Ask, Method, PutRights, Reply, UploadState, problem};
use crate::resource::Token;
use crate::root::{RootError, Upload, file_stat, names_stat};
use crate::sink::blocking;

/// An upload that this request has claimed.
struct Held {
    claim: Claim,
    upload: Upload,
    directory: Arc<OwnedFd>,
    offset: u64,
}

/// Responds to a request for an upload's resource.
pub(super) async fn upload(
    shared: &Arc<Shared>,
    exchange: &mut Exchange,
    ask: &Ask,
    token: &Token,
) -> Result<(), Broken> {
    let ended = match hold(shared, exchange, ask, token).await {
        Ok(held) => {
            exchange.upload = Some(held.upload.note.path.clone());
            match ask.method {
                Method::Patch => append(shared, exchange, ask, held).await,
                Method::Delete => cancel(exchange, held).await,
                _ => look(shared, exchange, held).await,
            }
        }
        Err(fault) => Err(fault),
    };
    end(exchange, ended).await
}

fn not_found() -> Fault {
    let detail = "there is no such upload of this client; send the file from its beginning";
    problem(StatusCode::NOT_FOUND, detail).into()
}

fn busy() -> Fault {
    let detail = "another request has the upload; try again later";
    let reply = problem(StatusCode::SERVICE_UNAVAILABLE, detail);
    reply.with(RETRY_AFTER, "5").into()
}

async fn hold(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    ask: &Ask,
    token: &Token,
) -> Result<Held, Fault> {
    let grant = &exchange.terms.grant;
    if grant.rules.put == PutRights::None {
        return Err(not_found());
    }
    let stall = shared.limits.stall;
    let claim = shared
        .uploads
        .claim(token, ask.path.before(), grant, stall)
        .await;
    let claim = claim.map_err(|why| match why {
        Unclaimed::Foreign => not_found(),
        Unclaimed::Busy => busy(),
    })?;
    let (shared, path, token) = (Arc::clone(shared), ask.path.clone(), token.clone());
    let (grant, prefix) = (Arc::clone(grant), grant.rules.prefix.len());
    let opened = blocking(move || {
        let directory = match shared.root.parent(&path, prefix, false) {
            Err(RootError::NotFound) => return Err(not_found()),
            directory => Arc::new(directory?),
        };
        let upload = Upload::open(&directory, &token)?;
        let upload = upload.filter(|upload| upload.note.owner == grant.name);
        let upload = upload.ok_or_else(not_found)?;
        let stat = file_stat(&upload.draft.file())?;
        let since = now().duration_since(stat.modified.to_system());
        if since.unwrap_or_default() > shared.uploads.limits.age {
            upload.draft.discard()?;
            grant.release(stat.size);
            return Err(not_found());
        }
        Ok((directory, upload, stat.size))
    });
    match opened.await? {
        Ok((directory, upload, offset)) => Ok(Held {
            claim,
            upload,
            directory,
            offset,
        }),
        Err(fault) => {
            claim.finish();
            Err(fault)
        }
    }
}

impl Held {
    /// Leaves the upload unchanged.
    async fn put_back(self, shared: &Arc<Shared>) -> Result<(), Fault> {
        let shared = Arc::clone(shared);
        blocking(move || lay_down(&shared, self.claim, self.upload.draft, self.offset)).await?;
        Ok(())
    }
}

/// Responds to HEAD.
async fn look(shared: &Arc<Shared>, exchange: &Exchange, held: Held) -> Result<Reply, Fault> {
    let state = UploadState {
        offset: held.offset,
        length: held.upload.note.length,
        age: shared.uploads.limits.age,
    };
    held.put_back(shared).await?;
    let rules = &exchange.terms.grant.rules;
    Ok(plan::incomplete(StatusCode::NO_CONTENT, &state, rules))
}

/// Responds to DELETE.
async fn cancel(exchange: &Exchange, held: Held) -> Result<Reply, Fault> {
    let grant = Arc::clone(&exchange.terms.grant);
    blocking(move || {
        held.upload.draft.discard()?;
        grant.release(held.offset);
        held.claim.finish();
        Ok::<_, Fault>(())
    })
    .await??;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// Responds to PATCH.
async fn append(
    shared: &Arc<Shared>,
    exchange: &mut Exchange,
    ask: &Ask,
    held: Held,
) -> Result<Reply, Fault> {
    let (complete, put) = match before_append(exchange, ask, &held) {
        Ok(plain) => plain,
        Err(reply) => {
            held.put_back(shared).await?;
            return Err(reply.into());
        }
    };
    let grant = Arc::clone(&exchange.terms.grant);
    let announced = put
        .body
        .length
        .map(|length| length.saturating_sub(held.offset));
    let announced = announced.or(ask.body.length).unwrap_or(0);
    let room = || {
        let reservation = grant.reserve(announced).ok_or_else(over_quota)?;
        let room = data_of(&put, announced);
        let promise = shared.space.promise(&held.upload.draft.file(), room)?;
        let promise = promise.ok_or_else(disk_full)?;
        let name = put.path.names.last().map_or(&[][..], Vec::as_slice);
        let there = names_stat(held.directory.as_fd(), name)?;
        plan::before_write(&put, &grant.rules, there.as_ref(), now())?;
        Ok((reservation, promise))
    };
    let (reservation, promise) = match room() {
        Ok(room) => room,
        Err(fault) => {
            held.put_back(shared).await?;
            return Err(fault);
        }
    };
    welcome(exchange, ask).await?;
    let Held {
        claim,
        upload,
        directory,
        offset,
    } = held;
    let mut draft = upload.draft;
    if let Some(field) = &put.body.attributes {
        draft.set_attributes(attributes(field));
    }
    let intake = Intake {
        digest: ask.body.digest,
        directory,
        draft,
        reservation,
        promise,
        claim: Some(claim),
        offset,
        content: ask.body.length,
        length: put.body.length,
        complete,
        ask: put,
    };
    take_in(shared, exchange, intake).await
}

/// Returns whether the content completes the upload, and the original PUT request, which is
/// checked against current rights.
fn before_append(exchange: &Exchange, ask: &Ask, held: &Held) -> Result<(bool, Ask), Box<Reply>> {
    let bad = |detail: &str| Box::new(problem(StatusCode::BAD_REQUEST, detail));
    let media = exchange.request.headers().get(CONTENT_TYPE);
    if media.is_none_or(|media| media != plan::PARTIAL_UPLOAD) {
        let detail = "content is appended to an upload as application/partial-upload";
        return Err(problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).into());
    }
    let Some(complete) = ask.upload.complete else {
        return Err(bad("Upload-Complete is missing, or no Boolean"));
    };
    match ask.upload.offset {
        None => return Err(bad("Upload-Offset is missing, or no number")),
        Some(offset) if offset != held.offset => {
            return Err(plan::wrong_offset(held.offset, offset).into());
        }
        Some(_) => {}
    }
    let note = &held.upload.note;
    let length = plan::whole_length(ask, held.offset, note.length)?;
    let uri = exchange.request.uri();
    let mut path = http::Uri::builder().path_and_query(note.path.as_str());
    if let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) {
        path = path.scheme(scheme.clone()).authority(authority.clone());
    }
    let mut request = Request::put(path.build().map_err(|error| bad(&error.to_string()))?);
    for (name, value) in &note.fields {
        request = request.header(name, value);
    }
    let request = request.body(()).map_err(|error| bad(&error.to_string()))?;
    let mut put = Ask::read(&request, &exchange.terms.grant.rules)?;
    put.body.length = length;
    Ok((complete, put))
}
