//! GET into a part file, which gets its name once it is whole.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{HeaderName, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, Method};
use sha2::{Digest, Sha256};

use super::error::GetError;
use super::part::PartFile;
use super::plan::{Arriving, Part, Step, decide};
use super::request::{Client, Exchange};
use crate::blocking::blocking;
use crate::fields::{EntityTag, PathName, Sha256Digest};
use crate::plan::{WANT_REPR_DIGEST, digest_in};
use crate::root::{Existing, KeepError, open_directory};
use crate::wire::LinkError;

/// Bytes that are collected before a thread writes them.
const PIECE: usize = 512 * 1024;

/// A file that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of them that an earlier attempt had fetched.
    pub resumed: u64,
    /// SHA-256 of the file.
    pub sha256: Sha256Digest,
    /// The server announced the same digest.
    pub verified: bool,
}

/// What is written so far.
struct Writer {
    file: Arc<File>,
    hasher: Sha256,
    position: u64,
    piece: BytesMut,
}

impl Client {
    /// Fetches the file at `path` to `target`. What an earlier attempt left of the same version is
    /// not fetched again.
    ///
    /// # Errors
    /// [`GetError`].
    pub async fn get(
        &self,
        path: &PathName,
        target: &Path,
        existing: Existing,
    ) -> Result<Fetched, GetError> {
        let uri = self.uri(path).map_err(GetError::Name)?;
        let source = uri.to_string();
        let (target, name) = (target.to_owned(), target_name(target)?);
        let opening = (target.clone(), name.clone(), source.clone());
        let (file, part) = blocking(move || open(&opening, existing)).await??;
        let mut writer = Writer::new(&file);
        if let Some(part) = &part {
            writer = hash_part(writer, part.bytes).await?;
        }
        let mut exchange = self.ask(uri.clone(), part.as_ref()).await?;
        let mut response = exchange.response().await?;
        let mut step = decide(response.status(), response.headers(), part.as_ref());
        if step == Step::Again {
            exchange = self.ask(uri, None).await?;
            response = exchange.response().await?;
            step = decide(response.status(), response.headers(), None);
        }
        let arriving = match step {
            Step::Take(arriving) => arriving,
            Step::Refused => return Err(exchange.refusal(&response).await.into()),
            Step::Broken(why) => return Err(GetError::Response(why)),
            Step::Again => return Err(GetError::Response("it is a refusal of a range")),
        };
        let (file, writer) = match arriving.first {
            0 => restart(file, source, arriving.tag.clone()).await?,
            _ => (file, writer),
        };
        receive(exchange, arriving, file, writer, (name, existing)).await
    }

    async fn ask(&self, uri: http::Uri, part: Option<&Part>) -> Result<Exchange, LinkError> {
        let mut headers = HeaderMap::new();
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        set(WANT_REPR_DIGEST, "sha-256=10");
        if let Some(part) = part {
            set(RANGE, &format!("bytes={}-", part.bytes));
            set(IF_RANGE, &part.tag.to_string());
        }
        let mut exchange = self.request(Method::GET, uri, headers).await?;
        exchange.finish(None).await?;
        Ok(exchange)
    }
}

/// The last name of a target.
fn target_name(target: &Path) -> Result<Vec<u8>, GetError> {
    let name = target.file_name().map(|name| name.as_bytes().to_vec());
    name.ok_or_else(|| GetError::Name(format!("{} is no name of a file", target.display())))
}

/// Opens the part file, unless the name is taken.
fn open(
    (target, name, source): &(PathBuf, Vec<u8>, String),
    existing: Existing,
) -> Result<(PartFile, Option<Part>), GetError> {
    if existing == Existing::Keep && target.symlink_metadata().is_ok() {
        return Err(KeepError::Exists.into());
    }
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = Arc::new(open_directory(directory)?);
    let file = PartFile::open(directory, name)?.ok_or(GetError::Busy)?;
    let part = file.part(source)?;
    Ok((file, part))
}

impl Writer {
    fn new(file: &PartFile) -> Self {
        Self {
            file: file.draft.file(),
            hasher: Sha256::new(),
            position: 0,
            piece: BytesMut::new(),
        }
    }

    /// Reads and hashes one piece of the part that is on disk.
    fn hash_piece(&mut self, end: u64) -> io::Result<()> {
        let left = end.saturating_sub(self.position);
        let length = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let mut piece = vec![0; length];
        self.file.read_exact_at(&mut piece, self.position)?;
        self.hasher.update(&piece);
        self.position += length as u64;
        Ok(())
    }

    fn write(&mut self, piece: &Bytes) -> io::Result<()> {
        self.hasher.update(piece);
        self.file.write_all_at(piece, self.position)?;
        self.position += piece.len() as u64;
        Ok(())
    }

    /// Writes what is collected.
    async fn flush(mut self) -> Result<Self, GetError> {
        let piece = self.piece.split().freeze();
        if piece.is_empty() {
            return Ok(self);
        }
        let written = blocking(move || {
            let written = self.write(&piece);
            written.map(|()| self)
        });
        Ok(written.await??)
    }
}

/// Drops the part: the bytes to come are those of the version `tag`.
async fn restart(
    file: PartFile,
    source: String,
    tag: Option<EntityTag>,
) -> Result<(PartFile, Writer), GetError> {
    let restarted = blocking(move || {
        file.restart(&source, tag.as_ref())?;
        Ok::<_, GetError>(file)
    });
    let file = restarted.await??;
    let writer = Writer::new(&file);
    Ok((file, writer))
}

/// Hashes the part that is on disk.
async fn hash_part(mut writer: Writer, bytes: u64) -> Result<Writer, GetError> {
    while writer.position < bytes {
        let hashed = blocking(move || {
            let hashed = writer.hash_piece(bytes);
            hashed.map(|()| writer)
        });
        writer = hashed.await??;
    }
    Ok(writer)
}

/// Writes the content to the part file, and gives it its name.
async fn receive(
    mut exchange: Exchange,
    arriving: Arriving,
    file: PartFile,
    mut writer: Writer,
    (name, existing): (Vec<u8>, Existing),
) -> Result<Fetched, GetError> {
    let mut received = 0_u64;
    let ended = loop {
        let data = match exchange.data().await {
            Ok(Some(data)) => data,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        received += data.len() as u64;
        if arriving.length.is_some_and(|length| received > length) {
            let _ = blocking(move || file.discard()).await?;
            return Err(GetError::Response("it has more content than it announced"));
        }
        writer.piece.extend_from_slice(&data);
        if writer.piece.len() >= PIECE {
            writer = writer.flush().await?;
        }
    };
    // What arrived before a failure is kept for the next attempt.
    let writer = writer.flush().await?;
    ended?;
    if let Some(announced) = arriving.length.filter(|length| received < *length) {
        return Err(GetError::Short {
            received,
            announced,
        });
    }
    let trailers = exchange.trailers().await?;
    let trailer = match trailers.as_ref().map(digest_in) {
        None => None,
        Some(Ok(digest)) => digest,
        Some(Err(_)) => {
            return Err(GetError::Response(
                "its Repr-Digest does not follow the grammar",
            ));
        }
    };
    let sha256: Sha256Digest = writer.hasher.clone().finalize().into();
    let announced = [arriving.digest, trailer];
    if announced.iter().flatten().any(|digest| *digest != sha256) {
        let _ = blocking(move || file.discard()).await?;
        return Err(GetError::Digest);
    }
    let fetched = Fetched {
        bytes: writer.position,
        resumed: arriving.first,
        sha256,
        verified: announced.iter().any(Option::is_some),
    };
    let kept = blocking(move || {
        file.remove_tag()?;
        file.draft.keep(&name, &sha256, existing)
    });
    kept.await??;
    Ok(fetched)
}
