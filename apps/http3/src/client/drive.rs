//! Drives `get` and `put` of directories, which run as concurrent tasks that list directories
//! and move files.

use std::fmt::Display;
use std::future::Future;
use std::io;
use std::sync::Arc;

use http::HeaderMap;
use tokio::task::JoinSet;

use super::list::Listed;
use super::walk::{Names, Skipped, TooMany, TreeLimits, Walk, Work};
use crate::fields::PathName;

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
                    let headers = match first || walk.is_last() {
                        true => headers.clone(),
                        false => HeaderMap::new(),
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
