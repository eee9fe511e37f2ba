//! Offers to resume uploads, and resumes those that an earlier connection left incomplete
//! (draft-ietf-httpbis-resumable-upload-12). A ledger records uploads beyond the end of a
//! connection: their resource and the version of the source.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION, TRAILER};
use http::{HeaderMap, Method, Response, StatusCode, Uri};

use super::plan::PutError;
use super::put::{Stored, read, send};
use super::request::{Client, Page, Progress, set};
use crate::fields::{INTEROP_VERSION, PathName, boolean};
use crate::plan::{
    PARTIAL_UPLOAD, RESUMPTION_SUPPORTED, UPLOAD_COMPLETE, UPLOAD_LENGTH, UPLOAD_OFFSET,
    UPLOAD_VERSION, upload_fields,
};
use crate::resource::Stat;
use crate::root::{Existing, hash_file};
use crate::sink::{Reader, blocking};

/// Minimum size in bytes for resuming an upload. Smaller files are sent again.
const LEAST: u64 = 1 << 20;

/// The state of an upload on the server.
enum There {
    /// The server has this number of bytes.
    Offset(u64),
    /// The server has no such upload.
    Gone,
}

impl Client {
    /// Returns the ledger page for an upload, if the file is large enough to resume.
    pub(super) fn page(&self, uri: &Uri, existing: Existing, source: &Stat) -> Option<Page> {
        let ledger = self.ledger.as_ref().filter(|_| source.size >= LEAST)?;
        Some(Page::of(ledger, uri, existing, source))
    }

    /// Resumes an upload that broke off. Returns `None` if there is none.
    pub(super) async fn go_on(
        &self,
        page: &Page,
        path: &PathName,
        file: &Arc<File>,
        stat: &Stat,
        mut progress: impl FnMut(Progress),
    ) -> Result<Option<(Stored, bool)>, PutError> {
        let Some((resource, same)) = page.find().await? else {
            return Ok(None);
        };
        let Ok(uri) = self.uri_of(&resource) else {
            page.forget().await?;
            return Ok(None);
        };
        if !same {
            self.give_up(Some(page)).await?;
            return Ok(None);
        }
        let offset = match self.ask_offset(&uri).await? {
            There::Offset(offset) if offset <= stat.size => offset,
            There::Offset(_) => {
                self.give_up(Some(page)).await?;
                return Ok(None);
            }
            There::Gone => {
                page.forget().await?;
                return self.is_there(path, file, stat).await;
            }
        };
        progress(Progress::Begin {
            bytes: Some(stat.size),
            offset,
        });
        let reader = skip(file, stat, offset).await?;
        let mut headers = HeaderMap::new();
        resumable(&mut headers);
        set(&mut headers, UPLOAD_OFFSET, &offset.to_string());
        set(&mut headers, UPLOAD_LENGTH, &stat.size.to_string());
        let rest = stat.size - offset;
        set(&mut headers, CONTENT_LENGTH, &rest.to_string());
        set(&mut headers, CONTENT_TYPE, PARTIAL_UPLOAD);
        set(&mut headers, TRAILER, "Repr-Digest");
        let mut exchange = self.request(Method::PATCH, uri, headers).await?;
        exchange.link.announce(rest);
        // The server hashes the whole file and then reads it back.
        exchange.allow(stat.size.saturating_mul(2));
        let sent = send(&mut exchange, reader, stat, None, progress).await;
        self.stored(exchange, sent, Some(page), stat.size, offset)
            .await
            .map(Some)
    }

    /// Requests the number of bytes that the server has of an upload.
    async fn ask_offset(&self, uri: &Uri) -> Result<There, PutError> {
        let mut headers = HeaderMap::new();
        set(&mut headers, UPLOAD_VERSION, &INTEROP_VERSION.to_string());
        let asking = self.request_bare(Method::HEAD, uri.clone(), headers);
        let mut exchange = asking.await?;
        let response = exchange.response().await?;
        let fields = upload_fields(response.headers());
        match (response.status(), fields.offset, fields.complete) {
            (status, Some(offset), Some(false)) if status.is_success() => Ok(There::Offset(offset)),
            (status, _, _) if status.is_server_error() || status == StatusCode::UNAUTHORIZED => {
                Err(exchange.refusal(&response).await.into())
            }
            _ => Ok(There::Gone),
        }
    }

    /// Returns the result of an upload whose response was lost, if the server has the file.
    async fn is_there(
        &self,
        path: &PathName,
        file: &Arc<File>,
        stat: &Stat,
    ) -> Result<Option<(Stored, bool)>, PutError> {
        // If the server announces no digest, the file is sent again.
        let Ok(Some(there)) = self.digest(path, stat.size).await else {
            return Ok(None);
        };
        let file = Arc::clone(file);
        let own = blocking(move || hash_file(&file, &AtomicBool::new(false))).await??;
        let stored = Stored {
            bytes: stat.size,
            resumed: stat.size,
            sha256: own,
            verified: true,
        };
        Ok((own == there).then_some((stored, true)))
    }

    /// Deletes an upload from the server and from the ledger. If deleting it fails, the server
    /// removes it when its age limit is reached.
    pub(super) async fn give_up(&self, page: Option<&Page>) -> io::Result<()> {
        let Some(page) = page else {
            return Ok(());
        };
        if let Some((resource, _)) = page.find().await?
            && let Ok(uri) = self.uri_of(&resource)
        {
            let deleting = async {
                let asking = self.request_bare(Method::DELETE, uri, HeaderMap::new());
                asking.await?.response().await
            };
            if let Err(error) = deleting.await {
                tracing::debug!(%error, "an upload stays on the server");
            }
        }
        page.forget().await
    }
}

/// Hashes the bytes that the server already has, and returns the reader of the rest.
async fn skip(file: &Arc<File>, stat: &Stat, offset: u64) -> Result<Reader, PutError> {
    let mut reader = Reader::hashing(file, offset);
    loop {
        let piece;
        (reader, piece) = read(reader.next()).await?;
        if piece.is_empty() {
            reader.end = stat.size;
            return Ok(reader);
        }
    }
}

/// Requests that the server keep incomplete content. This request carries all of the content.
pub(super) fn resumable(headers: &mut HeaderMap) {
    set(headers, UPLOAD_COMPLETE, boolean(true));
    set(headers, UPLOAD_VERSION, &INTEROP_VERSION.to_string());
}

/// Returns the path of the upload's resource, if the interim response names one.
pub(super) fn upload_of(interim: &Response<()>) -> Option<String> {
    let headers = interim.headers();
    if interim.status() != RESUMPTION_SUPPORTED || !upload_fields(headers).same_version {
        return None;
    }
    let location: Uri = headers.get(LOCATION)?.to_str().ok()?.parse().ok()?;
    // The path is always used on the same host, because another host is not trusted with the
    // upload.
    let path = location.path_and_query()?.as_str();
    path.starts_with('/').then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interim_response_of_another_version_names_nothing() {
        let interim = |status: u16, version: &str, location: &str| {
            let response = Response::builder()
                .status(status)
                .header(UPLOAD_VERSION, version)
                .header(LOCATION, location);
            upload_of(&response.body(()).unwrap())
        };
        let path = Some("/a/b".to_owned());
        assert_eq!(interim(104, "8", "/a/b"), path);
        assert_eq!(interim(104, "8", "https://host/a/b"), path);
        assert_eq!(interim(104, "7", "/a/b"), None);
        assert_eq!(interim(103, "8", "/a/b"), None);
        assert_eq!(interim(104, "8", "a b"), None);
    }
}
