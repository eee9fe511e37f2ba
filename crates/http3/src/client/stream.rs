//! Implements GET of a file into something other than a file, such as a pipe.

use std::io;

use bytes::Bytes;
use http::HeaderMap;
use sha2::{Digest, Sha256};

use super::error::GetError;
use super::get::Fetched;
use super::plan::{Step, decide};
use super::request::{Client, Progress};
use crate::fields::{PathName, Sha256Digest};
use crate::plan::digest_in;

impl Client {
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
        let uri = self.uri(path).map_err(GetError::Name)?;
        let mut exchange = self.ask(&uri, headers, None).await?;
        let mut response = exchange.response().await?;
        let arriving = match decide(response.status(), response.headers(), None) {
            Step::Take(arriving) => arriving,
            Step::Broken(why) => return Err(GetError::Response(why)),
            Step::Refused | Step::Again => return Err(exchange.refusal(&response).await.into()),
        };
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
        let trailers = exchange.trailers().await?.unwrap_or_default();
        let trailer = digest_in(&trailers)
            .map_err(|_| GetError::Response("its Repr-Digest does not follow the grammar"))?;
        let sha256: Sha256Digest = hasher.finalize().into();
        let announced = [arriving.digest, trailer];
        if announced.iter().flatten().any(|digest| *digest != sha256) {
            return Err(GetError::Digest);
        }
        progress(Progress::Arrived);
        Ok(Fetched {
            bytes: received,
            resumed: 0,
            sha256,
            verified: announced.iter().any(Option::is_some),
            headers: std::mem::take(response.headers_mut()),
            trailers,
        })
    }
}
