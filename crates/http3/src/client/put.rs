//! PUT of a local file.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, HeaderName, IF_NONE_MATCH, TRAILER};
use http::{HeaderMap, HeaderValue, Method, Response};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use super::error::PutError;
use super::request::{Client, Exchange};
use crate::blocking::blocking;
use crate::fields::{PathName, Sha256Digest, sha256_field};
use crate::plan::{REPR_DIGEST, digest_in};
use crate::resource::{Kind, Stat};
use crate::root::{Existing, file_stat, read_piece};

/// A file that was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Bytes of the file.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: Sha256Digest,
    /// The server announced the same digest of what it stored.
    pub verified: bool,
}

impl Client {
    /// Stores the file at `source` under `path`.
    ///
    /// # Errors
    /// [`PutError`].
    pub async fn put(
        &self,
        source: &Path,
        path: &PathName,
        existing: Existing,
    ) -> Result<Stored, PutError> {
        let uri = self.uri(path).map_err(PutError::Name)?;
        let source = source.to_owned();
        let (file, stat) = blocking(move || open(&source)).await??;
        let mut headers = HeaderMap::new();
        set(&mut headers, CONTENT_LENGTH, &stat.size.to_string());
        set(&mut headers, TRAILER, "Repr-Digest");
        if existing == Existing::Keep {
            set(&mut headers, IF_NONE_MATCH, "*");
        }
        let mut exchange = self.request(Method::PUT, uri, headers).await?;
        exchange.announce(stat.size);
        let sha256 = match send(&mut exchange, &file, &stat).await {
            Ok(sha256) => sha256,
            // A server that refuses stops the content; its response says why.
            Err(PutError::Link(error)) => {
                return match exchange.response().await {
                    Ok(response) => Err(exchange.refusal(&response).await.into()),
                    Err(_) => Err(error.into()),
                };
            }
            Err(error) => return Err(error),
        };
        let response = exchange.response().await?;
        if !response.status().is_success() {
            return Err(exchange.refusal(&response).await.into());
        }
        let verified = is_confirmed(&response, &sha256)?;
        Ok(Stored {
            bytes: stat.size,
            sha256,
            verified,
        })
    }
}

/// True if the server announces the digest of what it stored.
fn is_confirmed(response: &Response<()>, sha256: &Sha256Digest) -> Result<bool, PutError> {
    match digest_in(response.headers()) {
        Ok(Some(digest)) if digest != *sha256 => Err(PutError::Digest),
        Ok(digest) => Ok(digest.is_some()),
        Err(_) => Ok(false),
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn open(path: &PathBuf) -> Result<(Arc<File>, Stat), PutError> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    // The bits of these flags fit every type that has them.
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let stat = file_stat(&file)?;
    match stat.kind {
        Kind::File => Ok((Arc::new(file), stat)),
        _ => Err(PutError::Source),
    }
}

/// Sends the content with its digest in the trailer section.
async fn send(
    exchange: &mut Exchange,
    file: &Arc<File>,
    stat: &Stat,
) -> Result<Sha256Digest, PutError> {
    let read = |from| {
        let (file, end) = (Arc::clone(file), stat.size);
        tokio::task::spawn_blocking(move || read_piece(&file, from, end))
    };
    let (mut hasher, mut position) = (Sha256::new(), 0);
    let mut next = read(position);
    while position < stat.size {
        let piece = match next.await.map_err(io::Error::other)? {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(PutError::Changed);
            }
            piece => piece?,
        };
        position += piece.len() as u64;
        next = read(position);
        hasher.update(&piece);
        exchange.send(piece).await?;
    }
    let file = Arc::clone(file);
    let after = blocking(move || file_stat(&file)).await??;
    if !after.is_same_version(stat) {
        // Dropping the exchange resets the request, and the server stores nothing.
        return Err(PutError::Changed);
    }
    let sha256: Sha256Digest = hasher.finalize().into();
    let mut trailers = HeaderMap::new();
    set(&mut trailers, REPR_DIGEST, &sha256_field(&sha256));
    exchange.finish(Some(trailers)).await?;
    Ok(sha256)
}
