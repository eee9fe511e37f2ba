//! From one law to another on a path whose routers change.

use super::super::params::XcpParams;
use super::super::steering::Steering;
use super::{XcpSender, step};
use crate::Instant;
use crate::auto::Handover;

impl XcpSender {
    /// What another law goes on with. `None` while a hop that stamps nothing is the narrow one.
    pub(crate) fn leave(&self) -> Option<Handover> {
        let rules = self.end_to_end.is_some() || self.hidden.rules();
        (!rules).then(|| Handover {
            mtu: self.mtu,
            window: self.own_window(),
            cubic: self.fallback.clone(),
            ruler: self.ruler.clone(),
            hidden: self.hidden.clone(),
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
        law.ruler = left.ruler;
        law.hidden = left.hidden;
        law.hidden.set_step(step(&law.params));
        law.srtt = left.srtt;
        law.recent = left.recent;
        law.last_sent = left.last_sent;
        law.void_until = Some(left.last_sent);
        law
    }
}
