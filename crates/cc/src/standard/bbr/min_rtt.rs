//! The path's minimum RTT and when it is measured again (draft-ietf-ccwg-bbr, "ProbeRTT Logic").

use super::params::{MIN_RTT_FILTER, PROBE_RTT_INTERVAL};
use crate::base::{Duration, Instant};

/// `BBR.min_rtt` over ten seconds, computed from minima over five seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    least: Option<(Duration, Instant)>,
    /// `BBR.probe_rtt_min_delay` and its timestamp.
    recent: Option<Duration>,
    recent_at: Instant,
    expired: bool,
}

impl MinRtt {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            least: None,
            recent: None,
            recent_at: now,
            expired: false,
        }
    }

    /// `BBR.min_rtt`, if it is known.
    pub(super) fn get(&self) -> Option<Duration> {
        self.least.map(|(rtt, _)| rtt)
    }

    /// True if no RTT as short was seen for five seconds, so that ProbeRTT is due.
    pub(super) const fn expired(&self) -> bool {
        self.expired
    }

    /// Starts with the handshake's RTT if no packet has been measured.
    pub(super) fn start(&mut self, now: Instant, rtt: Duration) {
        self.least.get_or_insert((rtt, now));
    }

    pub(super) fn on_ack(&mut self, now: Instant, rtt: Option<Duration>) {
        self.expired = now > self.recent_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt
            && (self.expired || self.recent.is_none_or(|recent| rtt < recent))
        {
            self.recent = Some(rtt);
            self.recent_at = now;
        }
        let Some(recent) = self.recent else { return };
        let replace = self
            .least
            .is_none_or(|(least, at)| recent < least || now > at + MIN_RTT_FILTER);
        if replace {
            self.least = Some((recent, self.recent_at));
        }
    }

    /// Records the end of a probe: the next probe is due five seconds after `now`.
    pub(super) const fn schedule(&mut self, now: Instant) {
        self.recent_at = now;
    }
}
