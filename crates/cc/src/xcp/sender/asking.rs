//! Requests to routers, and the part of their answers that counts.

use super::XcpLaw;
use super::request::Wish;
use crate::base::arith::rate;
use crate::law::{Acked, Limits};
use crate::signals::{XcpFeedback, XcpRequest};
use crate::supervise::{ExplicitLaw, Path};
use crate::xcp::params::MOST_DESIRED;

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
