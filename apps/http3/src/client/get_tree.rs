//! Implements GET of a directory tree.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use http::HeaderMap;

use super::get::Place;
use super::list::Listed;
use super::plan::{Fetched, GetError, TooMany};
use super::put_tree::announced;
use super::request::{Client, Progress};
use super::walk::{
    Direction, Ended, Found, Names, Outcome, TreeLimits, Walk, beneath, bytes_of, drive,
};
use crate::fields::{PathName, Sha256Digest};
use crate::resource::{Kind, Stat, is_reserved};
use crate::root::{Attributes, Existing, Tree, hash_file, look, open_file, set_bits};
use crate::sink::blocking;

/// Maximum number of bytes of listings to hold at once.
const MAX_HELD: usize = 256 << 20;

/// Options for fetching a directory.
#[derive(Clone, Debug)]
pub struct GetTree {
    /// Additional fields for the first and the last file requests.
    pub headers: HeaderMap,
    /// How to treat existing files that differ.
    pub existing: Existing,
    /// Whether to compare files of the same size by SHA-256 instead of by modification time.
    pub checksum: bool,
    /// Limits on the files to fetch.
    pub limits: TreeLimits,
    /// Bytes that have arrived so far.
    pub arrived: Arc<AtomicU64>,
    /// Bytes of files to fetch that have been found so far.
    pub found: Arc<AtomicU64>,
}

/// A local directory.
struct Folder {
    directory: Arc<OwnedFd>,
    /// Names of the files to fetch that are there already.
    there: BTreeSet<Vec<u8>>,
}

/// State shared by all tasks.
struct Shared {
    client: Client,
    tree: Tree,
    top: PathName,
    how: GetTree,
    held: AtomicUsize,
}

impl Client {
    /// Fetches the directory at `path` and everything beneath it into the directory `target`.
    /// Links are created last. If an entry fails, the others are still fetched. The tree is
    /// synced to disk before this function returns.
    ///
    /// # Errors
    /// [`GetError`], if the target can't be created or the server lists too much.
    pub async fn get_tree(
        &self,
        path: &PathName,
        target: &Path,
        how: GetTree,
        mut ended: impl FnMut(Ended<Fetched, GetError>),
    ) -> Result<(), GetError> {
        let target = target.to_owned();
        let shared = Arc::new(Shared {
            client: self.clone(),
            tree: blocking(move || Tree::make(&target)).await??,
            top: path.clone(),
            how,
            held: AtomicUsize::new(0),
        });
        let (headers, limits) = (shared.how.headers.clone(), shared.how.limits);
        let driving = drive(&shared, path, &headers, limits, &mut ended);
        let walk = driving.await?;
        let failed = blocking(move || complete(&shared, &walk)).await??;
        failed.into_iter().for_each(ended);
        Ok(())
    }
}

/// Returns the memory that an entry takes in bytes.
fn cost(entry: &Listed) -> usize {
    let target = entry.target.as_ref().map_or(0, Vec::len);
    size_of::<Listed>() + entry.name.len() + target
}

/// Creates links, sets the modes and times of directories, and syncs to disk.
fn complete(
    shared: &Shared,
    walk: &Walk<Folder>,
) -> Result<Vec<Ended<Fetched, GetError>>, GetError> {
    let mut failed = Vec::new();
    let mut note = |names: &Names, error: GetError| {
        failed.push(Ended {
            path: beneath(&shared.top, names, false),
            outcome: Err(error),
        });
    };
    for (names, link) in &walk.links {
        let target = link.target.as_deref().unwrap_or_default();
        let (existing, modified) = (shared.how.existing, link.modified);
        if let Err(error) = shared.tree.link(names, target, modified, existing) {
            note(names, error.into());
        }
    }
    for directory in walk.directories.iter().rev() {
        let Some(entry) = &directory.entry else {
            continue;
        };
        if let Err(error) = shared.tree.finish(&directory.names, attributes(entry)) {
            note(&directory.names, error.into());
        }
    }
    shared.tree.sync()?;
    Ok(failed)
}

fn attributes(entry: &Listed) -> Attributes {
    Attributes {
        mode: Some(entry.mode),
        modified: Some(entry.modified),
    }
}

/// Returns true if the file `there` has the size and modification time of `entry`. Only whole
/// seconds are compared if the file system stores no fractions.
fn is_unchanged(there: &Stat, entry: &Listed) -> bool {
    let (one, other) = (there.modified, entry.modified);
    there.kind == Kind::File
        && there.size == entry.size
        && one.seconds == other.seconds
        && (one.nanoseconds == other.nanoseconds || one.nanoseconds == 0)
}

impl Direction for Shared {
    type Folder = Folder;
    type Moved = Fetched;
    type Error = GetError;

    /// Lists a directory, creates it locally, and omits entries that are already there.
    async fn list(self: &Arc<Self>, names: &Names) -> Result<Found<Folder, GetError>, GetError> {
        let path = beneath(&self.top, names, true);
        let mut bytes = 0;
        let most = self.how.limits.entries;
        let listing = self.client.list_within(&path, |piece, entries| {
            if entries > most {
                return Err(TooMany(most).into());
            }
            bytes += piece;
            if self.held.load(Ordering::Relaxed) + bytes > MAX_HELD {
                Err(GetError::Response(
                    "its directories have more names than are held at once",
                ))
            } else {
                Ok(())
            }
        });
        let entries = listing.await?;
        let (shared, names) = (Arc::clone(self), names.clone());
        blocking(move || {
            let directory = Arc::new(shared.tree.folder(&names)?);
            let mut seen = BTreeSet::new();
            if !entries
                .iter()
                .all(|entry| seen.insert(entry.name.as_slice()))
            {
                return Err(GetError::Response("it lists a name twice"));
            }
            let mut found = Found {
                folder: Folder {
                    directory: Arc::clone(&directory),
                    there: BTreeSet::new(),
                },
                entries: Vec::new(),
                kept: 0,
                unfit: Vec::new(),
            };
            for entry in entries {
                match shared.wanted(&directory, &entry) {
                    Ok(Some(is_there)) => {
                        if is_there {
                            found.folder.there.insert(entry.name.clone());
                        }
                        found.entries.push(entry);
                    }
                    Ok(None) => found.kept += 1,
                    Err(error) => {
                        found.kept += 1;
                        found.unfit.push((entry.name, error));
                    }
                }
            }
            shared
                .how
                .found
                .fetch_add(bytes_of(&found.entries), Ordering::Relaxed);
            let held = found.entries.iter().map(cost).sum();
            shared.held.fetch_add(held, Ordering::Relaxed);
            Ok(found)
        })
        .await?
    }

    async fn file(
        &self,
        path: &PathName,
        folder: &Folder,
        file: &Listed,
        headers: &HeaderMap,
    ) -> Result<Outcome<Fetched>, GetError> {
        let fetched = self.fetch(path, folder, file, headers).await;
        self.held.fetch_sub(cost(file), Ordering::Relaxed);
        fetched
    }
}

/// Returns the file at a place, with its size and SHA-256, if the server announces the same.
pub(super) async fn already(
    client: &Client,
    path: &PathName,
    place: &Place,
) -> Result<Option<(File, u64, Sha256Digest)>, GetError> {
    let looked = place.clone();
    let opened = blocking(move || {
        let there = look(looked.directory.as_fd(), &looked.name)?;
        match there
            .filter(|there| there.kind == Kind::File)
            .map(|there| there.size)
        {
            Some(size) if looked.length.is_none_or(|length| length == size) => {
                Ok(Some((open_file(&looked.directory, &looked.name)?, size)))
            }
            _ => Ok::<_, io::Error>(None),
        }
    });
    let Some((file, size)) = opened.await?? else {
        return Ok(None);
    };
    let Some(digest) = announced(client, path, size).await? else {
        return Ok(None);
    };
    let same = blocking(move || {
        let own = hash_file(&file, &AtomicBool::new(false))?;
        Ok::<_, io::Error>((own == digest).then_some((file, size, digest)))
    });
    Ok(same.await??)
}

impl Shared {
    /// Returns whether an entry to fetch is there with another size or time. A file that is
    /// unchanged isn't fetched.
    fn wanted(&self, directory: &OwnedFd, entry: &Listed) -> Result<Option<bool>, GetError> {
        if is_reserved(&entry.name) {
            let why = "the name is one of those of unfinished files, which no server sends";
            return Err(GetError::Name(why.to_owned()));
        }
        if entry.kind != Kind::File {
            return Ok(Some(false));
        }
        match look(directory.as_fd(), &entry.name)? {
            Some(there) if there.kind == Kind::Directory => {
                let why = "a directory has the name of the file; remove it, or choose another one";
                Err(GetError::Name(why.to_owned()))
            }
            Some(there) if !self.how.checksum && is_unchanged(&there, entry) => {
                let wanted = self.tree.allowed(attributes(entry));
                set_bits(directory.as_fd(), &entry.name, &there, wanted)?;
                Ok(None)
            }
            there => Ok(Some(there.is_some())),
        }
    }

    async fn fetch(
        &self,
        path: &PathName,
        folder: &Folder,
        file: &Listed,
        headers: &HeaderMap,
    ) -> Result<Outcome<Fetched>, GetError> {
        let place = Place {
            directory: Arc::clone(&folder.directory),
            name: file.name.clone(),
            existing: self.how.existing,
            attributes: self.tree.allowed(attributes(file)),
            length: Some(file.size),
        };
        let compares = self.how.checksum || self.how.existing == Existing::Keep;
        let is_there = folder.there.contains(&file.name);
        if is_there && compares && self.is_same(path, &place).await? {
            return Ok(Outcome::Unchanged(1));
        }
        if file.size <= crate::client::get::MAX {
            let fetched = self.client.get_small(path, place, headers).await?;
            self.how.arrived.fetch_add(fetched.bytes, Ordering::Relaxed);
            return Ok(Outcome::Moved(fetched));
        }
        let arrived = &self.how.arrived;
        let fetching = self.client.get_to(path, place, headers, |progress| {
            if let Progress::Bytes(bytes) = progress {
                arrived.fetch_add(bytes, Ordering::Relaxed);
            }
        });
        fetching.await.map(Outcome::Moved)
    }

    /// Returns true if the local file has the SHA-256 that the server announces. In that case,
    /// it also sets the file's attributes.
    async fn is_same(&self, path: &PathName, place: &Place) -> Result<bool, GetError> {
        let Some((file, ..)) = already(&self.client, path, place).await? else {
            return Ok(false);
        };
        let attributes = place.attributes;
        blocking(move || attributes.set(&file)).await??;
        Ok(true)
    }
}
