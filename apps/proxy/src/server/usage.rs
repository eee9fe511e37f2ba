//! Counts what each user has used, limits it, and describes ended flows for a log.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pathmark_http3::pace::Pace;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::flows::{Carried, Kind};
use crate::lock;

/// The time for which a volume lasts.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

counters! {
    /// A user's totals since the proxy started.
    #[non_exhaustive]
    Counts {
        /// TCP flows.
        tcp_flows,
        /// UDP flows.
        udp_flows,
        /// Requests that opened no flow.
        refused,
        /// Bytes to targets.
        bytes_up,
        /// Bytes from targets.
        bytes_down,
    }
}

/// Limits on the traffic of a user, in both directions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageLimits {
    /// Bytes per second.
    pub rate: Option<NonZeroU64>,
    /// Bytes per day, which begins with the first flow.
    pub volume: Option<NonZeroU64>,
}

/// A user's name, open flows and totals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UserView {
    /// The name.
    pub user: String,
    /// Open TCP flows.
    pub tcp: usize,
    /// Open UDP flows.
    pub udp: usize,
    /// Bytes that are left today, if the volume is limited.
    pub volume_left: Option<u64>,
    /// Totals.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A request that is over, with its flow if it opened one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The user, if it is known.
    pub user: Option<String>,
    /// The client's address.
    pub client: SocketAddr,
    /// The kind of flow and the target, if the request named them.
    pub flow: Option<(Kind, String)>,
    /// The status of the response, or 0 without one.
    pub status: u16,
    /// Bytes to the target.
    pub bytes_up: u64,
    /// Bytes from the target.
    pub bytes_down: u64,
    /// The time from the request to the end.
    pub took: Duration,
    /// The reason for refusing or ending the flow, if it did not end by itself.
    pub error: Option<String>,
}

/// A record while its request lasts.
pub(super) struct Recording {
    pub(super) record: Record,
    pub(super) carried: Option<Arc<Carried>>,
}

impl Recording {
    pub(super) const fn new(client: SocketAddr) -> Self {
        Self {
            record: Record {
                user: None,
                client,
                flow: None,
                status: 0,
                bytes_up: 0,
                bytes_down: 0,
                took: Duration::ZERO,
                error: None,
            },
            carried: None,
        }
    }

    /// Returns the record of a request that took this time.
    pub(super) fn end(self, took: Duration) -> Record {
        let bytes = self
            .carried
            .map(|carried| (carried.up.bytes(), carried.down.bytes()));
        let (bytes_up, bytes_down) = bytes.unwrap_or_default();
        Record {
            bytes_up,
            bytes_down,
            took,
            ..self.record
        }
    }
}

/// What a user has used. It outlives changes of the user's credentials.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) counters: Counters,
    is_limited: AtomicBool,
    state: Mutex<State>,
    spent: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    limits: UsageLimits,
    pace: Option<Pace>,
    since: Instant,
    used: u64,
}

impl Account {
    pub(super) fn new() -> Self {
        Self {
            counters: Counters::default(),
            is_limited: AtomicBool::new(false),
            state: Mutex::new(State {
                limits: UsageLimits::default(),
                pace: None,
                since: Instant::now(),
                used: 0,
            }),
            spent: watch::Sender::new(false),
        }
    }

    /// Changes the limits. What was used still counts.
    pub(super) fn limit(&self, limits: UsageLimits) {
        let mut state = lock(&self.state);
        if state.limits.rate != limits.rate {
            state.pace = limits.rate.map(|rate| Pace::new(rate.get()));
        }
        state.limits = limits;
        self.is_limited
            .store(limits != UsageLimits::default(), Ordering::Relaxed);
        self.spent.send_replace(state.left() == Some(0));
    }

    pub(super) fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Returns the bytes that are left today, if the volume is limited.
    pub(super) fn left(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.since.elapsed() >= DAY {
            (state.since, state.used) = (Instant::now(), 0);
            self.spent.send_replace(state.left() == Some(0));
        }
        state.left()
    }

    /// Waits until the volume is used up.
    pub(super) async fn spent(&self) {
        // The sender belongs to this account.
        let _ = self.spent.subscribe().wait_for(|spent| *spent).await;
    }

    /// Waits until the limits allow these bytes.
    pub(super) async fn pass(&self, bytes: usize) {
        if !self.is_limited.load(Ordering::Relaxed) {
            return;
        }
        let pace = {
            let mut state = lock(&self.state);
            state.used = state.used.saturating_add(bytes as u64);
            if state.left() == Some(0) {
                self.spent.send_replace(true);
            }
            state.pace.clone()
        };
        if let Some(pace) = pace {
            pace.pass(bytes).await;
        }
    }
}

/// Where the payload of a flow is counted.
pub(super) struct Tally<'a> {
    pub(super) all: &'a super::Counters,
    pub(super) account: &'a Account,
    pub(super) flow: &'a Carried,
}

impl Tally<'_> {
    /// Counts bytes to the target.
    pub(super) fn up(&self, bytes: usize) {
        for counter in [&self.all.bytes_up, &self.account.counters.bytes_up] {
            counter.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        self.flow.up.add(bytes);
    }

    /// Counts bytes from the target.
    pub(super) fn down(&self, bytes: usize) {
        for counter in [&self.all.bytes_down, &self.account.counters.bytes_down] {
            counter.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        self.flow.down.add(bytes);
    }
}

impl State {
    fn left(&self) -> Option<u64> {
        let volume = self.limits.volume?.get();
        Some(volume.saturating_sub(self.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_volume_lasts_a_day() {
        let account = Account::new();
        let limits = UsageLimits {
            rate: None,
            volume: NonZeroU64::new(1000),
        };
        account.limit(limits);
        let is_spent = || async {
            let spent = tokio::time::timeout(Duration::from_millis(1), account.spent());
            spent.await.is_ok()
        };
        account.pass(600).await;
        assert_eq!((account.left(), is_spent().await), (Some(400), false));
        account.pass(600).await;
        assert_eq!((account.left(), is_spent().await), (Some(0), true));
        // More may be used at once, or on the next day.
        account.limit(UsageLimits {
            volume: NonZeroU64::new(2000),
            ..limits
        });
        assert_eq!((account.left(), is_spent().await), (Some(800), false));
        account.limit(limits);
        tokio::time::advance(DAY).await;
        assert_eq!((account.left(), is_spent().await), (Some(1000), false));
        account.limit(UsageLimits::default());
        assert_eq!(account.left(), None);
    }
}
