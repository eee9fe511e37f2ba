//! State shared by an origin's requests: limits, counters, reserved disk space,
//! and the reasons why a file is not stored.
//!
//! Space is reserved for active requests, because the free space that a file system reports doesn't
//! account for bytes that have yet to arrive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::StatusCode;

use super::grant::Grant;
use super::send::Digests;
use super::uploads::{UploadLimits, Uploads};
use crate::lock;
use crate::places::Places;
use crate::plan::{Reply, problem};
use crate::root::{Root, RootError, file_stat};
use crate::wire::LinkError;

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

/// Promised bytes per device.
#[derive(Debug, Default)]
pub(super) struct Space(Mutex<BTreeMap<u64, u64>>);

/// Space promised to one file. Dropping it frees the space for others.
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
        let mut promised = lock(&self.0);
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
        let mut promised = lock(&self.space.0);
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

/// The reason why a file is not stored.
pub(super) enum Fault {
    /// The reply to send to the client.
    Reply(Box<Reply>),
    /// The stream failed.
    Link(LinkError),
}

impl From<LinkError> for Fault {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<Box<Reply>> for Fault {
    fn from(reply: Box<Reply>) -> Self {
        Self::Reply(reply)
    }
}

impl From<Reply> for Fault {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply.into())
    }
}

impl From<RootError> for Fault {
    fn from(error: RootError) -> Self {
        let reply = match error {
            RootError::NotFound => {
                let detail = "a file or a link has the name of a directory in the path; choose \
                              another name";
                problem(StatusCode::CONFLICT, detail)
            }
            RootError::Storage(error) => return Self::from(error),
            error => refusal(&error),
        };
        reply.into()
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        storage(&error).into()
    }
}

/// Returns the reply to a PUT after a storage error.
fn storage(error: &io::Error) -> Reply {
    if let Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) =
        rustix::io::Errno::from_io_error(error)
    {
        return refusal(&RootError::Busy);
    }
    use io::ErrorKind::{
        FileTooLarge, NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    let (status, detail) = match error.kind() {
        StorageFull | QuotaExceeded => (
            StatusCode::INSUFFICIENT_STORAGE,
            "the server's disk is full; free space there, then try again".to_owned(),
        ),
        FileTooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "the server's file system takes no file of this size".to_owned(),
        ),
        PermissionDenied | ReadOnlyFilesystem => (
            StatusCode::FORBIDDEN,
            "the server has no permission to write there; its operator can grant it".to_owned(),
        ),
        NotFound => (
            StatusCode::CONFLICT,
            "the directory or the unfinished file was removed meanwhile; send the file again"
                .to_owned(),
        ),
        _ => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the server could not store the file: {error}"),
        ),
    };
    problem(status, &detail)
}

/// Refuses a file that exceeds the client's quota.
pub(super) fn over_quota() -> Fault {
    let detail = "the operator lets this client store no more; remove files there first";
    problem(StatusCode::INSUFFICIENT_STORAGE, detail).into()
}

/// Refuses a file that exceeds the free disk space.
pub(super) fn disk_full() -> Fault {
    storage(&io::ErrorKind::StorageFull.into()).into()
}

/// Returns the refusal for a path that can't be served.
pub(super) fn refusal(error: &RootError) -> Reply {
    let status = match error {
        RootError::NotFound => StatusCode::NOT_FOUND,
        RootError::Special | RootError::Denied => StatusCode::FORBIDDEN,
        RootError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        RootError::Deep => StatusCode::CONFLICT,
        RootError::Storage(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    problem(status, &error.to_string())
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

    #[test]
    fn failures_of_the_disk_have_their_status() {
        for (number, status) in [
            (rustix::io::Errno::NOSPC, 507),
            (rustix::io::Errno::DQUOT, 507),
            (rustix::io::Errno::FBIG, 413),
            (rustix::io::Errno::ROFS, 403),
            (rustix::io::Errno::ACCESS, 403),
            (rustix::io::Errno::NOENT, 409),
            (rustix::io::Errno::IO, 500),
        ] {
            assert_eq!(storage(&number.into()).status.as_u16(), status, "{number}");
        }
    }
}
