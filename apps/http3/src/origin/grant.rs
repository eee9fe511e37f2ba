//! Rights and budgets of clients. Through a steward, a program can take part in their requests.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, Request};

use crate::lock;
use crate::pace::Pace;
use crate::plan::{Reply, Rules};
use crate::wire::ServerExchange;

/// A client's rights and budgets, shared by all of its connections.
#[derive(Debug)]
pub struct Grant {
    /// The client's name, which owns its unfinished uploads. It is empty for clients that the
    /// program doesn't distinguish.
    pub name: String,
    /// The rules for its requests.
    pub rules: Rules,
    /// The content rate of both directions together.
    pub pace: Option<Pace>,
    /// The limit on bytes that the client can store.
    pub quota: Option<Arc<Quota>>,
}

/// A limit on the total bytes of files, and on their number.
#[derive(Debug)]
pub struct Quota(Mutex<Budget>);

#[derive(Debug)]
struct Budget {
    most: u64,
    /// Bytes of stored files.
    stored: u64,
    /// Bytes reserved by current requests.
    reserved: u64,
    most_files: u64,
    /// Number of files, links and directories.
    files: u64,
}

/// Part of a quota reserved for an arriving file. Dropping it frees the bytes.
pub(super) struct Reservation {
    grant: Arc<Grant>,
    bytes: u64,
}

impl Grant {
    /// Creates a grant without own limits.
    pub const fn of(rules: Rules) -> Self {
        Self {
            name: String::new(),
            rules,
            pace: None,
            quota: None,
        }
    }

    /// Reserves `bytes`, or returns `None` if they exceed the quota.
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let mut reservation = Reservation {
            grant: Arc::clone(self),
            bytes: 0,
        };
        reservation.grow_to(bytes).then_some(reservation)
    }

    /// Counts a new file, link or directory, or returns false if there are too many.
    pub(super) fn add_file(&self) -> bool {
        self.quota.as_ref().is_none_or(|quota| quota.add_file())
    }

    /// Releases the bytes of removed files.
    pub(super) fn release(&self, bytes: u64) {
        if let Some(quota) = &self.quota {
            quota.remove(bytes);
        }
    }
}

impl Reservation {
    /// Grows the reservation to `bytes`, or returns false if they exceed the quota.
    pub(super) fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = match &self.grant.quota {
            Some(quota) => quota.reserve(more),
            None => true,
        };
        if fits {
            self.bytes = self.bytes.max(bytes);
        }
        fits
    }

    /// Converts `bytes` of the reservation into a stored file, and frees the rest.
    pub(super) fn keep(mut self, bytes: u64) {
        self.end(bytes);
    }

    /// Ends the reservation, and releases `bytes` of removed files.
    pub(super) fn release(self, bytes: u64) {
        self.grant.release(bytes);
    }

    /// Ends the reservation, of which `stored` bytes become a file.
    fn end(&mut self, stored: u64) {
        let reserved = std::mem::take(&mut self.bytes);
        if let Some(quota) = &self.grant.quota {
            quota.settle(reserved, stored.min(reserved));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.end(0);
    }
}

impl Quota {
    /// Creates a quota of `most` bytes, of which `stored` are already used.
    pub const fn new(most: u64, stored: u64) -> Self {
        Self(Mutex::new(Budget {
            most,
            stored,
            reserved: 0,
            most_files: u64::MAX,
            files: 0,
        }))
    }

    /// Limits the number of files, of which there are already `files`.
    #[must_use]
    pub fn with_files(self, most: u64, files: u64) -> Self {
        {
            let mut budget = lock(&self.0);
            (budget.most_files, budget.files) = (most, files);
        }
        self
    }

    /// Adopts the limit and the counted bytes of another quota. While requests are active, this
    /// quota keeps its own count, because their files may be counted in part.
    pub fn renew(&self, counted: &Self) {
        let (most, stored, most_files, files) = {
            let counted = lock(&counted.0);
            (
                counted.most,
                counted.stored,
                counted.most_files,
                counted.files,
            )
        };
        let mut budget = lock(&self.0);
        (budget.most, budget.most_files) = (most, most_files);
        if budget.reserved == 0 {
            (budget.stored, budget.files) = (stored, files);
        }
    }

    fn add_file(&self) -> bool {
        let mut budget = lock(&self.0);
        let fits = budget.files < budget.most_files;
        budget.files += u64::from(fits);
        fits
    }

    fn reserve(&self, bytes: u64) -> bool {
        let mut budget = lock(&self.0);
        let reserved = budget.reserved.saturating_add(bytes);
        let fits = bytes == 0 || budget.stored.saturating_add(reserved) <= budget.most;
        if fits {
            budget.reserved = reserved;
        }
        fits
    }

    fn settle(&self, reserved: u64, stored: u64) {
        let mut budget = lock(&self.0);
        budget.reserved = budget.reserved.saturating_sub(reserved);
        budget.stored = budget.stored.saturating_add(stored);
    }

    fn remove(&self, bytes: u64) {
        let mut budget = lock(&self.0);
        budget.stored = budget.stored.saturating_sub(bytes);
    }
}

/// Adds a program's own fields to responses, and records requests. Each connection has its own
/// steward.
pub trait Steward: Debug + Send + Sync + 'static {
    /// Returns the rights of a request's client, or `None` to apply the origin's rules.
    ///
    /// # Errors
    /// The reply to an unknown client.
    fn admit(&self, _request: &Request<()>) -> Result<Option<Arc<Grant>>, Box<Reply>> {
        Ok(None)
    }

    /// Returns header fields for a response with a file's content, before its first byte is sent.
    fn begin(&self, _request: &Request<()>) -> HeaderMap {
        HeaderMap::new()
    }

    /// Returns trailer fields, after all of the content was handed to the transport.
    fn end(&self, _request: &Request<()>) -> HeaderMap {
        HeaderMap::new()
    }

    /// Returns how many streams a connection can have for CONNECT requests. If there are any,
    /// [`connect`](Self::connect) handles these requests, which are useless to an origin.
    fn tunnels(&self) -> usize {
        0
    }

    /// Responds to a CONNECT request, and completes when its tunnel has ended.
    fn connect(&self, _request: Request<()>, _exchange: ServerExchange) -> Tunnelling<'_> {
        Box::pin(std::future::ready(()))
    }

    /// Records the end of any other request.
    fn ended(&self, _record: &Record<'_>) {}
}

/// A running tunnel.
pub type Tunnelling<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A steward that adds nothing.
#[derive(Clone, Copy, Debug)]
pub struct Idle;

impl Steward for Idle {}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The request's header section.
    pub request: &'a Request<()>,
    /// The path of the file. For an upload, it is that of the PUT that began it.
    pub path: &'a str,
    /// The response's status, or 0 without a response.
    pub status: u16,
    /// Bytes of content sent, or stored by a PUT.
    pub bytes: u64,
    /// The time from the header section to the end.
    pub took: Duration,
    /// How the request ended.
    pub end: End<'a>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// The client has acknowledged all of the response, or the file is stored.
    Done,
    /// Part of an upload was stored, and more content is to follow.
    Part,
    /// The request was refused for this reason.
    Refused(&'a str),
    /// The stream, the connection or the file failed.
    BrokenOff(&'a str),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(most: u64, used: u64) -> Arc<Grant> {
        Arc::new(Grant {
            quota: Some(Arc::new(Quota::new(most, used))),
            ..Grant::of(Rules::default())
        })
    }

    #[test]
    fn what_is_reserved_is_free_again_or_kept() {
        let grant = limited(100, 40);
        assert!(grant.reserve(61).is_none() && grant.reserve(u64::MAX).is_none());
        let first = grant.reserve(50).unwrap();
        assert!(grant.reserve(11).is_none());
        drop(first);
        let mut second = grant.reserve(0).unwrap();
        assert!(second.grow_to(30) && second.grow_to(60) && !second.grow_to(61));
        second.keep(10);
        assert!(grant.reserve(51).is_none());
        grant.release(50);
        drop(grant.reserve(100).unwrap());
        let free = Arc::new(Grant::of(Rules::default()));
        assert!(free.reserve(u64::MAX).is_some());
        // Even an exceeded quota accepts an empty file.
        assert!(limited(10, 40).reserve(0).is_some());
    }

    #[test]
    fn a_later_count_leaves_what_is_reserved() {
        let grant = limited(100, 60);
        let under_way = grant.reserve(10).unwrap();
        let quota = grant.quota.as_ref().unwrap();
        // Five of the ten bytes are on disk.
        quota.renew(&Quota::new(80, 65));
        assert!(grant.reserve(11).is_none() && grant.reserve(10).is_some());
        under_way.keep(10);
        assert!(grant.reserve(11).is_none() && grant.reserve(10).is_some());
        // The operator removed files.
        quota.renew(&Quota::new(80, 20));
        assert!(grant.reserve(61).is_none() && grant.reserve(60).is_some());
    }

    #[test]
    fn of_many_at_once_only_as_many_as_fit_are_taken() {
        let grant = limited(1000, 0);
        let taken = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let held = (0..100).map(|_| grant.reserve(7));
                        held.flatten().collect::<Vec<_>>()
                    })
                })
                .collect();
            let held: Vec<_> = takers
                .into_iter()
                .flat_map(|taker| taker.join().unwrap())
                .collect();
            held.len()
        });
        assert_eq!(taken, 142);
        assert!(grant.reserve(1000).is_some());
    }
}
