//! Grants whose traffic has not come yet.

use super::params::{GRANTS, LEAST_MEMORY, MEMORY_RTTS, UNKNOWN_RTT};
use crate::{Duration, Instant};

/// What a flow was granted.
#[derive(Clone, Copy, Debug)]
struct Grant {
    flow: u32,
    rate: u64,
    until: Instant,
}

/// A bounded table of grants; each leaves at its deadline.
#[derive(Debug)]
pub(crate) struct Pending {
    grants: Vec<Grant>,
}

impl Pending {
    pub(crate) fn new() -> Self {
        Self {
            grants: Vec::with_capacity(GRANTS),
        }
    }

    /// Rates of all grants but `flow`'s own, which a new one replaces; in bytes per second.
    pub(crate) fn others(&mut self, now: Instant, flow: u32) -> u64 {
        self.grants.retain(|grant| grant.until > now);
        let others = self.grants.iter().filter(|grant| grant.flow != flow);
        others.fold(0, |sum, grant| sum.saturating_add(grant.rate))
    }

    /// True if a grant to `flow` can be remembered. Call [`others`](Self::others) before.
    pub(crate) fn has_room(&self, flow: u32) -> bool {
        self.grants.len() < GRANTS || self.grants.iter().any(|grant| grant.flow == flow)
    }

    /// Remembers a grant to `flow`, in place of an earlier one.
    pub(crate) fn put(&mut self, now: Instant, flow: u32, rate: u64, rtt: Option<Duration>) {
        let (num, den) = MEMORY_RTTS;
        let memory = rtt.unwrap_or(UNKNOWN_RTT).saturating_mul(num) / den;
        let grant = Grant {
            flow,
            rate,
            until: now + memory.max(LEAST_MEMORY),
        };
        if let Some(known) = self.grants.iter_mut().find(|grant| grant.flow == flow) {
            *known = grant;
        } else if self.grants.len() < GRANTS {
            self.grants.push(grant);
        }
    }

    /// Rates of all grants, in bytes per second.
    pub(crate) fn total(&self) -> u64 {
        let rates = self.grants.iter();
        rates.fold(0, |sum, grant| sum.saturating_add(grant.rate))
    }
}
