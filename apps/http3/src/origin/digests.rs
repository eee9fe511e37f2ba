//! Computes digests of files, each only once per version and using few threads.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::Digest;

use super::places::Places;
use crate::blocking::blocking;
use crate::fields::Sha256Digest;
use crate::resource::Stat;
use crate::root::{Cancel, Hashing, still_has};

/// Bytes to hash before others get a turn, which takes a fraction of a second.
const TURN: u64 = 64 << 20;
/// Maximum number of cached digests.
const KEPT: usize = 256;

/// Caches digests, and limits the threads that compute them. Hosts take turns, so that nobody
/// has to wait for other hosts' large files.
#[derive(Debug)]
pub(super) struct Digests {
    known: Mutex<VecDeque<(Stat, Sha256Digest)>>,
    places: Places,
}

impl Digests {
    pub(super) fn new(places: usize) -> Self {
        Self {
            known: Mutex::new(VecDeque::new()),
            places: Places::new(places, places),
        }
    }

    /// Returns the digest of a version, if it is cached.
    pub(super) fn known(&self, stat: &Stat) -> Option<Sha256Digest> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known
            .iter()
            .find(|(version, _)| version.is_same_version(stat));
        found.map(|(_, digest)| *digest)
    }

    /// Caches the digest of a version, replacing the oldest. It is skipped unless `settled`,
    /// which means that any later change gets a different timestamp.
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

    /// Returns the digest of an open file, computing it for `host` on a blocking thread if
    /// necessary. Dropping the future cancels this work.
    pub(super) async fn of(
        &self,
        host: IpAddr,
        file: &Arc<File>,
        stat: &Stat,
        settled: bool,
    ) -> io::Result<Sha256Digest> {
        let (share, cancel) = (self.places.of(host), Cancel::default());
        let mut hashing = Hashing::default();
        loop {
            // Meanwhile another request may have computed it.
            if let Some(digest) = self.known(stat) {
                return Ok(digest);
            }
            let _place = share.take().await;
            let (flag, file) = (cancel.flag(), Arc::clone(file));
            let turn = blocking(move || {
                let is_whole = hashing.advance(&file, TURN, &flag);
                is_whole.map(|is_whole| (hashing, is_whole))
            });
            let is_whole;
            (hashing, is_whole) = turn.await??;
            if is_whole {
                let digest = hashing.hasher.finalize().into();
                self.keep(stat, settled, digest);
                return Ok(digest);
            }
        }
    }

    /// Returns true if an open file's content hasn't changed since its metadata was `before`.
    /// See [`still_has`].
    pub(super) async fn still(
        &self,
        file: &Arc<File>,
        before: Stat,
        digest: Option<Sha256Digest>,
    ) -> io::Result<bool> {
        let cancel = Cancel::default();
        let (flag, file) = (cancel.flag(), Arc::clone(file));
        blocking(move || still_has(&file, &before, digest.as_ref(), &flag)).await?
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use sha2::Sha256;

    use super::*;
    use crate::root::file_stat;

    /// Large files are hashed in turns, so that another host's small one is not delayed.
    #[tokio::test]
    async fn a_host_with_large_files_holds_up_no_other() {
        let digests = Arc::new(Digests::new(2));
        let large = tempfile::tempfile().unwrap();
        large.set_len(4 << 40).unwrap();
        let (large, stat) = (Arc::new(large), regular_of(1));
        let hogs: Vec<_> = (0..8)
            .map(|_| {
                let (digests, large) = (Arc::clone(&digests), Arc::clone(&large));
                let host = "192.0.2.1".parse().unwrap();
                tokio::spawn(async move { digests.of(host, &large, &stat, true).await })
            })
            .collect();
        while digests
            .places
            .of("192.0.2.1".parse().unwrap())
            .take_now()
            .is_some()
        {
            tokio::task::yield_now().await;
        }
        let small = tempfile::tempfile().unwrap();
        small.write_all_at(b"small", 0).unwrap();
        let (small, other) = (Arc::new(small), "192.0.2.2".parse().unwrap());
        let own = file_stat(&small).unwrap();
        let digest = digests.of(other, &small, &own, true);
        assert_eq!(digest.await.unwrap()[..], Sha256::digest(b"small")[..]);
        for hog in &hogs {
            assert!(!hog.is_finished());
            hog.abort();
        }
    }

    fn regular_of(inode: u64) -> Stat {
        Stat {
            inode,
            ..crate::resource::tests::regular(4 << 40)
        }
    }
}
