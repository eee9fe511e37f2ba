//! Short constructors of events and packets for tests.

use crate::base::{Duration, Instant};
use crate::law::{Acked, Limit, LinkController, Lost, PacketState, Sent};
use crate::signals::{
    Answer, Arrival, Carried, QuickStartCarried, QuickStartFeedback, QuickStartRequest,
    VcpFeedback, XcpCarried, XcpFeedback,
};

pub(crate) fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The next number of SplitMix64.
pub(crate) fn drawn(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
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
        marked: 0,
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

pub(crate) const fn arrival(bytes: u32, flow_hash: u32, carried: Carried) -> Arrival {
    Arrival {
        bytes,
        flow_hash,
        carried,
    }
}

/// An XCP header on each packet of a flow without clouds.
pub(crate) const fn header(rtt_us: u32, x: u64, delta: i64) -> XcpCarried {
    XcpCarried {
        rtt_us,
        x,
        delta,
        covers: 1,
        cloud: None,
    }
}

/// A packet that a port's law doesn't know.
pub(crate) fn foreign(bytes: u32) -> Arrival {
    arrival(bytes, 1, Carried::Foreign)
}

/// Feedback about packets of `mtu` bytes by their codes. LOW is without a smaller r.
pub(crate) fn codes(packets: [u64; 4], mtu: u64) -> VcpFeedback {
    VcpFeedback {
        packets,
        bytes: packets.map(|packets| packets * mtu),
        sum_r: packets[1] << 16,
        ..VcpFeedback::default()
    }
}

/// Feedback about one packet whose header routers stamped.
pub(crate) fn stamped(delta: i64) -> XcpFeedback {
    XcpFeedback {
        delta,
        packets: 1,
        stamped: 1,
        bytes: 1500,
        ..XcpFeedback::default()
    }
}

/// A Quick-Start request of a flow that states a round trip of `rtt` milliseconds.
pub(crate) fn asking(flow: u32, rate: u64, rtt: u64) -> Arrival {
    let asked = QuickStartCarried {
        rate,
        rtt: Some(ms(rtt)),
        source: flow,
        keeps: false,
    };
    arrival(1500, flow, Carried::QuickStart(asked))
}

/// Passes a Quick-Start request through a port. Returns the approved rate, or `None` if the port
/// leaves the request unchanged.
pub(crate) fn approved(
    port: &mut (impl LinkController + ?Sized),
    millis: u64,
    request: &Arrival,
) -> Option<u64> {
    port.on_arrival(at(millis), request, 0);
    match port.on_departure(at(millis), request, 0) {
        Answer::QuickStart(answer) => Some(answer.approved),
        Answer::None => None,
        other => panic!("{other:?}"),
    }
}

/// The receiver's report of an answer that approves `rate`.
pub(crate) fn approval(request: &QuickStartRequest, rate: u64) -> QuickStartFeedback {
    QuickStartFeedback {
        packets: 1,
        bytes: 1472,
        rate,
        ttl_difference: Some(request.ttl_difference),
        answered: true,
        nonce: request.nonce,
        nonce_bits: 48,
    }
}
