//! Tracks the origin's resumable uploads: which request is using each upload, and which unfinished
//! uploads are kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::grant::Grant;
use crate::lock;
use crate::pace::now;
use crate::resource::Token;
use crate::root::Lying;

/// Limits on kept unfinished uploads.
#[derive(Clone, Copy, Debug)]
pub struct UploadLimits {
    /// Uploads per client. The oldest uploads make room for new uploads.
    pub each: usize,
    /// Bytes of uploads per client, enforced in the same way.
    pub each_bytes: u64,
    /// Uploads of all clients. Further uploads are not kept.
    pub all: usize,
    /// Bytes of uploads of all clients, enforced in the same way.
    pub all_bytes: u64,
    /// Time since the last byte after which an upload is removed.
    pub age: Duration,
}

impl Default for UploadLimits {
    fn default() -> Self {
        Self {
            each: 100,
            each_bytes: 256 << 30,
            all: 1000,
            all_bytes: 1 << 40,
            age: Duration::from_secs(48 * 3600),
        }
    }
}

/// All known uploads.
#[derive(Debug)]
pub(super) struct Uploads {
    pub(super) limits: UploadLimits,
    table: Mutex<BTreeMap<Token, Known>>,
}

/// A known upload.
#[derive(Debug)]
struct Known {
    directory: Vec<Vec<u8>>,
    owner: String,
    /// The grant whose quota includes its bytes, or `None` if another process began it.
    grant: Option<Arc<Grant>>,
    bytes: u64,
    /// The time when the last byte arrived.
    last: SystemTime,
    /// The request that is using it.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    stop: watch::Sender<bool>,
    gone: watch::Receiver<()>,
}

/// An upload claimed by one request.
#[derive(Debug)]
pub(super) struct Claim {
    uploads: Arc<Uploads>,
    pub(super) token: Token,
    stop: watch::Receiver<bool>,
    /// Dropping this wakes those that wait for the end of the request.
    gone: watch::Sender<()>,
}

/// The reason why a request can't claim an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unclaimed {
    /// The upload belongs to another client.
    Foreign,
    /// The request that is using it doesn't end.
    Busy,
}

/// An upload that must be removed from disk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Evicted {
    pub(super) token: Token,
    pub(super) directory: Vec<Vec<u8>>,
}

type Table = BTreeMap<Token, Known>;

impl Uploads {
    pub(super) fn new(limits: UploadLimits) -> Self {
        Self {
            limits,
            table: Mutex::default(),
        }
    }

    /// Claims an upload in `directory` for a request. A request that is already using it is stopped
    /// first, because the client has evidently given up on that request.
    pub(super) async fn claim(
        self: &Arc<Self>,
        token: &Token,
        directory: &[Vec<u8>],
        grant: &Arc<Grant>,
        limit: Duration,
    ) -> Result<Claim, Unclaimed> {
        loop {
            let mut gone = match self.try_claim(token, directory, grant)? {
                Ok(claim) => return Ok(claim),
                Err(gone) => gone,
            };
            // The receiver fails when the sender is dropped, which is the awaited end.
            if tokio::time::timeout(limit, gone.changed()).await.is_err() {
                return Err(Unclaimed::Busy);
            }
        }
    }

    fn try_claim(
        self: &Arc<Self>,
        token: &Token,
        directory: &[Vec<u8>],
        grant: &Arc<Grant>,
    ) -> Result<Result<Claim, watch::Receiver<()>>, Unclaimed> {
        let mut table = lock(&self.table);
        let known = table.entry(token.clone()).or_insert_with(|| Known {
            directory: directory.to_vec(),
            owner: grant.name.clone(),
            grant: None,
            bytes: 0,
            last: now(),
            running: None,
        });
        if known.owner != grant.name {
            return Err(Unclaimed::Foreign);
        }
        if let Some(running) = &known.running {
            running.stop.send_replace(true);
            return Ok(Err(running.gone.clone()));
        }
        known.grant = Some(Arc::clone(grant));
        let (stop, stopped) = watch::channel(false);
        let (end, gone) = watch::channel(());
        known.running = Some(Running { stop, gone });
        Ok(Ok(Claim {
            uploads: Arc::clone(self),
            token: token.clone(),
            stop: stopped,
            gone: end,
        }))
    }

    /// Adopts uploads left by an earlier process.
    pub(super) fn adopt(&self, lying: Vec<Lying>) {
        let mut table = lock(&self.table);
        for upload in lying {
            table.entry(upload.token).or_insert_with(|| Known {
                directory: upload.directory,
                owner: upload.owner,
                grant: None,
                bytes: upload.stat.size,
                last: upload.stat.modified.to_system(),
                running: None,
            });
        }
    }

    /// Removes expired uploads from the table and returns them. If another process began an
    /// upload, its bytes count in the quota of its owner's grant.
    pub(super) fn expired(
        &self,
        now: SystemTime,
        grant_of: impl Fn(&str) -> Option<Arc<Grant>>,
    ) -> Vec<Evicted> {
        let mut table = lock(&self.table);
        let is_over = |known: &Known| {
            let since = now.duration_since(known.last).unwrap_or_default();
            known.running.is_none() && since > self.limits.age
        };
        let over = table.iter().filter(|(_, known)| is_over(known));
        let over: Vec<_> = over.map(|(token, _)| token.clone()).collect();
        evict(&mut table, over, grant_of)
    }
}

impl Claim {
    /// Completes once another request claims the upload.
    pub(super) async fn stopped(&self) {
        let mut stop = self.stop.clone();
        if stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends the request and forgets the upload.
    pub(super) fn finish(self) {
        lock(&self.uploads.table).remove(&self.token);
    }

    /// Ends the request and keeps the upload with this number of bytes. Returns the uploads that
    /// must be removed to make room, which can include the upload itself.
    pub(super) fn keep(self, bytes: u64, last: SystemTime) -> Vec<Evicted> {
        let mut table = lock(&self.uploads.table);
        let Some(known) = table.get_mut(&self.token) else {
            return Vec::new();
        };
        (known.bytes, known.last, known.running) = (bytes, last, None);
        // These uploads all have the same owner.
        let grant = known.grant.clone();
        let surplus = surplus(&table, &self.uploads.limits, &self.token);
        evict(&mut table, surplus, |_| grant.clone())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(known) = lock(&self.uploads.table).get_mut(&self.token) {
            // A later request has a different channel, so leave that one.
            let own = self.gone.subscribe();
            known
                .running
                .take_if(|running| running.gone.same_channel(&own));
        }
    }
}

/// Removes uploads from the table, and their bytes from the quotas.
fn evict(
    table: &mut Table,
    tokens: Vec<Token>,
    grant_of: impl Fn(&str) -> Option<Arc<Grant>>,
) -> Vec<Evicted> {
    let gone = tokens.into_iter().filter_map(|token| {
        let known = table.remove(&token)?;
        if let Some(grant) = known.grant.or_else(|| grant_of(&known.owner)) {
            grant.release(known.bytes);
        }
        Some(Evicted {
            token,
            directory: known.directory,
        })
    });
    gone.collect()
}

/// Returns the uploads that exceed the limits after keeping the upload `token`.
fn surplus(table: &Table, limits: &UploadLimits, token: &Token) -> Vec<Token> {
    let Some(own) = table.get(token) else {
        return Vec::new();
    };
    let kept = || table.iter().filter(|(_, known)| known.running.is_none());
    let bytes = |all: &[(&Token, &Known)]| {
        let bytes = all.iter().map(|(_, known)| known.bytes);
        bytes.fold(0_u64, u64::saturating_add)
    };
    let all: Vec<_> = kept().collect();
    if all.len() > limits.all || bytes(&all) > limits.all_bytes {
        return vec![token.clone()];
    }
    let mut mine: Vec<_> = kept()
        .filter(|(_, known)| known.owner == own.owner)
        .collect();
    mine.sort_by_key(|(_, known)| std::cmp::Reverse(known.last));
    let mut goes = Vec::new();
    while mine.len() > limits.each || bytes(&mine) > limits.each_bytes {
        match mine.pop() {
            Some((oldest, _)) => goes.push(oldest.clone()),
            None => break,
        }
    }
    goes
}

#[cfg(test)]
mod tests {
    use crate::plan::Rules;

    use super::*;

    const LIMITS: UploadLimits = UploadLimits {
        each: 2,
        each_bytes: 100,
        all: 3,
        all_bytes: 150,
        age: Duration::from_secs(10),
    };

    fn grant(name: &str) -> Arc<Grant> {
        Arc::new(Grant {
            name: name.to_owned(),
            ..Grant::of(Rules::default())
        })
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    async fn keep(uploads: &Arc<Uploads>, who: &str, token: u128, bytes: u64) -> Vec<u128> {
        let token_of = Token::of;
        let (name, owner) = (token_of(token), grant(who));
        let claim = uploads.claim(&name, &[], &owner, Duration::from_secs(1));
        let last = at(u64::try_from(token).unwrap());
        let evicted = claim.await.unwrap().keep(bytes, last);
        let number = |token: &Token| (0..100).find(|n| token_of(*n) == *token).unwrap();
        evicted.iter().map(|gone| number(&gone.token)).collect()
    }

    #[tokio::test]
    async fn the_oldest_of_a_client_make_room_and_those_of_others_do_not() {
        let uploads = Arc::new(Uploads::new(LIMITS));
        assert_eq!(keep(&uploads, "a", 1, 10).await, []);
        assert_eq!(keep(&uploads, "a", 2, 10).await, []);
        assert_eq!(keep(&uploads, "a", 3, 10).await, [1]);
        assert_eq!(keep(&uploads, "a", 4, 95).await, [2, 3]);
        assert_eq!(keep(&uploads, "b", 5, 101).await, [5]);
        let gone = keep(&uploads, "b", 6, 60).await;
        assert_eq!(gone, [6], "beyond the bytes of all");
        assert_eq!(keep(&uploads, "b", 7, 10).await, []);
        assert_eq!(keep(&uploads, "c", 8, 10).await, []);
        let gone = keep(&uploads, "d", 9, 10).await;
        assert_eq!(gone, [9], "beyond the number of all");
        let time = Duration::from_secs(1);
        let foreign = uploads.claim(&Token::of(4), &[], &grant("b"), time).await;
        assert_eq!(foreign.unwrap_err(), Unclaimed::Foreign);
        assert_eq!(uploads.expired(at(14), |_| None).len(), 0);
        assert_eq!(uploads.expired(at(15), |_| None).len(), 1);
        assert_eq!(uploads.expired(at(100), |_| None).len(), 2);
    }

    #[tokio::test]
    async fn a_later_request_ends_the_one_before() {
        let uploads = Arc::new(Uploads::new(LIMITS));
        let (token, owner) = (Token::of(1), grant("a"));
        let time = Duration::from_secs(10);
        let first = uploads.claim(&token, &[], &owner, time).await.unwrap();
        let ends = async {
            first.stopped().await;
            drop(first);
        };
        let (second, ()) = tokio::join!(uploads.claim(&token, &[], &owner, time), ends);
        let second = second.unwrap();
        let short = Duration::from_millis(1);
        let third = uploads.claim(&token, &[], &owner, short).await;
        assert_eq!(third.unwrap_err(), Unclaimed::Busy);
        second.finish();
        assert!(uploads.claim(&token, &[], &owner, short).await.is_ok());
    }
}
