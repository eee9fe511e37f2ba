//! PUT of a local file.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, IF_NONE_MATCH, TRAILER};
use http::{HeaderMap, Method, Response};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use super::error::PutError;
use super::get::set;
use super::request::{Client, Exchange, Progress};
use crate::blocking::blocking;
use crate::fields::{AttributesField, PathName, Sha256Digest, sha256_field};
use crate::plan::{ATTRIBUTES, REPR_DIGEST, digest_in};
use crate::resource::{Kind, Stat};
use crate::root::{Existing, file_stat, read_piece};
use crate::wire::LinkError;

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
    /// Stores a file as [`put_with`](Self::put_with), and tells no progress.
    ///
    /// # Errors
    /// [`PutError`].
    pub async fn put(
        &self,
        source: &Path,
        path: &PathName,
        existing: Existing,
    ) -> Result<Stored, PutError> {
        self.put_with(source, path, existing, |_| ()).await
    }

    /// Stores the file at `source` under `path`.
    ///
    /// # Errors
    /// [`PutError`].
    pub async fn put_with(
        &self,
        source: &Path,
        path: &PathName,
        existing: Existing,
        progress: impl FnMut(Progress),
    ) -> Result<Stored, PutError> {
        let source = source.to_owned();
        let opened = blocking(move || open(&source)).await??;
        let how = (existing, None);
        Ok(self.put_file(opened, path, how, progress).await?.0)
    }

    /// The same for an open file; true if the server keeps the attributes.
    pub(super) async fn put_file(
        &self,
        (file, stat): (Arc<File>, Stat),
        path: &PathName,
        (existing, attributes): (Existing, Option<AttributesField>),
        mut progress: impl FnMut(Progress),
    ) -> Result<(Stored, bool), PutError> {
        let uri = self.uri(path).map_err(PutError::Name)?;
        let mut headers = HeaderMap::new();
        set(&mut headers, CONTENT_LENGTH, &stat.size.to_string());
        set(&mut headers, TRAILER, "Repr-Digest");
        if let Some(attributes) = attributes {
            set(&mut headers, ATTRIBUTES, &attributes.write());
        }
        if existing == Existing::Keep {
            set(&mut headers, IF_NONE_MATCH, "*");
        }
        let mut exchange = self.request(Method::PUT, uri, headers).await?;
        exchange.announce(stat.size);
        progress(Progress::Begin {
            bytes: Some(stat.size),
            offset: 0,
        });
        let (sent, hash) = send(&mut exchange, &file, &stat, progress).await?;
        // A server that refuses stops the content, and one that has stored it may: the response
        // says which.
        let response = match (exchange.response().await, sent) {
            (Ok(response), _) => response,
            (Err(_), Err(error)) | (Err(error), Ok(())) => return Err(error.into()),
        };
        if !response.status().is_success() {
            return Err(exchange.refusal(&response).await.into());
        }
        let Some(sha256) = hash else {
            return Err(PutError::Digest);
        };
        let verified = is_confirmed(&response, &sha256)?;
        let stored = Stored {
            bytes: stat.size,
            sha256,
            verified,
        };
        Ok((stored, response.headers().contains_key(ATTRIBUTES)))
    }

    /// Stores what `read` brings, until it is empty, under `path`.
    ///
    /// # Errors
    /// [`PutError`].
    pub async fn put_stream(
        &self,
        path: &PathName,
        existing: Existing,
        mut read: impl AsyncFnMut() -> io::Result<Bytes>,
        mut progress: impl FnMut(Progress),
    ) -> Result<Stored, PutError> {
        let uri = self.uri(path).map_err(PutError::Name)?;
        let mut headers = HeaderMap::new();
        set(&mut headers, TRAILER, "Repr-Digest");
        if existing == Existing::Keep {
            set(&mut headers, IF_NONE_MATCH, "*");
        }
        let mut exchange = self.request(Method::PUT, uri, headers).await?;
        let (mut hasher, mut bytes) = (Sha256::new(), 0);
        let sent = loop {
            let piece = read().await?;
            if piece.is_empty() {
                let sha256: Sha256Digest = hasher.finalize().into();
                let mut trailers = HeaderMap::new();
                set(&mut trailers, REPR_DIGEST, &sha256_field(&sha256));
                break exchange.finish(Some(trailers)).await.map(|()| sha256);
            }
            hasher.update(&piece);
            let length = piece.len() as u64;
            if let Err(error) = exchange.send(piece).await {
                break Err(error);
            }
            bytes += length;
            progress(Progress::Bytes(length));
        };
        let response = match (exchange.response().await, &sent) {
            (Ok(response), _) => response,
            (Err(error), Ok(_)) => return Err(error.into()),
            (Err(error), Err(_)) => return Err(sent.err().unwrap_or(error).into()),
        };
        if !response.status().is_success() {
            return Err(exchange.refusal(&response).await.into());
        }
        let sha256 = sent?;
        let verified = is_confirmed(&response, &sha256)?;
        Ok(Stored {
            bytes,
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

fn open(path: &PathBuf) -> Result<(Arc<File>, Stat), PutError> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    // The bits of these flags fit every type that has them.
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let stat = file_stat(&file)?;
    only_plain(&file, &stat)?;
    Ok((Arc::new(file), stat))
}

/// Refuses what is no plain file.
pub(super) fn only_plain(file: &File, stat: &Stat) -> Result<(), PutError> {
    match stat.kind {
        Kind::File if stat.size == 0 && file.read_at(&mut [0], 0)? > 0 => Err(PutError::Endless),
        Kind::File => Ok(()),
        _ => Err(PutError::Source),
    }
}

/// Sends the content with its digest in the trailer section: how that ended, and the digest of all
/// of the content if all was sent.
async fn send(
    exchange: &mut Exchange,
    file: &Arc<File>,
    stat: &Stat,
    mut progress: impl FnMut(Progress),
) -> Result<(Result<(), LinkError>, Option<Sha256Digest>), PutError> {
    let reader = Reader {
        file: Arc::clone(file),
        position: 0,
        end: stat.size,
        hasher: Sha256::new(),
    };
    let mut next = reader.next();
    let sha256: Sha256Digest = loop {
        let (reader, piece) = match next.await.map_err(io::Error::other)? {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(PutError::Shorter);
            }
            read => read?,
        };
        if piece.is_empty() {
            break reader.hasher.finalize().into();
        }
        next = reader.next();
        let bytes = piece.len() as u64;
        if let Err(error) = exchange.send(piece).await {
            return Ok((Err(error), None));
        }
        progress(Progress::Bytes(bytes));
    };
    let file = Arc::clone(file);
    let after = blocking(move || file_stat(&file)).await??;
    // Dropping the exchange resets the request, and the server stores nothing.
    if after.size < stat.size {
        return Err(PutError::Shorter);
    }
    if !after.is_same_version(stat) {
        return Err(PutError::Changed);
    }
    let mut trailers = HeaderMap::new();
    set(&mut trailers, REPR_DIGEST, &sha256_field(&sha256));
    Ok((exchange.finish(Some(trailers)).await, Some(sha256)))
}

/// Bytes of a file that are still to be read.
struct Reader {
    file: Arc<File>,
    position: u64,
    end: u64,
    hasher: Sha256,
}

impl Reader {
    /// Reads and hashes a piece on a thread that may block; an empty one at the end.
    fn next(mut self) -> JoinHandle<io::Result<(Self, Bytes)>> {
        tokio::task::spawn_blocking(move || {
            let piece = read_piece(&self.file, self.position, self.end)?;
            self.hasher.update(&piece);
            self.position += piece.len() as u64;
            Ok((self, piece))
        })
    }
}
