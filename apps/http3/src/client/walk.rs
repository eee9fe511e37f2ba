//! Fetches or stores a directory. A state machine without I/O decides about the order and enforces
//! limits, and concurrent tasks list directories and move files.

use std::collections::VecDeque;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::sync::Arc;

use http::HeaderMap;
use tokio::task::JoinSet;

use super::list::Listed;
use super::plan::TooMany;
use crate::fields::PathName;
use crate::resource::Kind;

/// Maximum number of concurrent listings.
const LISTINGS: usize = 64;
/// Number of waiting files above which no further directory is listed.
const WAITING: usize = 4096;
/// Maximum number of directories with waiting or active files, because each stays open.
const FOLDERS: usize = 256;
/// Maximum number of places that one file takes.
const LARGEST: usize = 16;
/// Bytes of a file for each place.
const PLACE: u64 = 16 * 1024;
/// Maximum depth of nested directories, as in the origin.
const DEPTH: usize = 128;

/// The names that lead from the top of the tree to an entry.
pub(super) type Names = Vec<Vec<u8>>;

/// The next work of a walk.
#[derive(Debug)]
pub(super) enum Work<F> {
    /// List the directory at this index of [`Walk::directories`].
    List(usize),
    /// Move a file of the directory at this index, whose folder is open.
    Move(usize, Arc<F>, Listed),
}

/// A directory that was found.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) names: Names,
    /// Its entry in the parent's listing, or `None` for the top.
    pub(super) entry: Option<Listed>,
}

/// A walk through a server's tree. `F` is an open folder on the local side.
pub(super) struct Walk<F> {
    /// All directories, with each parent before its children.
    pub(super) directories: Vec<Directory>,
    /// Indices of the directories that are still to be listed.
    unlisted: Vec<usize>,
    files: VecDeque<(usize, Arc<F>, Listed)>,
    /// Symbolic links, which are handled last.
    pub(super) links: Vec<(Names, Listed)>,
    /// Folders of files, including some that may be closed already.
    folders: Vec<std::sync::Weak<F>>,
    listings: usize,
    places: usize,
    entries: usize,
    limits: TreeLimits,
}

/// Limits on the tree and on concurrent transfers.
#[derive(Clone, Copy, Debug)]
pub struct TreeLimits {
    /// Maximum number of entries in the tree.
    pub entries: usize,
    /// Places for concurrent transfers: a small file takes one place, a large one 16.
    pub places: usize,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self {
            entries: 1_000_000,
            places: 480,
        }
    }
}

/// Why an entry is not fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// It is a device, a socket or a pipe.
    #[error("it is a device, a socket or a pipe")]
    Special,
    /// Directories are nested too deeply.
    #[error("it is a directory beneath {DEPTH} others; take that one by itself")]
    Deep,
}

/// Returns how many places a file of this size takes.
fn weight(size: u64) -> usize {
    usize::try_from(size / PLACE)
        .unwrap_or(LARGEST)
        .clamp(1, LARGEST)
}

impl<F> Walk<F> {
    pub(super) fn new(limits: TreeLimits) -> Self {
        let top = Directory {
            names: Names::new(),
            entry: None,
        };
        Self {
            directories: vec![top],
            unlisted: vec![0],
            files: VecDeque::new(),
            links: Vec::new(),
            folders: Vec::new(),
            listings: 0,
            places: 0,
            entries: 0,
            limits,
        }
    }

    /// Returns work that can begin now, or `None` until other work ends.
    pub(super) fn next(&mut self) -> Option<Work<F>> {
        if self.listings < LISTINGS && self.files.len() < WAITING && !self.is_full() {
            // Depth first, so that few directories stay unlisted in deep trees.
            if let Some(place) = self.unlisted.pop() {
                self.listings += 1;
                return Some(Work::List(place));
            }
        }
        let (.., first) = self.files.front()?;
        let weight = weight(first.size);
        if self.places > 0 && self.places + weight > self.limits.places {
            return None;
        }
        self.places += weight;
        let (place, folder, file) = self.files.pop_front()?;
        Some(Work::Move(place, folder, file))
    }

    /// Returns true if as many folders are open as allowed.
    fn is_full(&mut self) -> bool {
        if self.folders.len() >= FOLDERS {
            self.folders.retain(|folder| folder.strong_count() > 0);
        }
        self.folders.len() + self.listings >= FOLDERS
    }

    /// Returns true if nothing else will begin once the current work has ended.
    pub(super) fn is_last(&self) -> bool {
        self.files.is_empty() && self.unlisted.is_empty() && self.listings == 0
    }

    /// Records a directory's listing: `kept` entries are already there, and `entries` are not.
    /// Returns the entries to skip.
    pub(super) fn listed(
        &mut self,
        place: usize,
        folder: &Arc<F>,
        kept: usize,
        entries: Vec<Listed>,
    ) -> Result<Vec<(Listed, Skipped)>, TooMany> {
        self.listings -= 1;
        self.entries += kept + entries.len();
        if self.entries > self.limits.entries {
            return Err(TooMany(self.limits.entries));
        }
        let above = self.names(place);
        let inside = |name: &Vec<u8>| [above.as_slice(), std::slice::from_ref(name)].concat();
        let (mut skipped, before) = (Vec::new(), self.files.len());
        for entry in entries {
            match entry.kind {
                Kind::File => self.files.push_back((place, Arc::clone(folder), entry)),
                Kind::Symlink => self.links.push((inside(&entry.name), entry)),
                Kind::Special => skipped.push((entry, Skipped::Special)),
                Kind::Directory if above.len() + 1 >= DEPTH => {
                    skipped.push((entry, Skipped::Deep));
                }
                Kind::Directory => {
                    self.unlisted.push(self.directories.len());
                    self.directories.push(Directory {
                        names: inside(&entry.name),
                        entry: Some(entry),
                    });
                }
            }
        }
        if self.files.len() > before {
            self.folders.push(Arc::downgrade(folder));
        }
        Ok(skipped)
    }

    /// Records that a directory couldn't be listed, so that its attributes aren't set.
    pub(super) fn unlisted(&mut self, place: usize) {
        self.listings -= 1;
        if let Some(directory) = self.directories.get_mut(place) {
            directory.entry = None;
        }
    }

    pub(super) fn ended(&mut self, file: &Listed) {
        self.places -= weight(file.size);
    }

    /// Returns the names of the directory at this index.
    pub(super) fn names(&self, place: usize) -> Names {
        let directory = self.directories.get(place);
        directory
            .map(|found| found.names.clone())
            .unwrap_or_default()
    }
}

/// An entry and its result.
#[derive(Debug)]
pub struct Ended<T, E> {
    /// The path on the server.
    pub path: PathName,
    /// The result.
    pub outcome: Result<Outcome<T>, E>,
}

/// The result of an entry that did not fail.
#[derive(Debug)]
pub enum Outcome<T> {
    /// The file was moved.
    Moved(T),
    /// The file, or this number of entries of the directory, was already there.
    Unchanged(u64),
    /// The entry is of a kind that isn't moved.
    Skipped(Skipped),
}

/// A listed directory and the entries to move.
pub(super) struct Found<F, E> {
    pub(super) folder: F,
    pub(super) entries: Vec<Listed>,
    /// Entries that are already there.
    pub(super) kept: usize,
    /// Entries that cannot be moved, with the reason.
    pub(super) unfit: Vec<(Vec<u8>, E)>,
}

/// Returns the bytes of all files among these entries.
pub(super) fn bytes_of(entries: &[Listed]) -> u64 {
    let files = entries.iter().filter(|entry| entry.kind == Kind::File);
    files.map(|file| file.size).fold(0, u64::saturating_add)
}

/// The direction of a transfer: fetching or storing.
pub(super) trait Direction: Send + Sync + 'static {
    /// A local directory that contains files to move.
    type Folder: Send + Sync + 'static;
    /// The result of moving a file.
    type Moved: Send + 'static;
    /// The reason why an entry was not moved.
    type Error: From<TooMany> + From<io::Error> + Display + Send + 'static;

    /// Lists a directory, and omits entries that are already there.
    fn list(
        self: &Arc<Self>,
        names: &Names,
    ) -> impl Future<Output = Result<Found<Self::Folder, Self::Error>, Self::Error>> + Send;

    /// Moves a file. `headers` is empty except for the first file and the last ones.
    fn file(
        &self,
        path: &PathName,
        folder: &Self::Folder,
        file: &Listed,
        headers: &HeaderMap,
    ) -> impl Future<Output = Result<Outcome<Self::Moved>, Self::Error>> + Send;
}

/// The result of a task.
enum Done<D: Direction> {
    Listed(usize, Result<Found<D::Folder, D::Error>, D::Error>),
    File(Listed, Ended<D::Moved, D::Error>),
}

/// Returns the path on the server for `names` beneath `top`.
pub(super) fn beneath(top: &PathName, names: &[Vec<u8>], slash: bool) -> PathName {
    PathName {
        names: [top.names.as_slice(), names].concat(),
        slash,
    }
}

/// Moves all files. `headers` are additional fields for the first and the last requests. Links
/// and the attributes of directories remain in the returned walk.
///
/// # Errors
/// [`TooMany`], in the direction's type, and a panic of a task.
pub(super) async fn drive<D: Direction>(
    direction: &Arc<D>,
    top: &PathName,
    headers: &HeaderMap,
    limits: TreeLimits,
    mut ended: impl FnMut(Ended<D::Moved, D::Error>),
) -> Result<Walk<D::Folder>, D::Error> {
    let mut walk = Walk::<D::Folder>::new(limits);
    let (mut tasks, mut first) = (JoinSet::new(), true);
    loop {
        while let Some(work) = walk.next() {
            let direction = Arc::clone(direction);
            match work {
                Work::List(place) => {
                    let names = walk.names(place);
                    tasks.spawn(
                        async move { Done::<D>::Listed(place, direction.list(&names).await) },
                    );
                }
                Work::Move(place, folder, file) => {
                    let headers = if first || walk.is_last() {
                        headers.clone()
                    } else {
                        HeaderMap::new()
                    };
                    first = false;
                    let mut path = beneath(top, &walk.names(place), false);
                    path.names.push(file.name.clone());
                    tasks.spawn(async move {
                        let outcome = direction.file(&path, &folder, &file, &headers).await;
                        Done::File(file, Ended { path, outcome })
                    });
                }
            }
        }
        let Some(done) = tasks.join_next().await else {
            return Ok(walk);
        };
        match done.map_err(io::Error::other)? {
            Done::File(file, end) => {
                walk.ended(&file);
                ended(end);
            }
            Done::Listed(place, Err(error)) => {
                let path = beneath(top, &walk.names(place), true);
                walk.unlisted(place);
                ended(Ended {
                    path,
                    outcome: Err(error),
                });
            }
            Done::Listed(place, Ok(found)) => {
                let above = beneath(top, &walk.names(place), false);
                let named = |name: Vec<u8>, outcome| Ended {
                    path: beneath(&above, &[name], false),
                    outcome,
                };
                let unchanged = found.kept - found.unfit.len().min(found.kept);
                if unchanged > 0 {
                    ended(Ended {
                        path: beneath(&above, &[], true),
                        outcome: Ok(Outcome::Unchanged(unchanged as u64)),
                    });
                }
                for (name, error) in found.unfit {
                    ended(named(name, Err(error)));
                }
                let folder = Arc::new(found.folder);
                let skipped = walk.listed(place, &folder, found.kept, found.entries);
                for (entry, why) in skipped? {
                    ended(named(entry.name, Ok(Outcome::Skipped(why))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::resource::Time;

    use super::*;

    fn entry(name: &str, kind: Kind, size: u64) -> Listed {
        Listed {
            name: name.as_bytes().to_vec(),
            kind,
            size,
            mode: 0o644,
            modified: Time::default(),
            target: None,
        }
    }

    fn walk(entries: usize) -> Walk<()> {
        Walk::new(TreeLimits {
            entries,
            ..TreeLimits::default()
        })
    }

    fn list(walk: &mut Walk<()>) -> usize {
        match walk.next() {
            Some(Work::List(place)) => place,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn small_files_are_under_way_in_hundreds_and_large_ones_in_tens() {
        for (size, at_once) in [(1000, 480), (100_000, 80), (1 << 40, 30)] {
            let (mut walk, folder) = (walk(10_000), Arc::new(()));
            let place = list(&mut walk);
            let files = (0..5000).map(|n| entry(&n.to_string(), Kind::File, size));
            assert!(walk.listed(place, &folder, 0, files.collect()).is_ok());
            let mut begun = 0;
            while let Some(Work::Move(..)) = walk.next() {
                begun += 1;
            }
            assert_eq!(begun, at_once);
            walk.ended(&entry("0", Kind::File, size));
            assert!(walk.next().is_some() && walk.next().is_none());
        }
    }

    #[test]
    fn a_server_without_end_is_left() {
        let (mut walk, folder) = (walk(1000), Arc::new(()));
        let mut deepest = 0;
        let left = loop {
            let place = list(&mut walk);
            deepest = deepest.max(walk.directories[place].names.len());
            let entries = ["a", "b", "c"].map(|name| entry(name, Kind::Directory, 0));
            match walk.listed(place, &folder, 0, entries.to_vec()) {
                Ok(_) => {}
                Err(left) => break left,
            }
        };
        assert_eq!(left, TooMany(1000));
        assert_eq!(deepest, DEPTH - 1);
    }

    #[test]
    fn no_more_is_listed_while_files_wait() {
        let (mut walk, folder) = (walk(usize::MAX), Arc::new(()));
        let place = list(&mut walk);
        let directories = (0..1000).map(|n| entry(&n.to_string(), Kind::Directory, 0));
        let special = entry("pipe", Kind::Special, 0);
        let entries = directories.chain([special]).collect();
        let skipped = walk.listed(place, &folder, 3, entries).unwrap();
        assert_eq!((skipped.len(), skipped[0].1), (1, Skipped::Special));
        let places: Vec<_> = (0..LISTINGS).map(|_| list(&mut walk)).collect();
        assert!(walk.next().is_none() && !walk.is_last());
        for place in places {
            let files = (0..100)
                .map(|n| entry(&n.to_string(), Kind::File, 1))
                .collect();
            walk.listed(place, &folder, 0, files).unwrap();
        }
        assert!(matches!(walk.next(), Some(Work::Move(..))));
        assert_eq!(walk.listings, 0);
    }
}
