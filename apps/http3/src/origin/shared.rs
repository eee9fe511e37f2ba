//! State shared by an origin's requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::counters::Counters;
use super::digests::Digests;
use super::grant::Grant;
use super::places::Places;
use super::space::Space;
use super::uploads::{UploadLimits, Uploads};
use crate::root::Root;

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
