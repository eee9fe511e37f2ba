//! An XCP sender that starts with a rate which routers granted: headers state the granted window
//! from its first packet on, and feedback goes on from there.

use super::XcpSender;
use super::steering::Steering;
use crate::base::Instant;
use crate::law::Limits;
use crate::quick_start::Startable;

/// Round trips for which a grant is kept although it is not used: the peer's flow control may have
/// to grow for it first.
const KEPT_ROUNDS: u32 = 3;

impl Startable for XcpSender {
    fn may_start(&self) -> bool {
        !self.hidden.rules()
    }

    fn begin_with(&mut self, now: Instant, window: u64) -> bool {
        // What headers were granted before the answer is not part of it: routers took that off.
        let given = self.steering.bytes().saturating_sub(self.initial());
        let given = if self.explicit() { given } else { 0 };
        self.begin_again_with(now, window.saturating_add(given))
    }

    fn begin_again_with(&mut self, now: Instant, window: u64) -> bool {
        if !self.explicit() {
            // Headers of the flight state what is sent.
            self.stated = window;
            self.hidden.allow(window, self.srtt.unwrap_or_default());
            return false;
        }
        self.steering.floor(window);
        let srtt = self.srtt.unwrap_or_default();
        self.hidden.allow(window, srtt);
        let rounds = srtt.saturating_mul(KEPT_ROUNDS);
        self.steering.keep_until(now + rounds);
        true
    }

    fn verified_grant(&self) -> u64 {
        self.hidden.granted_window(self.srtt.unwrap_or_default())
    }

    fn measured_window(&self) -> Option<u64> {
        self.hidden.shown_window(self.srtt.unwrap_or_default())
    }

    fn start_with(&mut self, now: Instant, window: u64, threshold: Option<u64>) {
        self.stated = 0;
        self.hidden.allow(0, self.srtt.unwrap_or_default());
        if self.explicit() {
            self.steering.cap(window);
        } else {
            self.fallback.start_with(now, window, threshold);
        }
    }

    fn give_back(&mut self, now: Instant, window: u64) {
        if self.explicit() {
            self.steering.cap(window);
            self.steering.keep_until(now);
            self.shared_until = Some(self.last_sent);
            let srtt = self.srtt.unwrap_or_default();
            self.hidden.allow(window, srtt);
        } else {
            self.stated = self.stated.min(window);
            self.fallback.give_back(now, window);
        }
    }

    fn not_begun(&mut self) {
        self.stated = 0;
        if !self.explicit() {
            self.hidden.allow(0, self.srtt.unwrap_or_default());
        }
    }

    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64) {
        self.stated = 0;
        self.hidden.allow(0, self.srtt.unwrap_or_default());
        if self.explicit() {
            self.steering = Steering::new(now, window.max(threshold));
            self.void_until = Some(self.void_until.unwrap_or(0).max(last_sent));
        } else {
            self.fallback.give_up(now, window, threshold, last_sent);
        }
    }

    fn raise_threshold(&mut self, threshold: u64) {
        if self.explicit() {
            self.steering.floor(threshold);
        } else {
            self.fallback.raise_threshold(threshold);
        }
    }

    fn expected_loss_ppm(&self) -> u64 {
        self.hidden.expected_loss_ppm()
    }

    fn usable(&self, limits: &Limits) -> u64 {
        // What the peer and the buffer allow grows with what is granted.
        if self.params.naive {
            u64::MAX
        } else {
            limits.application
        }
    }
}
