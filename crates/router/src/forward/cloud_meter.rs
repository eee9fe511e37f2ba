//! The cloud meter, with its messages, estimates and counters.

use std::net::IpAddr;

use pathmark_cc::{CloudEstimate, Instant, Upstream};
use xcp_edge::{Measurer, Own};

use crate::ip::TokenBucket;

/// Messages verified per second, and in one burst. Verification must be limited because an
/// authenticator takes a few microseconds to check, and any host can send a wrong one.
const LOOKED_AT: u32 = 10_000;
const LOOKED_AT_ONCE: u32 = 1_000;
/// Maximum number of upstream routers that are probed.
pub(super) const MOST_NAMED: usize = 64;

/// Measures clouds, and answers other routers that measure theirs.
#[derive(Debug)]
pub struct CloudMeter {
    pub(super) own: Own,
    pub(super) port: u16,
    pub(super) measurer: Measurer,
    /// When ports get their next estimates.
    pub(super) next: Instant,
    estimates: Vec<Estimated>,
    /// Reused buffer for the list of upstream routers.
    pub(super) named: Vec<(Upstream, u64)>,
    pub(super) looks: TokenBucket,
    pub(super) counts: MessageCounts,
}

/// Counts messages by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Datagrams to the router's message port.
    pub received: u64,
    /// Datagrams that exceeded the rate limit, and were not examined.
    pub too_many: u64,
    /// Datagrams sent through a port.
    pub sent: u64,
    /// Datagrams without a route, or larger than its MTU.
    pub unsent: u64,
}

/// The last estimate of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimated {
    /// The router upstream of the cloud.
    pub upstream: IpAddr,
    /// The cloud's unused capacity.
    pub estimate: CloudEstimate,
    /// The time of the estimate.
    pub at: Instant,
}

impl CloudMeter {
    /// Creates a meter whose messages use the UDP port `port` of all routers. `own` has the
    /// addresses by which headers name this router; `measurer` must have been created with the
    /// same ones.
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

    /// Returns the measurer, whose state can be inspected.
    pub const fn measurer(&self) -> &Measurer {
        &self.measurer
    }

    /// Counts of datagrams by outcome.
    pub const fn counts(&self) -> MessageCounts {
        self.counts
    }

    /// Returns the estimates that are still valid at `now`.
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

    /// The time of the next action.
    pub(super) fn deadline(&self) -> Instant {
        let messages = self.measurer.deadline().unwrap_or(Instant::FAR_FUTURE);
        messages.min(self.next)
    }
}

/// Adds bytes that arrived from an upstream router. If the list is full, routers with the most
/// bytes stay in it, so that made-up addresses at one port cannot displace the routers behind
/// another.
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
