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

        /// Totals since a proxy started.
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
    /// Connections from clients.
    connections,
    /// Requests whose header section arrived.
    requests,
    /// Requests that aren't a valid CONNECT.
    malformed,
    /// Requests without a user's token or certificate.
    unauthorized,
    /// Requests that exceeded a limit on flows.
    busy,
    /// Requests for targets that aren't allowed.
    denied,
    /// Requests whose target's name could not be resolved.
    unresolved,
    /// Requests whose target refused, was unreachable or didn't respond.
    unreached,
    /// TCP flows.
    tcp_flows,
    /// TCP flows ended by a reset.
    tcp_resets,
    /// UDP flows.
    udp_flows,
    /// UDP flows ended by the idle timeout.
    udp_idle,
    /// UDP flows ended in favor of others because a limit was reached.
    udp_evicted,
    /// Flows ended because their user was revoked.
    revoked,
    /// Bytes from clients to targets.
    bytes_up,
    /// Bytes from targets to clients.
    bytes_down,
    /// Datagrams from clients to targets.
    datagrams_up,
    /// Datagrams from targets to clients.
    datagrams_down,
    /// Datagrams from targets that were sent as a capsule.
    capsules_down,
    /// Datagrams from clients that were dropped because of an unknown context, a missing flow, a
    /// full queue, or an error of the socket.
    datagrams_dropped,
    /// Marks of the path from clients that were lost because the datagram had no ECN.
    marks_refused,
}

pub(super) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

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
