//! Implements PUT of a directory tree.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::header::{CONTENT_LENGTH, IF_NONE_MATCH};
use http::{HeaderMap, Method, StatusCode};

use super::list::Listed;
use super::plan::{GetError, PutError};
use super::put::{Stored, only_plain};
use super::request::{Client, Progress, set};
use super::walk::{
    Direction, Ended, Found, Names, Outcome, TreeLimits, Walk, beneath, bytes_of, drive,
};
use crate::fields::{AttributesField, PathName};
use crate::plan::ATTRIBUTES;
use crate::resource::{Entry, Kind, Stat};
use crate::root::{Entries, Existing, Tree, file_stat, hash_file, look, open_file};
use crate::sink::blocking;

/// Options for storing a directory.
#[derive(Clone, Debug)]
pub struct PutTree {
    /// How to treat existing files on the server that differ.
    pub existing: Existing,
    /// Whether to compare files of the same size by SHA-256 instead of by modification time.
    pub checksum: bool,
    /// Limits on the files to store.
    pub limits: TreeLimits,
    /// Bytes handed to the transport so far.
    pub sent: Arc<AtomicU64>,
    /// Bytes of files to store that have been found so far.
    pub found: Arc<AtomicU64>,
}

/// State shared by all tasks.
struct Shared {
    client: Client,
    source: Tree,
    top: PathName,
    how: PutTree,
    /// Whether the server keeps attributes.
    keeps: AtomicBool,
}

impl Client {
    /// Stores the directory `source` and everything beneath it under `path`. Links are stored
    /// last, followed by the modes and times of directories. If an entry fails, the others are
    /// still stored.
    ///
    /// # Errors
    /// [`PutError`], if the source can't be read.
    pub async fn put_tree(
        &self,
        source: &Path,
        path: &PathName,
        how: PutTree,
        mut ended: impl FnMut(Ended<Stored, PutError>),
    ) -> Result<(), PutError> {
        let source = source.to_owned();
        let shared = Arc::new(Shared {
            client: self.clone(),
            source: blocking(move || Tree::open(&source)).await??,
            top: path.clone(),
            how,
            keeps: AtomicBool::new(false),
        });
        let none = HeaderMap::new();
        let walk = drive(&shared, path, &none, shared.how.limits, &mut ended).await?;
        shared.complete(&walk, ended).await
    }
}

/// Returns the attributes of a local entry.
fn attributes(stat: &Stat) -> AttributesField {
    AttributesField {
        mode: Some(stat.mode),
        modified: Some((stat.modified.seconds, stat.modified.nanoseconds)),
        ..AttributesField::default()
    }
}

/// Returns the attributes of a listed entry.
fn attributes_of(entry: &Listed) -> AttributesField {
    AttributesField {
        mode: Some(entry.mode).filter(|_| entry.kind != Kind::Symlink),
        modified: Some((entry.modified.seconds, entry.modified.nanoseconds)),
        link: entry.target.clone(),
        data: None,
    }
}

/// Returns true if the server's entry is the same as the local one.
fn is_unchanged(own: &Entry, there: &Listed) -> bool {
    match own.stat.kind {
        Kind::Symlink => there.kind == Kind::Symlink && own.target == there.target,
        Kind::File => {
            there.kind == Kind::File
                && there.size == own.stat.size
                && there.modified == own.stat.modified
        }
        Kind::Directory | Kind::Special => false,
    }
}

impl Direction for Shared {
    type Folder = OwnedFd;
    type Moved = Stored;
    type Error = PutError;

    async fn list(self: &Arc<Self>, names: &Names) -> Result<Found<OwnedFd, PutError>, PutError> {
        let path = beneath(&self.top, names, true);
        let there: BTreeMap<_, _> = match self.client.list(&path).await {
            Ok(listed) => listed
                .into_iter()
                .map(|entry| (entry.name.clone(), entry))
                .collect(),
            // The directory doesn't exist, or the server lists in another form: store all files.
            Err(GetError::Refused(_) | GetError::Response(_)) => BTreeMap::new(),
            Err(GetError::Link(error)) => return Err(error.into()),
            Err(error) => return Err(PutError::Listing(error.to_string())),
        };
        let (shared, names) = (Arc::clone(self), names.clone());
        blocking(move || {
            let folder = shared.source.existing(&names)?;
            let mut found = Found {
                folder: shared.source.existing(&names)?,
                entries: Vec::new(),
                kept: 0,
                unfit: Vec::new(),
            };
            let mut entries = Entries::of(folder)?;
            loop {
                let piece = entries.next_piece()?;
                if piece.is_empty() {
                    shared
                        .how
                        .found
                        .fetch_add(bytes_of(&found.entries), Ordering::Relaxed);
                    return Ok(found);
                }
                for own in piece {
                    let same = there.get(&own.name).is_some_and(|other| {
                        let by_hash = shared.how.checksum && own.stat.kind == Kind::File;
                        !by_hash && is_unchanged(&own, other)
                    });
                    if same {
                        found.kept += 1;
                        continue;
                    }
                    found.entries.push(own.into());
                }
            }
        })
        .await?
    }

    async fn file(
        &self,
        path: &PathName,
        folder: &OwnedFd,
        file: &Listed,
        _headers: &HeaderMap,
    ) -> Result<Outcome<Stored>, PutError> {
        let (folder, name) = (folder.try_clone()?, file.name.clone());
        let opened = blocking(move || {
            let file = open_file(&folder, &name).map_err(std::io::Error::from)?;
            let stat = file_stat(&file)?;
            only_plain(&file, &stat)?;
            Ok::<_, PutError>((Arc::new(file), stat))
        });
        let (file, stat) = opened.await??;
        if self.how.checksum && self.is_same(path, &file, &stat).await? {
            return Ok(Outcome::Unchanged(1));
        }
        let sent = &self.how.sent;
        let attributes = Some(attributes(&stat));
        let storing = self.client.put_file(
            file,
            stat,
            path,
            self.how.existing,
            attributes,
            |progress| {
                if let Progress::Bytes(bytes) = progress {
                    sent.fetch_add(bytes, Ordering::Relaxed);
                }
            },
        );
        let (stored, keeps) = storing.await?;
        self.keeps.fetch_or(keeps, Ordering::Relaxed);
        Ok(Outcome::Moved(stored))
    }
}

impl Shared {
    /// Returns true if the server has a file with this content.
    async fn is_same(
        &self,
        path: &PathName,
        file: &Arc<File>,
        stat: &Stat,
    ) -> Result<bool, PutError> {
        let there = self.client.digest(path, stat.size).await;
        let Some(digest) = there.map_err(|error| PutError::Listing(error.to_string()))? else {
            return Ok(false);
        };
        let file = Arc::clone(file);
        let own = blocking(move || hash_file(&file, &AtomicBool::new(false))).await??;
        Ok(own == digest)
    }

    /// Stores the links, then the attributes of directories.
    async fn complete(
        &self,
        walk: &Walk<OwnedFd>,
        mut ended: impl FnMut(Ended<Stored, PutError>),
    ) -> Result<(), PutError> {
        let mut failed = |path: PathName, error: PutError| {
            ended(Ended {
                path,
                outcome: Err(error),
            });
        };
        let top = blocking({
            let top = self.source.existing(&Vec::new())?;
            move || look(top.as_fd(), b".")
        });
        let top = top.await??.map(|stat| attributes(&stat));
        if !self.top.names.is_empty()
            && let Some(top) = &top
        {
            // Its time is set again after everything is stored in it.
            self.put_entry(&beneath(&self.top, &[], true), top).await?;
        }
        for (names, link) in &walk.links {
            let path = beneath(&self.top, names, false);
            let stored = if self.keeps.load(Ordering::Relaxed) {
                self.put_entry(&path, &attributes_of(link)).await
            } else {
                // A server that doesn't keep attributes would store an empty file instead.
                Err(PutError::NoLinks)
            };
            if let Err(error) = stored {
                failed(path, error);
            }
        }
        for directory in walk.directories.iter().rev() {
            let path = beneath(&self.top, &directory.names, true);
            let attributes = match &directory.entry {
                Some(entry) => Some(attributes_of(entry)),
                None if directory.names.is_empty() && !path.names.is_empty() => top.clone(),
                None => None,
            };
            if let Some(attributes) = attributes
                && let Err(error) = self.put_entry(&path, &attributes).await
            {
                failed(path, error);
            }
        }
        Ok(())
    }

    /// Stores a link or a directory.
    async fn put_entry(
        &self,
        path: &PathName,
        attributes: &AttributesField,
    ) -> Result<(), PutError> {
        let uri = self.client.uri(path).map_err(PutError::Name)?;
        let mut headers = HeaderMap::new();
        set(&mut headers, CONTENT_LENGTH, "0");
        set(&mut headers, ATTRIBUTES, &attributes.write());
        if self.how.existing == Existing::Keep && !path.slash {
            set(&mut headers, IF_NONE_MATCH, "*");
        }
        let mut exchange = self.client.request_bare(Method::PUT, uri, headers).await?;
        let response = exchange.response().await?;
        if !response.status().is_success() {
            return Err(exchange.refusal(&response).await.into());
        }
        let keeps = response.headers().contains_key(ATTRIBUTES);
        self.keeps.fetch_or(keeps, Ordering::Relaxed);
        Ok(())
    }
}

impl Client {
    /// Returns the SHA-256 of the server's file, if the server announces one and the file has
    /// this size.
    pub(super) async fn digest(
        &self,
        path: &PathName,
        size: u64,
    ) -> Result<Option<crate::fields::Sha256Digest>, GetError> {
        match announced(self, path, size).await {
            Err(GetError::Refused(_)) => Ok(None),
            announced => announced,
        }
    }
}

/// Returns the SHA-256 that the server announces for a file, if it has this size.
pub(super) async fn announced(
    client: &Client,
    path: &PathName,
    size: u64,
) -> Result<Option<crate::fields::Sha256Digest>, GetError> {
    let uri = client.uri(path).map_err(GetError::Name)?;
    let mut headers = HeaderMap::new();
    set(&mut headers, crate::plan::WANT_REPR_DIGEST, "sha-256=10");
    let mut exchange = client.request_bare(Method::HEAD, uri, headers).await?;
    let response = exchange.response().await?;
    let length = response.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    if !response.status().is_success() {
        return Err(exchange.refusal(&response).await.into());
    }
    if response.status() != StatusCode::OK || length != Some(size) {
        return Ok(None);
    }
    Ok(crate::plan::digest_in(response.headers()).ok().flatten())
}
