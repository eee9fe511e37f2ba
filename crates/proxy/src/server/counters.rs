//! Counters of a proxy.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::outbound::Refusal;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a proxy.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: AtomicU64,)*
        }

        /// Totals since a proxy began.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub(super) fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Connections of clients.
    connections,
    /// Requests whose head arrived.
    requests,
    /// Requests that are no CONNECT of a target.
    malformed,
    /// Requests without the token of a user.
    unauthorized,
    /// Requests above a limit of flows.
    busy,
    /// Requests for targets that are not allowed.
    denied,
    /// Requests whose target's name has no address.
    unresolved,
    /// Requests whose target refused, was unreachable or did not answer.
    unreached,
    /// TCP flows.
    tcp_flows,
    /// TCP flows that a reset ended.
    tcp_resets,
    /// UDP flows.
    udp_flows,
    /// UDP flows that ended because nothing arrived.
    udp_idle,
    /// UDP flows that ended for others, because a limit was reached.
    udp_evicted,
    /// Flows that ended because their user was revoked.
    revoked,
    /// Bytes from clients to targets.
    bytes_up,
    /// Bytes from targets to clients.
    bytes_down,
    /// Datagrams from clients to targets.
    datagrams_up,
    /// Datagrams from targets to clients.
    datagrams_down,
    /// Datagrams from targets that went as a capsule.
    capsules_down,
    /// Datagrams of clients without a known context or a flow, above a queue's room, or that the
    /// socket did not take.
    datagrams_dropped,
    /// Marks of the path from clients that a datagram without ECN could not take on.
    marks_refused,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Adds `more`.
pub(super) fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn refused(&self, refusal: &Refusal) {
        count(match refusal {
            Refusal::Busy => &self.busy,
            Refusal::Denied => &self.denied,
            Refusal::Name => &self.unresolved,
            _ => &self.unreached,
        });
    }
}
