//! Implements GET of small files, which are held in memory so that each request costs little.

use http::{HeaderMap, Response};
use sha2::{Digest, Sha256};

use super::error::GetError;
use super::get::{Fetched, Place};
use super::plan::{Arriving, Step, decide};
use super::request::{Client, Exchange};
use crate::blocking::blocking;
use crate::fields::{PathName, Sha256Digest};
use crate::plan::digest_in;
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
        let uri = self.uri(path).map_err(GetError::Name)?;
        let mut exchange = self.ask(&uri, headers, None).await?;
        let mut response = exchange.response().await?;
        let arriving = match decide(response.status(), response.headers(), None) {
            Step::Take(arriving) => arriving,
            Step::Broken(why) => return Err(GetError::Response(why)),
            Step::Refused | Step::Again => return Err(exchange.refusal(&response).await.into()),
        };
        let length = place.length.unwrap_or(0);
        if arriving.length.is_some_and(|announced| announced != length) {
            return Err(GetError::Unlisted);
        }
        let content = collect(&mut exchange, length).await?;
        let fetched = check(&mut exchange, &mut response, &arriving, &content).await?;
        let sha256 = fetched.sha256;
        blocking(move || keep(&place, &content, &sha256)).await??;
        Ok(fetched)
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

async fn check(
    exchange: &mut Exchange,
    response: &mut Response<()>,
    arriving: &Arriving,
    content: &[u8],
) -> Result<Fetched, GetError> {
    let trailers = exchange.trailers().await?.unwrap_or_default();
    let trailer = digest_in(&trailers)
        .map_err(|_| GetError::Response("its Repr-Digest does not follow the grammar"))?;
    let sha256: Sha256Digest = Sha256::digest(content).into();
    let announced = [arriving.digest, trailer];
    if announced.iter().flatten().any(|digest| *digest != sha256) {
        return Err(GetError::Digest);
    }
    Ok(Fetched {
        bytes: content.len() as u64,
        resumed: 0,
        sha256,
        verified: announced.iter().any(Option::is_some),
        headers: std::mem::take(response.headers_mut()),
        trailers,
    })
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
