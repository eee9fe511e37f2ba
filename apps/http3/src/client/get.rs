//! Implements GET into a part file, which is renamed to the target once it is complete.
//!
//! There is no part file for small files, which are held in memory so that each request costs
//! little, and for something other than a file, such as a pipe.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{IF_MATCH, IF_RANGE, RANGE};
use http::{HeaderMap, Method, Response, StatusCode};
use sha2::{Digest, Sha256};

use super::get_tree::already;
use super::part::{Mark, PartFile, hash_part, mark};
use super::plan::{Arriving, Fetched, GetError, Part, Refusal, Step, decide};
use super::request::{Client, Exchange, Progress, set};
use crate::fields::{EntityTag, PathName, Sha256Digest};
use crate::plan::WANT_REPR_DIGEST;
use crate::root::{Attributes, Dropped, Existing, KeepError, look, open_directory};
use crate::sink::{Sink, Writer, append_sparsely, blocking};
use crate::wire::LinkError;

/// Bytes between two SHA-256 marks in the tag file.
const MARK: u64 = 64 << 20;

/// Options for fetching a file.
#[derive(Clone, Debug)]
pub struct Get {
    /// How to treat an existing file with the target's name.
    pub existing: Existing,
    /// Additional request fields.
    pub headers: HeaderMap,
}

/// The destination of a fetched file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) name: Vec<u8>,
    pub(super) existing: Existing,
    pub(super) attributes: Attributes,
    /// The required size of the file in bytes, if it is known beforehand.
    pub(super) length: Option<u64>,
}

impl Client {
    /// Fetches a file like [`get_with`](Self::get_with), but without reporting progress.
    ///
    /// # Errors
    /// [`GetError`].
    pub async fn get(
        &self,
        path: &PathName,
        target: &Path,
        existing: Existing,
    ) -> Result<Fetched, GetError> {
        let headers = HeaderMap::new();
        let how = Get { existing, headers };
        self.get_with(path, target, how, |_| ()).await
    }

    /// Fetches the file at `path` to `target`. If an earlier attempt left a part of the same
    /// version, only the rest is requested. A file that must be kept counts as fetched if it is the
    /// same.
    ///
    /// # Errors
    /// [`GetError`].
    pub async fn get_with(
        &self,
        path: &PathName,
        target: &Path,
        how: Get,
        progress: impl FnMut(Progress),
    ) -> Result<Fetched, GetError> {
        let Get { existing, headers } = how;
        let mut progress = progress;
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let directory = blocking(move || open_directory(&directory)).await??;
        let place = Place {
            directory: Arc::new(directory),
            name: target_name(target)?,
            existing,
            attributes: Attributes::default(),
            length: None,
        };
        let fetched = self.get_to(path, place.clone(), &headers, &mut progress);
        match fetched.await {
            Err(GetError::Keep(KeepError::Exists)) => {}
            fetched => return fetched,
        }
        let Some((_, bytes, sha256)) = already(self, path, &place).await? else {
            return Err(KeepError::Exists.into());
        };
        progress(Progress::Begin {
            bytes: Some(bytes),
            offset: bytes,
        });
        progress(Progress::Arrived);
        Ok(Fetched {
            bytes,
            resumed: bytes,
            sha256,
            verified: true,
            headers: HeaderMap::new(),
            trailers: HeaderMap::new(),
        })
    }

    /// Does the same for a directory that is already open.
    pub(super) async fn get_to(
        &self,
        path: &PathName,
        place: Place,
        headers: &HeaderMap,
        mut progress: impl FnMut(Progress),
    ) -> Result<Fetched, GetError> {
        let uri = self.uri(path).map_err(GetError::Name)?;
        let source = uri.to_string();
        let (opening, from) = (place.clone(), source.clone());
        let (file, found) = blocking(move || open(&opening, &from)).await??;
        let (part, mark) = found.unzip();
        let mut writer = match mark.flatten() {
            Some(mark) => Writer::from(file.draft.file(), mark.position, mark.hasher),
            None => Writer::new(file.draft.file()),
        };
        let hashed = writer.position;
        if let Some(part) = &part {
            writer = hash_part(writer, part.bytes).await?;
        }
        let mut exchange = self.ask(&uri, headers, part.as_ref()).await?;
        let mut response = exchange.response().await?;
        let mut step = decide(response.status(), response.headers(), part.as_ref());
        if step == Step::Again {
            exchange = self.ask(&uri, headers, None).await?;
            response = exchange.response().await?;
            step = decide(response.status(), response.headers(), None);
        }
        let arriving = match step {
            Step::Take(arriving) => arriving,
            Step::Refused => return Err(exchange.refusal(&response).await.into()),
            Step::Broken(why) => return Err(GetError::Response(why)),
            Step::Again => return Err(GetError::Response("it is a refusal of a range")),
        };
        let length = arriving.length.map(|length| arriving.first + length);
        if place.length.is_some_and(|wanted| length != Some(wanted)) {
            return Err(GetError::Unlisted);
        }
        let (file, writer, hashed) = match arriving.first {
            0 => {
                let (file, writer) = restart(file, source, arriving.tag.clone()).await?;
                (file, writer, 0)
            }
            first => {
                // The part on disk must end exactly where the content begins.
                let part = file.draft.file();
                blocking(move || part.set_len(first)).await??;
                (file, writer, hashed)
            }
        };
        progress(Progress::Begin {
            bytes: length,
            offset: arriving.first,
        });
        let tag = arriving.tag.clone();
        let free = file.free_space()?;
        let most = match arriving.length {
            Some(length) => length,
            None => self.limits.unannounced.min(free / 2),
        };
        let needed = arriving.length.unwrap_or(0);
        let needed = arriving.data.map_or(needed, |data| data.min(needed));
        if needed > free {
            return Err(GetError::Full { needed, free });
        }
        let arriving = Incoming {
            arriving,
            most,
            unread: hashed > 0,
        };
        let received = receive(exchange, arriving, file, writer, &place, progress);
        let mut fetched = match received.await {
            // The server resets the stream without giving a reason. Requesting the same version
            // with HEAD shows whether the file changed.
            Err(
                error @ (GetError::Link(LinkError::Reset { .. })
                | GetError::Kept(LinkError::Reset { .. })),
            ) => {
                return Err(match self.refusal_of(&uri, tag).await {
                    None => error,
                    Some(refusal) => match refusal.status {
                        StatusCode::PRECONDITION_FAILED | StatusCode::NOT_FOUND => {
                            GetError::Changed
                        }
                        _ => refusal.into(),
                    },
                });
            }
            received => received?,
        };
        fetched.headers = std::mem::take(response.headers_mut());
        Ok(fetched)
    }

    pub(super) async fn ask(
        &self,
        uri: &http::Uri,
        more: &HeaderMap,
        part: Option<&Part>,
    ) -> Result<Exchange, LinkError> {
        let mut headers = more.clone();
        set(&mut headers, WANT_REPR_DIGEST, "sha-256=10");
        if let Some(part) = part {
            set(&mut headers, RANGE, &format!("bytes={}-", part.bytes));
            set(&mut headers, IF_RANGE, &part.tag.to_string());
        }
        self.request_bare(Method::GET, uri.clone(), headers).await
    }

    /// Returns the server's refusal of a request for the version `tag`, if it refuses.
    async fn refusal_of(&self, uri: &http::Uri, tag: Option<EntityTag>) -> Option<Refusal> {
        let mut headers = HeaderMap::new();
        set(&mut headers, IF_MATCH, &tag?.to_string());
        let asking = self.request_bare(Method::HEAD, uri.clone(), headers);
        let mut exchange = asking.await.ok()?;
        let response = exchange.response().await.ok()?;
        if response.status().is_client_error() {
            Some(exchange.refusal(&response).await)
        } else {
            None
        }
    }
}

/// Returns the last component of the target path.
fn target_name(target: &Path) -> Result<Vec<u8>, GetError> {
    let name = target.file_name().map(|name| name.as_bytes().to_vec());
    name.ok_or_else(|| GetError::Name(format!("{} is no name of a file", target.display())))
}

/// A part found on disk, with its mark if it has one.
type Lying = (Part, Option<Mark>);

/// Opens the part file. Fails if the target exists and must be kept.
fn open(place: &Place, source: &str) -> Result<(PartFile, Option<Lying>), GetError> {
    if place.existing == Existing::Keep && look(place.directory.as_fd(), &place.name)?.is_some() {
        return Err(KeepError::Exists.into());
    }
    let mut file = place.part_file()?;
    file.draft.set_attributes(place.attributes);
    let part = file.part(source)?;
    Ok((file, part))
}

impl Place {
    /// Opens the part file for this place, regardless of its content.
    pub(super) fn part_file(&self) -> Result<PartFile, GetError> {
        let file = PartFile::open(Arc::clone(&self.directory), &self.name)?;
        file.ok_or(GetError::Busy)
    }
}

/// Discards the part, because the following bytes belong to the version `tag`.
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
    let writer = Writer::new(file.draft.file());
    Ok((file, writer))
}

/// Incoming content.
struct Incoming {
    arriving: Arriving,
    /// The maximum number of bytes to accept.
    most: u64,
    /// Whether the preceding bytes were hashed from a mark, without reading them again.
    unread: bool,
}

/// Writes the content to the part file, then renames it to the target.
async fn receive(
    mut exchange: Exchange,
    Incoming {
        arriving,
        most,
        unread,
    }: Incoming,
    mut file: PartFile,
    writer: Writer,
    place: &Place,
    mut progress: impl FnMut(Progress),
) -> Result<Fetched, GetError> {
    let (mut sink, mut received, mut marked) = (Sink::new(writer), 0_u64, 0);
    let whole = arriving.length.map(|length| arriving.first + length);
    let ended = loop {
        let data = match exchange.data().await {
            Ok(Some(data)) => data,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        received += data.len() as u64;
        if received > most {
            let _ = blocking(move || file.discard()).await?;
            let why = match arriving.length {
                Some(_) => "it has more content than it announced",
                None => "it announces no length, and has more content than is allowed then",
            };
            return Err(GetError::Response(why));
        }
        sink.take(&data).await?;
        if received - marked >= MARK {
            marked = received;
            let (position, hasher) = sink.progress().await?;
            file = mark(file, whole, position, hasher).await?;
        }
        progress(Progress::Bytes(data.len() as u64));
        if arriving.length == Some(received) {
            exchange.has_all(arriving.first + received);
        }
    };
    // Keep the bytes that arrived before a failure, so that the next attempt can resume.
    let writer = sink.finish().await?;
    // Without a tag, the next attempt can't tell which version the part belongs to.
    let lost = if writer.position > 0 && arriving.tag.is_some() {
        GetError::Kept
    } else {
        GetError::Link
    };
    if let Err(error) = ended {
        mark(file, whole, writer.position, writer.hasher).await?;
        return Err(lost(error));
    }
    if let Some(announced) = arriving.length.filter(|length| received < *length) {
        return Err(GetError::Short {
            received,
            announced,
        });
    }
    let trailers = exchange.trailers().await.map_err(lost)?;
    let fetched = Fetched::of(&arriving, writer.position, writer.hasher, trailers);
    if let Err(GetError::Digest) = fetched {
        let _ = blocking(move || file.discard()).await?;
        return Err(GetError::Digest);
    }
    let fetched = fetched?;
    let sha256 = fetched.sha256;
    progress(Progress::Arrived);
    let place = place.clone();
    let kept = blocking(move || {
        let (name, existing) = (place.name, place.existing);
        if existing == Existing::Keep && look(place.directory.as_fd(), &name)?.is_some() {
            file.draft.set_dropped(Dropped::Removed);
            return Err(KeepError::Exists);
        }
        if unread {
            file.draft.keep_read(&name, &sha256, existing)
        } else {
            file.draft.keep(&name, &sha256, existing).map(drop)
        }
    });
    match kept.await? {
        Err(KeepError::Changed) if unread => Err(GetError::Digest),
        kept => Ok(kept.map(|()| fetched)?),
    }
}

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
    if content.len() == length {
        Ok(content)
    } else {
        Err(GetError::Short {
            received: content.len() as u64,
            announced: length as u64,
        })
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
