//! The cloud meter: its messages, estimates and counters.

use std::net::IpAddr;

use pathmark_cc::{CloudEstimate, Instant, Upstream};
use xcp_edge::{Measurer, Own};

use crate::ip::TokenBucket;

/// Messages that are verified per second, and in one burst: an authenticator takes some
/// microseconds, and any host can send a wrong one.
const LOOKED_AT: u32 = 10_000;
const LOOKED_AT_ONCE: u32 = 1_000;
/// Upstream routers that are asked about at most.
pub(super) const MOST_NAMED: usize = 64;

/// Measures clouds, and lets others measure theirs.
#[derive(Debug)]
pub struct CloudMeter {
    pub(super) own: Own,
    pub(super) port: u16,
    pub(super) measurer: Measurer,
    /// When ports get the next estimate.
    pub(super) next: Instant,
    estimates: Vec<Estimated>,
    /// Where upstream routers are gathered.
    pub(super) named: Vec<(Upstream, u64)>,
    pub(super) looks: TokenBucket,
    pub(super) counts: MessageCounts,
}

/// What became of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Datagrams for the router's message port.
    pub received: u64,
    /// Those that came too fast to be looked at.
    pub too_many: u64,
    /// Datagrams that left by a port.
    pub sent: u64,
    /// Datagrams without a route, or too long for it.
    pub unsent: u64,
}

/// The last estimate of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimated {
    /// The router before the cloud.
    pub upstream: IpAddr,
    /// What is left of it.
    pub estimate: CloudEstimate,
    /// When that was.
    pub at: Instant,
}

impl CloudMeter {
    /// A meter whose messages go between the UDP ports `port` of routers. `own` has the addresses
    /// that headers name this router by, and that `measurer` was made with.
    #[must_use]
    pub fn new(own: Own, port: u16, measurer: Measurer) -> Self {
        Self {
            own,
            port,
            measurer,
            next: Instant::ZERO,
            estimates: Vec::new(),
            named: Vec::new(),
            looks: TokenBucket::new(LOOKED_AT, LOOKED_AT_ONCE),
            counts: MessageCounts::default(),
        }
    }

    /// Its messages, to look at.
    #[must_use]
    pub const fn measurer(&self) -> &Measurer {
        &self.measurer
    }

    /// What became of datagrams.
    #[must_use]
    pub const fn counts(&self) -> MessageCounts {
        self.counts
    }

    /// Estimates that hold at `now`.
    pub fn estimates(&self, now: Instant) -> impl Iterator<Item = &Estimated> {
        let holds = move |known: &&Estimated| now < known.at + known.estimate.valid_for;
        self.estimates.iter().filter(holds)
    }

    pub(super) fn note(&mut self, now: Instant, upstream: IpAddr, estimate: CloudEstimate) {
        let known = Estimated {
            upstream,
            estimate,
            at: now,
        };
        self.estimates
            .retain(|kept| kept.upstream != upstream && now < kept.at + kept.estimate.valid_for);
        self.estimates.push(known);
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Instant {
        let messages = self.measurer.deadline().unwrap_or(Instant::FAR_FUTURE);
        messages.min(self.next)
    }
}

/// Adds what came from an upstream router. Where there are too many, those from which the most came
/// are named: made-up addresses of one port leave room for the routers before another.
pub(super) fn gather(named: &mut Vec<(Upstream, u64)>, upstream: Upstream, bytes: u64) {
    if let Some((_, sum)) = named.iter_mut().find(|(known, _)| *known == upstream) {
        *sum = sum.saturating_add(bytes);
    } else if named.len() < MOST_NAMED {
        named.push((upstream, bytes));
    } else if let Some(least) = named.iter_mut().min_by_key(|(_, sum)| *sum)
        && least.1 < bytes
    {
        *least = (upstream, bytes);
    }
}
