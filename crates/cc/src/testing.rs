//! Short constructors of events for tests.

use crate::base::{Duration, Instant};
use crate::law::{Acked, Limit, Lost, PacketState, Sent};

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn sent(packet_number: u64, bytes: u64) -> Sent {
    Sent {
        packet_number,
        bytes,
        in_flight: bytes,
        limit: Limit::Window,
        signal: true,
    }
}

/// An acknowledgement of `bytes` up to `largest`, with `rtt` as all RTTs, limited by the window.
pub(crate) fn acked(largest: u64, bytes: u64, rtt: Duration) -> Acked {
    Acked {
        bytes,
        packets: 1,
        largest,
        sent_at: Instant::ZERO,
        state: PacketState::default(),
        rtt: Some(rtt),
        forward_delay: None,
        srtt: rtt,
        min_rtt: rtt,
        in_flight_before: bytes,
        window_limited: true,
    }
}

/// The loss of one packet when `last_sent` was the last packet sent.
pub(crate) fn lost(largest: u64, last_sent: u64, rtt: Duration) -> Lost {
    Lost {
        bytes: 1000,
        packets: 1,
        ranges: 1,
        first_state: PacketState::default(),
        largest,
        sent_at: Instant::ZERO,
        state: PacketState::default(),
        last_sent,
        srtt: rtt,
        min_rtt: rtt,
        in_flight_before: 1000,
    }
}
