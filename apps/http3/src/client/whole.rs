//! Implements GET without a part file: of small files, which are held in memory so that each
//! request costs little, and into something other than a file, such as a pipe.

use std::io;

use bytes::Bytes;
use http::{HeaderMap, Response};
use sha2::{Digest, Sha256};

use super::error::GetError;
use super::get::{Fetched, Place};
use super::plan::{Arriving, Step, decide};
use super::request::{Client, Exchange, Progress};
use crate::blocking::blocking;
use crate::fields::{PathName, Sha256Digest};
use crate::sink::append_sparsely;

/// Maximum size of a small file in bytes.
pub(super) const MAX: u64 = 64 * 1024;

impl Client {
    /// Fetches a file of at most [`MAX`] bytes, whose length `place` specifies. The file is not
    /// yet on disk when this returns, so the caller must sync its file system.
    pub(super) async fn get_small(
        &self,
        path: &PathName,
        place: Place,
        headers: &HeaderMap,
    ) -> Result<Fetched, GetError> {
        let (mut exchange, mut response, arriving) = self.begin(path, headers).await?;
        let length = place.length.unwrap_or(0);
        if arriving.length.is_some_and(|announced| announced != length) {
            return Err(GetError::Unlisted);
        }
        let content = collect(&mut exchange, length).await?;
        let trailers = exchange.trailers().await?;
        let hasher = Sha256::new_with_prefix(&content);
        let mut fetched = Fetched::of(&arriving, content.len() as u64, hasher, trailers)?;
        fetched.headers = std::mem::take(response.headers_mut());
        let sha256 = fetched.sha256;
        blocking(move || keep(&place, &content, &sha256)).await??;
        Ok(fetched)
    }

    /// Fetches the file at `path`, passing its content to `write` as it arrives. The content is
    /// only verified at the end, so the caller should not trust it before.
    ///
    /// # Errors
    /// [`GetError`].
    pub async fn get_stream(
        &self,
        path: &PathName,
        headers: &HeaderMap,
        mut write: impl AsyncFnMut(Bytes) -> io::Result<()>,
        mut progress: impl FnMut(Progress),
    ) -> Result<Fetched, GetError> {
        let (mut exchange, mut response, arriving) = self.begin(path, headers).await?;
        progress(Progress::Begin {
            bytes: arriving.length,
            offset: 0,
        });
        let (mut hasher, mut received) = (Sha256::new(), 0_u64);
        while let Some(data) = exchange.data().await? {
            let length = data.len() as u64;
            received += length;
            if arriving.length.is_some_and(|most| received > most) {
                return Err(GetError::Response("it has more content than it announced"));
            }
            hasher.update(&data);
            write(data).await?;
            progress(Progress::Bytes(length));
        }
        if let Some(announced) = arriving.length.filter(|length| received < *length) {
            return Err(GetError::Short {
                received,
                announced,
            });
        }
        let trailers = exchange.trailers().await?;
        let mut fetched = Fetched::of(&arriving, received, hasher, trailers)?;
        progress(Progress::Arrived);
        fetched.headers = std::mem::take(response.headers_mut());
        Ok(fetched)
    }

    /// Requests the whole file, and returns the response whose content is about to arrive.
    async fn begin(
        &self,
        path: &PathName,
        headers: &HeaderMap,
    ) -> Result<(Exchange, Response<()>, Arriving), GetError> {
        let uri = self.uri(path).map_err(GetError::Name)?;
        let mut exchange = self.ask(&uri, headers, None).await?;
        let response = exchange.response().await?;
        match decide(response.status(), response.headers(), None) {
            Step::Take(arriving) => Ok((exchange, response, arriving)),
            Step::Broken(why) => Err(GetError::Response(why)),
            Step::Refused | Step::Again => Err(exchange.refusal(&response).await.into()),
        }
    }
}

/// Collects the content, which must have exactly this length.
async fn collect(exchange: &mut Exchange, length: u64) -> Result<Vec<u8>, GetError> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut content = Vec::with_capacity(length);
    while let Some(data) = exchange.data().await? {
        if content.len() + data.len() > length {
            return Err(GetError::Unlisted);
        }
        content.extend_from_slice(&data);
    }
    match content.len() == length {
        true => Ok(content),
        false => Err(GetError::Short {
            received: content.len() as u64,
            announced: length as u64,
        }),
    }
}

/// Writes the content, renames the file to its target, and verifies its content there.
fn keep(place: &Place, content: &[u8], sha256: &Sha256Digest) -> Result<(), GetError> {
    let mut part = place.part_file()?;
    let file = part.draft.file();
    if file.metadata()?.len() > 0 {
        // An earlier attempt left this content.
        part.restart("", None)?;
    }
    append_sparsely(&file, content, 0)?;
    part.draft.set_attributes(place.attributes);
    let placed = part.draft.place(&place.name, place.existing)?;
    placed.check(sha256)?;
    Ok(())
}
