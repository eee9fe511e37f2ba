//! Implements PUT of a local file.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, IF_NONE_MATCH, TRAILER};
use http::{HeaderMap, Method, Response, StatusCode};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use super::plan::PutError;
use super::request::{Client, Exchange, Page, Progress, set};
use super::resume_upload::{resumable, upload_of};
use crate::fields::{AttributesField, PathName, Sha256Digest, sha256_field};
use crate::plan::{ATTRIBUTES, REPR_DIGEST, digest_in, upload_fields};
use crate::resource::{Kind, Stat};
use crate::root::{Cancel, Existing, file_stat, still_has};
use crate::sink::{Reader, blocking};
use crate::wire::LinkError;

/// A file that was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The file's size in bytes.
    pub bytes: u64,
    /// Bytes that earlier connections had already transferred.
    pub resumed: u64,
    /// SHA-256 of the file.
    pub sha256: Sha256Digest,
    /// Whether the server announced the same digest for the stored file.
    pub verified: bool,
}

impl Client {
    /// Stores a file like [`put_with`](Self::put_with), but without reporting progress.
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
        let (file, stat) = opened;
        let stored = self.put_file(file, stat, path, existing, None, progress);
        Ok(stored.await?.0)
    }

    /// Does the same for an open file. Also returns whether the server keeps attributes.
    pub(super) async fn put_file(
        &self,
        file: Arc<File>,
        stat: Stat,
        path: &PathName,
        existing: Existing,
        attributes: Option<AttributesField>,
        mut progress: impl FnMut(Progress),
    ) -> Result<(Stored, bool), PutError> {
        let uri = self.uri(path).map_err(PutError::Name)?;
        let page = self.page(&uri, existing, &stat);
        if let Some(page) = &page
            && let Some(resumed) = self.go_on(page, path, &file, &stat, &mut progress).await?
        {
            return Ok(resumed);
        }
        let bytes = stat.size;
        let attributes = with_data(attributes, &file_stat(&file)?);
        let mut headers = HeaderMap::new();
        set(&mut headers, CONTENT_LENGTH, &bytes.to_string());
        set(&mut headers, TRAILER, "Repr-Digest");
        if let Some(attributes) = attributes {
            set(&mut headers, ATTRIBUTES, &attributes.write());
        }
        if existing == Existing::Keep {
            set(&mut headers, IF_NONE_MATCH, "*");
        }
        if page.is_some() {
            resumable(&mut headers);
        }
        let mut exchange = self.request(Method::PUT, uri, headers).await?;
        exchange.link.announce(bytes);
        exchange.allow(bytes);
        progress(Progress::Begin {
            bytes: Some(bytes),
            offset: 0,
        });
        let reader = Reader::hashing(&file, bytes);
        let sent = send(&mut exchange, reader, &stat, page.as_ref(), progress).await;
        self.stored(exchange, sent, page.as_ref(), bytes, 0).await
    }

    /// Waits for the server's response after its content was sent, and returns the result.
    pub(super) async fn stored(
        &self,
        mut exchange: Exchange,
        sent: Result<Sent, PutError>,
        page: Option<&Page>,
        bytes: u64,
        resumed: u64,
    ) -> Result<(Stored, bool), PutError> {
        let (sent, hash) = match sent {
            Ok(sent) => sent,
            Err(error) => {
                // The source is unusable, so the server shouldn't keep any of its bytes.
                drop(exchange);
                self.give_up(page).await?;
                return Err(error);
            }
        };
        // The server may stop reading the content both when it refuses the file and when it has
        // already stored it. Only the response tells these cases apart.
        let response = match (exchange.response().await, sent) {
            (Ok(response), _) => response,
            (Err(_), Err(error)) | (Err(error), Ok(())) => return Err(error.into()),
        };
        if let Some(page) = page
            && is_over(&response)
        {
            page.forget().await?;
        }
        if !response.status().is_success() {
            return Err(exchange.refusal(&response).await.into());
        }
        let Some(sha256) = hash else {
            return Err(PutError::Digest);
        };
        let verified = is_confirmed(&response, &sha256)?;
        let stored = Stored {
            bytes,
            resumed,
            sha256,
            verified,
        };
        Ok((stored, response.headers().contains_key(ATTRIBUTES)))
    }

    /// Stores the data that `read` returns under `path`, until `read` returns an empty piece.
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
            resumed: 0,
            sha256,
            verified,
        })
    }
}

/// Adds the number of data bytes to the attributes if the file is sparse.
pub(crate) fn with_data(
    attributes: Option<AttributesField>,
    stat: &Stat,
) -> Option<AttributesField> {
    if stat.taken >= stat.size {
        return attributes;
    }
    Some(AttributesField {
        data: Some(stat.taken),
        ..attributes.unwrap_or_default()
    })
}

/// Returns true if the upload is complete or can't be resumed.
fn is_over(response: &Response<()>) -> bool {
    let (status, fields) = (response.status(), upload_fields(response.headers()));
    let goes_on = status.is_server_error() || status == StatusCode::CONFLICT;
    fields.complete == Some(true) || !goes_on
}

/// Returns true if the server announced the digest of the stored file, and fails if it differs.
pub(super) fn is_confirmed(
    response: &Response<()>,
    sha256: &Sha256Digest,
) -> Result<bool, PutError> {
    match digest_in(response.headers()) {
        Ok(Some(digest)) if digest != *sha256 => Err(PutError::Digest),
        Ok(digest) => Ok(digest.is_some()),
        Err(_) => Ok(false),
    }
}

fn open(path: &PathBuf) -> Result<(Arc<File>, Stat), PutError> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    // These flags are small enough for every integer type that holds them.
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let stat = file_stat(&file)?;
    only_plain(&file, &stat)?;
    Ok((Arc::new(file), stat))
}

/// Rejects anything but a regular file of known size.
pub(super) fn only_plain(file: &File, stat: &Stat) -> Result<(), PutError> {
    match stat.kind {
        Kind::File if stat.size == 0 && file.read_at(&mut [0], 0)? > 0 => Err(PutError::Endless),
        Kind::File => Ok(()),
        _ => Err(PutError::Source),
    }
}

/// Waits for a piece of the source.
pub(super) async fn read(
    next: JoinHandle<io::Result<(Reader, Bytes)>>,
) -> Result<(Reader, Bytes), PutError> {
    next.await
        .map_err(io::Error::other)?
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => PutError::Shorter,
            _ => error.into(),
        })
}

/// The result of sending the content, with the digest of the whole file if it was sent entirely.
pub(super) type Sent = (Result<(), LinkError>, Option<Sha256Digest>);

/// Sends the rest of a file, followed by the digest of the whole file in the trailer section.
/// Once the server names a resource for the upload, it is recorded in `page`.
pub(super) async fn send(
    exchange: &mut Exchange,
    reader: Reader,
    stat: &Stat,
    page: Option<&Page>,
    mut progress: impl FnMut(Progress),
) -> Result<Sent, PutError> {
    let file = Arc::clone(&reader.file);
    let mut next = reader.next();
    let sha256: Sha256Digest = loop {
        let (reader, piece) = read(next).await?;
        if piece.is_empty() {
            break reader.hasher.unwrap_or_default().finalize().into();
        }
        next = reader.next();
        let bytes = piece.len() as u64;
        if let Some(page) = page
            && let Some(path) = exchange
                .link
                .interim()
                .and_then(|interim| upload_of(&interim))
        {
            page.keep(&path).await?;
        }
        if let Err(error) = exchange.send(piece).await {
            return Ok((Err(error), None));
        }
        progress(Progress::Bytes(bytes));
    };
    let (before, cancel) = (*stat, Cancel::default());
    let flag = cancel.flag();
    let looking = blocking(move || {
        let is_same = still_has(&file, &before, Some(&sha256), &flag)?;
        Ok::<_, io::Error>((is_same, file_stat(&file)?.size))
    });
    let (is_same, size) = looking.await??;
    // Dropping the exchange resets the request, so that the server stores nothing.
    if !is_same {
        return Err(if size < stat.size {
            PutError::Shorter
        } else {
            PutError::Changed
        });
    }
    let mut trailers = HeaderMap::new();
    set(&mut trailers, REPR_DIGEST, &sha256_field(&sha256));
    Ok((exchange.finish(Some(trailers)).await, Some(sha256)))
}
