//! Digests of files, each computed once per version and by few threads at a time.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::fields::Sha256Digest;
use crate::resource::Stat;
use crate::root::{Cancel, hash_file};

/// Bytes of a file that takes a second and more to hash.
const LARGE: u64 = 256 << 20;
/// Versions whose digests are kept.
const KEPT: usize = 256;

/// Known digests, and places for threads that compute others.
#[derive(Debug)]
pub(super) struct Digests {
    known: Mutex<VecDeque<(Stat, Sha256Digest)>>,
    /// For files of [`LARGE`] bytes or more, which hold no smaller ones up.
    large: Semaphore,
    places: Semaphore,
}

impl Digests {
    pub(super) fn new(places: usize) -> Self {
        Self {
            known: Mutex::new(VecDeque::new()),
            large: Semaphore::new(places),
            places: Semaphore::new(places),
        }
    }

    /// The digest of a version, if it is known.
    pub(super) fn known(&self, stat: &Stat) -> Option<Sha256Digest> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known
            .iter()
            .find(|(version, _)| version.is_same_version(stat));
        found.map(|(_, digest)| *digest)
    }

    /// Keeps the digest of a version whose next change will have another time stamp; the oldest
    /// one goes.
    pub(super) fn keep(&self, stat: &Stat, settled: bool, digest: Sha256Digest) {
        if !settled {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == KEPT {
            known.pop_front();
        }
        known.push_back((*stat, digest));
    }

    /// The digest of an open file, which is computed by a thread that may block. Dropped, the
    /// future ends the thread's work.
    pub(super) async fn of(
        &self,
        file: &Arc<File>,
        stat: &Stat,
        settled: bool,
    ) -> io::Result<Sha256Digest> {
        if let Some(digest) = self.known(stat) {
            return Ok(digest);
        }
        let places = match stat.size < LARGE {
            true => &self.places,
            false => &self.large,
        };
        let _place = places.acquire().await.map_err(io::Error::other)?;
        // Another request may have computed it meanwhile.
        if let Some(digest) = self.known(stat) {
            return Ok(digest);
        }
        let cancel = Cancel::default();
        let (flag, file) = (cancel.flag(), Arc::clone(file));
        let hashing = tokio::task::spawn_blocking(move || hash_file(&file, &flag));
        let digest = hashing.await.map_err(io::Error::other)??;
        self.keep(stat, settled, digest);
        Ok(digest)
    }
}
