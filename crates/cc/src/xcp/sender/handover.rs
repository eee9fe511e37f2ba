//! From one law to another on a path whose routers change.

use super::steering::Steering;
use super::{XcpSender, step};
use crate::base::Instant;
use crate::law::Controller;
use crate::supervise::Handover;
use crate::xcp::params::XcpParams;

impl XcpSender {
    /// What another law goes on with. `None` while a hop that stamps nothing is the narrow one, but
    /// not where TTLs alone show such a hop: that is reason for XCP to leave the window with CUBIC,
    /// since it may grow many times at once, and no reason not to follow the ports' own law.
    pub(crate) fn leave(&self, now: Instant) -> Option<Handover> {
        let doubts = self.hidden.rules();
        if self.end_to_end.is_some() && !doubts {
            return None;
        }
        let hidden = self.hidden.without_doubt(now)?;
        Some(Handover {
            mtu: self.mtu,
            window: if doubts {
                self.fallback.window()
            } else {
                self.own_window()
            },
            cubic: self.fallback.clone(),
            mode: self.mode.clone(),
            hidden,
            srtt: self.srtt,
            recent: self.recent,
            last_sent: self.last_sent,
        })
    }

    /// Goes on where another law has left off; packets up to `last_sent` had no header.
    pub(crate) fn enter(now: Instant, params: XcpParams, left: Handover) -> Self {
        let mtu = u16::try_from(left.mtu).unwrap_or(u16::MAX);
        let mut law = Self::new(now, mtu, params);
        law.steering = Steering::new(now, left.window);
        law.fallback = left.cubic;
        law.mode = left.mode;
        law.hidden = left.hidden;
        law.hidden.set_step(step(&law.params));
        law.srtt = left.srtt;
        law.recent = left.recent;
        law.last_sent = left.last_sent;
        law.void_until = Some(left.last_sent);
        law
    }
}
