//! How a sender computes the contents of the next header.

use super::XcpLaw;
use crate::base::Duration;
use crate::base::arith::{micros, mul_div, rate};
use crate::law::{Acked, Limits};
use crate::signals::{XcpFeedback, XcpRequest};
use crate::supervise::{ExplicitLaw, Path};
use crate::xcp::params::{MOST_DESIRED, to_q16, x_of};

/// The state and the wish of a sender, from which the next header is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) srtt: Duration,
    /// The minimum of the congestion window and every other limit, in bytes.
    pub(crate) window: u64,
    /// The rate that the sender could use, in bytes per second. A sender that does not use its
    /// current rate must not wish for more.
    pub(crate) desired: u64,
    /// Bytes of a full packet.
    pub(crate) mtu: u64,
    /// Bytes of all packets that the header stands for.
    pub(crate) bytes: u64,
    pub(crate) covers: u16,
}

impl Wish {
    pub(crate) fn request(&self) -> XcpRequest {
        let window = self.window.max(1);
        let rtt_us = micros(self.srtt).max(1);
        let have = mul_div(to_q16(window), 1_000_000, rtt_us);
        let want = to_q16(self.desired).saturating_sub(have);
        // Spreads the request over the packets of one round trip.
        let delta = mul_div(want, self.bytes, window);
        XcpRequest {
            rtt_us: u32::try_from(rtt_us).unwrap_or(u32::MAX),
            x: mul_div(x_of(self.srtt), self.bytes, window),
            delta: i64::try_from(delta).unwrap_or(i64::MAX),
            covers: self.covers,
            window,
            packet: u16::try_from(self.mtu).unwrap_or(u16::MAX),
        }
    }
}

// Tracks the sum of requests, so that feedback above this sum is rejected.
//
// Each sent packet stores the sum of all requests so far, so that an acknowledgement gives the sum
// of the requests that it covers. Positive feedback beyond this sum cannot be from a router,
// because routers only lower requests.

/// Sums of requests, in 2^-16 bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// Requests of all packets sent, modulo 2^64. The requests in flight add up to less than half
    /// of the modulus.
    sent: u64,
    /// Requests of all packets up to the largest acknowledged packet.
    acked: u64,
    /// Requests that can still be granted: of the newest acknowledgement (`open`), and of the
    /// previous acknowledgement (`before`), because feedback can arrive late.
    open: u64,
    before: u64,
}

/// Upper bound of valid differences, so that a wrapped difference does not count as a large
/// request.
const HALF: u64 = 1 << 63;

impl Asked {
    pub(crate) const fn on_sent(&mut self, delta: i64) {
        if delta > 0 {
            self.sent = self.sent.wrapping_add(delta.unsigned_abs());
        }
    }

    /// The state to store with the packet.
    pub(crate) const fn state(&self) -> u64 {
        self.sent
    }

    /// Records an acknowledgement whose largest packet stored `state`.
    pub(crate) const fn on_ack(&mut self, state: u64) {
        let news = state.wrapping_sub(self.acked);
        if news < HALF {
            self.before = self.open;
            self.open = news;
            self.acked = state;
        }
    }

    /// The part of `delta` that was requested. Negative feedback is returned unchanged.
    pub(crate) fn grant(&mut self, delta: i64) -> i64 {
        let Ok(positive) = u64::try_from(delta) else {
            return delta;
        };
        let from_before = positive.min(self.before);
        let from_open = (positive - from_before).min(self.open);
        self.before -= from_before;
        self.open -= from_open;
        i64::try_from(from_before + from_open).unwrap_or(i64::MAX)
    }
}

// Requests to routers, and the part of their answers that counts.

/// A limit is near if it exceeds the window by at most this part of the window.
const NEAR: u64 = 8;

impl XcpLaw {
    /// The part of the feedback that counts as granted.
    pub(super) fn granted(&mut self, feedback: &XcpFeedback, acked: &Acked) -> i64 {
        if acked.packets > 0 {
            self.asked.on_ack(acked.state.explicit);
        }
        let delta = self.asked.grant(feedback.delta);
        if let Some(until) = self.shared_until {
            if acked.packets == 0 || acked.largest <= until {
                return 0;
            }
            self.shared_until = None;
        }
        if let Some(until) = self.void_until {
            if acked.packets == 0 || acked.largest <= until {
                return delta.min(0);
            }
            self.void_until = None;
        }
        delta
    }

    /// The largest window that the sender could use. The amount of application data is certain. The
    /// peer's flow control and the send buffer, however, usually grow with the grants, so they
    /// count only once the window comes near them.
    fn useful_window(&self, own: u64) -> u64 {
        let Limits {
            peer,
            buffer,
            application,
        } = *self.room.limits();
        let room = peer.min(buffer);
        let near = room <= own.saturating_add(own / NEAR);
        if near {
            room.min(application)
        } else {
            application
        }
    }

    /// True while the sender could not use more: during a trial, while CUBIC rules, while losses
    /// hold the window, or if a hop without feedback is visible and the grant exceeds the bytes
    /// that may be sent before some have arrived. Otherwise, routers that do not see a grant being
    /// used would give it again and again.
    fn asks_nothing(&self, path: &Path) -> bool {
        let own = self.steering.bytes();
        let ahead = path.hidden.is_shown() && own > path.hidden.cap();
        let held = self.rules(path) && (ahead || path.hidden.holds(own));
        held || path.hidden.asks_nothing()
    }

    /// The header of the next packet, which also stands for the packets without a header since the
    /// last.
    pub(super) fn next_header(&self, path: &Path) -> XcpRequest {
        let packets = self.headed_packets.saturating_add(1);
        let Some(srtt) = path.srtt else {
            return XcpRequest {
                covers: packets,
                window: self.own_window(path).max(self.stated),
                packet: u16::try_from(path.mtu).unwrap_or(u16::MAX),
                ..XcpRequest::default()
            };
        };
        let own = self.own_window(path).max(self.stated);
        let useful = self.useful_window(own);
        let (window, desired) = if self.params.naive {
            (own, MOST_DESIRED)
        } else if self.at_an_end || useful <= own || self.asks_nothing(path) {
            (own.min(self.room.limits().least().max(path.mtu)), 0)
        } else {
            let useful = rate(useful.min(1 << 57), srtt, 1, 1);
            (own, useful.min(MOST_DESIRED))
        };
        let wish = Wish {
            srtt,
            window,
            desired,
            mtu: path.mtu,
            bytes: match self.headed_bytes {
                0 => path.mtu,
                bytes => bytes,
            },
            covers: packets,
        };
        wish.request()
    }
}

// How much room flow control, send buffer and application leave for the window during a round
// trip.

/// How far the window may exceed the room (as a part of the room), so that the room and not the
/// window is the limit.
const SLACK: u64 = 16;
/// Room that grew by more than this part of itself in a round trip is still growing.
const GROWS: u64 = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    limits: Limits,
    /// The largest room in the current round trip (`most`) and in the previous one (`before`).
    most: u64,
    before: u64,
}

impl Room {
    pub(crate) const fn new() -> Self {
        Self {
            limits: Limits::NONE,
            most: 0,
            before: 0,
        }
    }

    pub(crate) fn set(&mut self, limits: &Limits) {
        self.limits = *limits;
        self.most = self.most.max(limits.least());
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The largest window that is currently useful.
    pub(crate) fn largest(&self) -> u64 {
        let least = self.limits.least();
        least.saturating_add(least / SLACK)
    }

    /// Ends a round trip. Returns `Some` with a bound for the window if the room is not growing.
    pub(crate) fn turn(&mut self) -> Option<u64> {
        let least = self.limits.least();
        let most = core::mem::replace(&mut self.most, least);
        let before = core::mem::replace(&mut self.before, most);
        let stands = most > 0 && most <= before.saturating_add(before / GROWS);
        stands.then(|| most.saturating_add(most / SLACK))
    }
}

#[cfg(test)]
mod room_tests {
    use super::*;

    fn peer(bytes: u64) -> Limits {
        Limits {
            peer: bytes,
            ..Limits::NONE
        }
    }

    #[test]
    fn room_that_grows_is_no_bound_and_room_that_stands_is() {
        let mut room = Room::new();
        assert_eq!(room.largest(), u64::MAX);
        room.set(&peer(64_000));
        assert_eq!(room.largest(), 68_000);
        assert_eq!(room.turn(), None, "seen for the first time");
        room.set(&peer(64_000));
        assert_eq!(room.turn(), Some(68_000));
        room.set(&peer(640_000));
        assert_eq!(room.turn(), None);
        room.set(&peer(640_000));
        room.set(&peer(320_000));
        assert_eq!(room.turn(), Some(680_000));
    }
}
