//! State shared by an origin's requests: limits, counters, clocks, and reserved disk space.
//!
//! Space is reserved for active requests, because the free space that a file system reports doesn't
//! account for bytes that have yet to arrive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::grant::Grant;
use super::places::Places;
use super::send::Digests;
use super::uploads::{UploadLimits, Uploads};
use crate::root::{Root, file_stat};

/// Limits on the server resources that clients can use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Concurrent requests per connection. A GET only frees its place after the client has
    /// acknowledged the response, and the client can use this place two round trips after the
    /// request.
    pub requests: u32,
    /// Concurrent requests on all connections, each of which takes a descriptor and at most
    /// about 1 MiB. If there are too few, the slowest request of the host with the most ends for
    /// a host with fewer. Others wait up to the `stall` limit before getting status 503.
    pub transfers: usize,
    /// Requests on all connections whose header section is incomplete. If there are too few, the
    /// oldest such request of the host with the most ends.
    pub heads: usize,
    /// Connections per host. For IPv6, a host is a /48.
    pub connections: usize,
    /// Bytes per header section.
    pub head_bytes: u64,
    /// Time limit for receiving a request's header section.
    pub head_time: Duration,
    /// Time without progress in either direction after which a request is reset.
    pub stall: Duration,
    /// Files hashed concurrently on all connections. Hosts take turns.
    pub hashes: usize,
    /// Limits on unfinished uploads.
    pub uploads: UploadLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 1536,
            transfers: 512,
            heads: 1024,
            connections: 1024,
            head_bytes: 64 * 1024,
            head_time: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            hashes: 2,
            uploads: UploadLimits::default(),
        }
    }
}

/// State used by all requests.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) root: Root,
    /// Rights of clients without their own grant.
    pub(super) grant: Arc<Grant>,
    pub(super) limits: Limits,
    pub(super) digests: Digests,
    /// Disk space promised to requests.
    pub(super) space: Arc<Space>,
    /// Resumable uploads.
    pub(super) uploads: Arc<Uploads>,
    /// Places for requests.
    pub(super) places: Places,
    /// Places for requests with an incomplete header section.
    pub(super) heads: Places,
    /// Places for connections.
    pub(super) connections: Places,
    /// Held while checking preconditions and renaming a file.
    pub(super) commits: Mutex<()>,
    pub(super) counters: Counters,
}

/// Counters of an origin.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) broken_off: AtomicU64,
}

/// Request counts since an origin began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All requests, including those whose header section failed to arrive.
    pub requests: u64,
    /// Requests answered with status 400 or above.
    pub refused: u64,
    /// Requests that made no progress within a time limit.
    pub timed_out: u64,
    /// Requests whose stream or connection failed, or whose file changed during the response.
    pub broken_off: u64,
}

impl Counters {
    pub(super) fn counts(&self) -> Counts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            requests: value(&self.requests),
            refused: value(&self.refused),
            timed_out: value(&self.timed_out),
            broken_off: value(&self.broken_off),
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Returns the time for measuring durations.
#[expect(clippy::disallowed_methods, reason = "this driver owns the clock")]
pub(super) fn instant() -> std::time::Instant {
    std::time::Instant::now()
}

/// Returns the time for fields and entity tags.
#[expect(clippy::disallowed_methods, reason = "this driver owns the clock")]
pub(super) fn now() -> SystemTime {
    SystemTime::now()
}

/// Promised bytes per device.
#[derive(Debug, Default)]
pub(super) struct Space(Mutex<BTreeMap<u64, u64>>);

/// Space promised to one file. Dropping it frees the space for others.
#[derive(Debug)]
pub(super) struct Promise {
    space: Arc<Space>,
    device: u64,
    left: u64,
}

impl Space {
    /// Promises `bytes` on the device of `file`. Returns `None` if they exceed the free space
    /// that is not yet promised.
    pub(super) fn promise(
        self: &Arc<Self>,
        file: &File,
        bytes: u64,
    ) -> io::Result<Option<Promise>> {
        let device = file_stat(file)?.device;
        let free = || {
            let space = rustix::fs::fstatvfs(file)?;
            Ok::<_, io::Error>(space.f_bavail.saturating_mul(space.f_frsize))
        };
        let free = free()?;
        Ok(self.take(device, free, bytes))
    }

    fn take(self: &Arc<Self>, device: u64, free: u64, bytes: u64) -> Option<Promise> {
        let mut promised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = promised.entry(device).or_default();
        let more = sum.saturating_add(bytes);
        // An empty file needs no space.
        if bytes > 0 && more > free {
            return None;
        }
        *sum = more;
        Some(Promise {
            space: Arc::clone(self),
            device,
            left: bytes,
        })
    }
}

impl Promise {
    /// Records the arrival of bytes, which the file system accounts for from now on.
    pub(super) fn spend(&mut self, bytes: u64) {
        let spent = bytes.min(self.left);
        self.left -= spent;
        let mut promised = self.space.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sum) = promised.get_mut(&self.device) {
            *sum = sum.saturating_sub(spent);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.spend(self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_promised_once() {
        let space = Arc::new(Space::default());
        let mut first = space.take(1, 100, 60).unwrap();
        assert!(space.take(1, 100, 41).is_none());
        assert!(space.take(2, 100, 41).is_some(), "another disk");
        // After 60 bytes have arrived, the file system has 40 left.
        first.spend(60);
        assert!(space.take(1, 40, 41).is_none());
        assert!(space.take(1, 40, 40).is_some());
        drop(first);
        assert!(space.take(1, 0, 0).is_some());
        let file = tempfile::tempfile().unwrap();
        assert!(space.promise(&file, 1).unwrap().is_some());
        assert!(space.promise(&file, u64::MAX).unwrap().is_none());
    }
}
