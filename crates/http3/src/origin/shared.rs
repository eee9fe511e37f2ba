//! State that the requests of an origin share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::counters::Counters;
use super::digests::Digests;
use super::grant::Grant;
use super::places::Places;
use super::space::Space;
use super::uploads::{UploadLimits, Uploads};
use crate::root::Root;

/// Bounds on the resources that a client takes of a server.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests of a connection at a time. The place of a GET is free once the client has
    /// acknowledged the response and learned of it: two round trips after it was taken.
    pub requests: u32,
    /// Requests at a time on all connections: each takes a descriptor and about 1 MiB at most.
    /// Where they are too few, the slowest request of the host with the most ends for a request of
    /// a host with fewer. Others wait as long as a stall may last, and get status 503 then.
    pub transfers: usize,
    /// Requests on all connections whose head has begun and is not complete. Where they are too
    /// few, the oldest one of the host with the most ends.
    pub heads: usize,
    /// Connections of a host; an IPv6 host is a /48.
    pub connections: usize,
    /// Bytes of a header section.
    pub head_bytes: u64,
    /// Time for the head of a request to arrive.
    pub head_time: Duration,
    /// Time without progress, in either direction, after which a request is reset.
    pub stall: Duration,
    /// Files that are hashed at a time, on all connections. Hosts take turns.
    pub hashes: usize,
    /// The most that is kept of unfinished uploads.
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

/// State that all requests use.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) root: Root,
    /// Rights of clients to which the program gives no grant.
    pub(super) grant: Arc<Grant>,
    pub(super) limits: Limits,
    pub(super) digests: Digests,
    /// Space of disks that requests were promised.
    pub(super) space: Arc<Space>,
    /// Uploads that can be resumed.
    pub(super) uploads: Arc<Uploads>,
    /// Places for requests.
    pub(super) places: Places,
    /// Places for requests whose head is not complete.
    pub(super) heads: Places,
    /// Places for connections.
    pub(super) connections: Places,
    /// Held while a precondition is checked and its file gets its name.
    pub(super) commits: Mutex<()>,
    pub(super) counters: Counters,
}
