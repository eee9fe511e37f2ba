//! A VCP sender that starts with a rate which routers granted: codes steer the window from there.

use super::{Halving, VcpSender};
use crate::base::Instant;
use crate::law::{Limits, LossRule};
use crate::quick_start::Startable;

impl<L: LossRule> VcpSender<L> {
    /// Codes show by now what was granted: they go on from what was made use of.
    pub(super) fn end_start(&mut self) {
        let srtt = self.rtt();
        let granted = self.hidden.granted_window(srtt);
        if granted > 0 {
            self.steering.cap(granted);
            self.hidden.allow(0, srtt);
        }
    }
}

impl<L: LossRule> Startable for VcpSender<L> {
    fn may_start(&self) -> bool {
        !self.hidden.rules()
    }

    fn begin_with(&mut self, now: Instant, window: u64) -> bool {
        if !self.explicit() {
            self.hidden.allow(window, self.rtt());
            return false;
        }
        self.steering.take_over(now, window);
        self.hidden.allow(window, self.rtt());
        self.wait_for_measure(now, 2);
        true
    }

    fn verified_grant(&self) -> u64 {
        self.hidden.granted_window(self.rtt())
    }

    fn measured_window(&self) -> Option<u64> {
        self.hidden.shown_window(self.rtt())
    }

    fn start_with(&mut self, now: Instant, window: u64, threshold: Option<u64>) {
        self.hidden.allow(0, self.rtt());
        if self.explicit() {
            self.steering.cap(window);
        } else {
            self.fallback.start_with(now, window, threshold);
        }
    }

    fn wait_for_measure(&mut self, now: Instant, rounds: u32) {
        let rounds = self.rtt().saturating_mul(rounds);
        self.held_until = Some(now + self.steering.t_rho() + rounds);
    }

    fn give_back(&mut self, now: Instant, window: u64) {
        if self.explicit() {
            self.steering.cap(window);
            self.wait_for_measure(now, 1);
        } else {
            self.hidden.allow(window, self.rtt());
            self.fallback.give_back(now, window);
        }
    }

    fn not_begun(&mut self) {
        if !self.explicit() {
            self.hidden.allow(0, self.rtt());
        }
    }

    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64) {
        self.hidden.allow(0, self.rtt());
        if self.explicit() {
            let window = window.max(threshold);
            self.steering.take_over(now, window);
            // That was the cut for what was lost until then.
            self.halving = Some(Halving {
                last_sent,
                before: window,
            });
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
        limits.application
    }
}
