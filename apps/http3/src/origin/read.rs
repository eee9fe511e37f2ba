//! Responds to GET and HEAD, with files and listings of directories.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};

use super::send::{Broken, Exchange, digest_of};
use super::shared::{Shared, refusal};
use crate::fields::{Sha256Digest, Span, sha256_field};
use crate::pace::now;
use crate::plan::{self, Ask, FilePlan, HashAt, Method, Piece, listing, problem};
use crate::resource::Stat;
use crate::root::{Entries, Found, read_piece, still_has};
use crate::sink::blocking;

/// Largest file in bytes that is read completely before responding.
const SMALL: u64 = 64 * 1024;

pub(super) async fn read(
    shared: &Arc<Shared>,
    exchange: &mut Exchange,
    ask: &Ask,
) -> Result<(), Broken> {
    let (root, looked) = (Arc::clone(shared), ask.clone());
    let prefix = exchange.terms.grant.rules.prefix.len();
    let found = blocking(move || {
        let found = root.root.find(&looked.path, prefix)?;
        let content = match &found {
            Found::File(file, stat) => load(&looked, file, stat),
            Found::Directory(_) => None,
        };
        Ok((found, content))
    });
    let (found, content) = match found.await? {
        Ok((found, content)) => (Ok(found), content),
        Err(error) => (Err(error), None),
    };
    match found {
        Err(error) => Ok(exchange.reply(&refusal(&error), now()).await?),
        Ok(Found::Directory(_)) if !ask.path.slash => {
            let redirect = plan::redirect_to_directory(&ask.path);
            Ok(exchange.reply(&redirect, now()).await?)
        }
        Ok(Found::Directory(_)) if !exchange.terms.grant.rules.list => {
            let reply = problem(
                StatusCode::FORBIDDEN,
                "the operator lets this client list nothing",
            );
            Ok(exchange.reply(&reply, now()).await?)
        }
        Ok(Found::File(..)) if !exchange.terms.grant.rules.get => {
            let reply = problem(
                StatusCode::FORBIDDEN,
                "the operator lets this client fetch nothing",
            );
            Ok(exchange.reply(&reply, now()).await?)
        }
        Ok(Found::Directory(directory)) => list(exchange, ask, directory).await,
        Ok(Found::File(file, stat)) => {
            send_file(shared, exchange, ask, &Arc::new(file), content, stat).await
        }
    }
}

/// All of a small file, read in a single visit to a blocking thread.
struct Content {
    bytes: Bytes,
    digest: Option<Sha256Digest>,
    /// Whether the file stayed unchanged while it was read.
    is_one_version: bool,
}

/// Reads a small file. Returns `None` if it isn't small or can't be read.
fn load(ask: &Ask, file: &File, stat: &Stat) -> Option<Content> {
    if stat.size > SMALL || ask.method != Method::Get {
        return None;
    }
    let bytes = read_piece(file, 0, stat.size).ok()?;
    let digest = ask.wants_digest.then(|| Sha256::digest(&bytes).into());
    let is_one_version = still_has(file, stat, digest.as_ref(), &AtomicBool::new(false)).ok()?;
    Some(Content {
        bytes,
        digest,
        is_one_version,
    })
}

async fn send_file(
    shared: &Shared,
    exchange: &mut Exchange,
    ask: &Ask,
    file: &Arc<File>,
    content: Option<Content>,
    stat: Stat,
) -> Result<(), Broken> {
    let at = now();
    let digest = match (&content, plan::hash_at(ask, &stat)) {
        (Some(content), _) if !content.is_one_version => return Err(Broken::Changed),
        (Some(content), _) => content.digest,
        (None, HashAt::Never) => None,
        (None, HashAt::Begin) => {
            let digest = hash(shared, exchange, file, &stat).await?;
            // If the bytes changed meanwhile, the digest would match no version.
            unchanged(shared, exchange, file, stat, Some(digest)).await?;
            Some(digest)
        }
        (None, HashAt::End) => shared.digests.known(&stat),
    };
    let plan = plan::file(ask, &stat, at, digest.as_ref());
    if exchange.is_head_only() {
        exchange.respond(plan.head).await?;
        return Ok(exchange.finish(None).await?);
    }
    let success = plan.head.status().is_success();
    let bytes = content.map(|content| content.bytes);
    let (content, urgency) = (bytes.as_ref(), ask.urgency);
    let trailer = send_content(shared, exchange, plan, file, content, &stat, urgency).await?;
    if !success {
        // A failed precondition or range, for which the response was already in memory.
        return Ok(exchange.finish(None).await?);
    }
    if bytes.is_none() {
        // A client discards a response that is reset, regardless of its length.
        unchanged(shared, exchange, file, stat, trailer.or(digest)).await?;
    }
    let trailers = trailer.map(|digest| digest_trailer(&digest));
    Ok(exchange.end(trailers.unwrap_or_default()).await?)
}

/// Returns bytes of a small file. Spans are always within the size that was read.
fn slice(content: &Bytes, span: Span) -> Bytes {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let range = place(span.first)..place(span.end());
    match content.get(range.clone()) {
        Some(_) => content.slice(range),
        None => Bytes::new(),
    }
}

/// Sends header section and content. Returns the digest for the trailer section.
async fn send_content(
    shared: &Shared,
    exchange: &mut Exchange,
    mut plan: FilePlan,
    file: &Arc<File>,
    content: Option<&Bytes>,
    stat: &Stat,
    urgency: u8,
) -> Result<Option<Sha256Digest>, Broken> {
    let whole = plan.is_whole(stat.size);
    let bytes = plan.pieces.iter().map(Piece::length).sum();
    exchange.link.hint(urgency, bytes);
    let mut hasher = (plan.trailer && whole).then(Sha256::new);
    if plan.head.status().is_success() {
        exchange.begin(&mut plan.head);
    }
    exchange.respond(plan.head).await?;
    let settled = stat.is_settled(now());
    let (host, unwanted) = (exchange.host, exchange.unwanted());
    let sending = async {
        for piece in plan.pieces {
            match piece {
                Piece::Text(text) => exchange.send(text).await?,
                Piece::Span(span) => match content {
                    Some(content) => exchange.send(slice(content, span)).await?,
                    None => exchange.send_span(file, span, &mut hasher).await?,
                },
            }
        }
        Ok::<_, Broken>(hasher.map(digest_of))
    };
    if !plan.trailer {
        return sending.await;
    }
    if whole {
        let digest = sending.await?;
        if let Some(digest) = digest {
            shared.digests.keep(stat, settled, digest);
        }
        return Ok(digest);
    }
    // Send the part while hashing the whole file.
    let hashing = async { Ok(shared.digests.of(host, file, stat, settled).await?) };
    let both = async { tokio::try_join!(sending, hashing) };
    tokio::select! {
        both = both => Ok(Some(both?.1)),
        error = unwanted => Err(error.into()),
    }
}

/// Returns the digest of a file, unless it is no longer needed.
async fn hash(
    shared: &Shared,
    exchange: &Exchange,
    file: &Arc<File>,
    stat: &Stat,
) -> Result<Sha256Digest, Broken> {
    let settled = stat.is_settled(now());
    tokio::select! {
        digest = shared.digests.of(exchange.host, file, stat, settled) => Ok(digest?),
        error = exchange.unwanted() => Err(error.into()),
    }
}

/// Fails if the content differs from the content of `before`, whose digest may be known.
async fn unchanged(
    shared: &Shared,
    exchange: &Exchange,
    file: &Arc<File>,
    before: Stat,
    digest: Option<Sha256Digest>,
) -> Result<(), Broken> {
    let is_same = tokio::select! {
        is_same = shared.digests.still(file, before, digest) => is_same?,
        error = exchange.unwanted() => return Err(error.into()),
    };
    if is_same {
        Ok(())
    } else {
        Err(Broken::Changed)
    }
}

/// Returns a trailer section with a digest.
fn digest_trailer(digest: &Sha256Digest) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(&sha256_field(digest)) {
        trailers.insert(plan::REPR_DIGEST, value);
    }
    trailers
}

/// Responds with the entries of an open directory.
pub(super) async fn list(
    exchange: &mut Exchange,
    ask: &Ask,
    directory: OwnedFd,
) -> Result<(), Broken> {
    let reply = plan::directory(ask);
    if !reply.status.is_success() || exchange.is_head_only() {
        return Ok(exchange.reply(&reply, now()).await?);
    }
    let mut entries = blocking(move || Entries::of(directory)).await??;
    let form = ask.form;
    exchange.respond(reply.head(now())).await?;
    exchange
        .send(listing::begin(form, &ask.path).into())
        .await?;
    let mut first = true;
    loop {
        let (rest, piece) = blocking(move || {
            let piece = entries.next_piece();
            (entries, piece)
        })
        .await?;
        entries = rest;
        let piece = piece?;
        if piece.is_empty() {
            break;
        }
        let mut text = String::new();
        for entry in &piece {
            text.push_str(&listing::entry(form, first, entry));
            first = false;
        }
        exchange.send(text.into()).await?;
    }
    exchange
        .send(Bytes::from_static(listing::end(form).as_bytes()))
        .await?;
    Ok(exchange.finish(None).await?)
}
