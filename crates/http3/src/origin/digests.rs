//! Digests of files, each computed once per version and by few threads at a time.

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

/// Bytes that are hashed before others have their turn: a fraction of a second.
const TURN: u64 = 64 << 20;
/// Versions whose digests are kept.
const KEPT: usize = 256;

/// Known digests, and places for threads that compute others. Hosts take turns, so that nobody
/// waits until the large files of others are hashed.
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

    /// The digest of an open file, which is computed for `host` by a thread that may block.
    /// Dropped, the future ends the thread's work.
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
            // Another request may have computed it meanwhile.
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

    /// True if an open file still has the content that it had when its metadata was `before`; see
    /// [`still_has`].
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

    /// Files that take long are hashed in turns, so that a small one of another host comes first.
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
