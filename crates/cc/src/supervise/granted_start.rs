//! Starts with a rate granted by routers. If routers answer, their law continues from there, and
//! otherwise the fallback does.

use super::Supervised;
use super::law_set::LawSet;
use crate::base::Instant;
use crate::law::Limits;
use crate::quick_start::Startable;

impl<L: LawSet> Startable for Supervised<L> {
    fn may_start(&self) -> bool {
        !self.path.hidden.rules()
    }

    fn begin_with(&mut self, now: Instant, window: u64) -> bool {
        // Rates granted in earlier headers are added, because routers deducted them.
        let given = if self.explicit() {
            self.laws.law().granted_before(&self.path)
        } else {
            0
        };
        self.begin_again_with(now, window.saturating_add(given))
    }

    fn begin_again_with(&mut self, now: Instant, window: u64) -> bool {
        let srtt = self.path.rtt();
        self.path.hidden.allow(window, srtt);
        if !self.explicit() {
            self.laws.law_mut().state_flight(window);
            return false;
        }
        self.laws.law_mut().begin_granted(now, &self.path, window);
        self.laws.on_start(now, &self.path);
        true
    }

    fn verified_grant(&self) -> u64 {
        self.path.hidden.granted_window(self.path.rtt())
    }

    fn measured_window(&self) -> Option<u64> {
        self.path.hidden.shown_window(self.path.rtt())
    }

    fn start_with(&mut self, now: Instant, window: u64, threshold: Option<u64>) {
        self.laws.law_mut().state_flight(0);
        self.path.hidden.allow(0, self.path.rtt());
        if self.explicit() {
            self.laws.law_mut().cap(window);
        } else {
            self.path
                .fallback
                .law_mut()
                .start_with(now, window, threshold);
        }
    }

    fn wait_for_measure(&mut self, now: Instant, rounds: u32) {
        let law = self.laws.law_mut();
        law.wait_for_measure(now, &self.path, rounds);
    }

    fn confirm(&mut self, window: u64) {
        if self.explicit() {
            self.path.hidden.confirm(window, self.path.rtt());
            // The port has already counted the full grant, so its answers won't provide the rest.
            self.laws.law_mut().floor(window);
        }
    }

    fn give_back(&mut self, now: Instant, window: u64) {
        let rules = self.explicit();
        let law = self.laws.law_mut();
        law.give_back(now, &mut self.path, window, rules);
        if !rules {
            self.path.fallback.law_mut().give_back(now, window);
        }
    }

    fn not_begun(&mut self) {
        self.laws.law_mut().state_flight(0);
        if !self.explicit() {
            self.path.hidden.allow(0, self.path.rtt());
        }
    }

    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64) {
        self.laws.law_mut().state_flight(0);
        self.path.hidden.allow(0, self.path.rtt());
        if self.explicit() {
            let window = window.max(threshold);
            self.laws.law_mut().give_up(now, window, last_sent);
        } else {
            let fallback = self.path.fallback.law_mut();
            fallback.give_up(now, window, threshold, last_sent);
        }
    }

    fn expected_loss_ppm(&self) -> u64 {
        self.path.hidden.expected_loss_ppm()
    }

    fn usable(&self, limits: &Limits) -> u64 {
        self.laws.law().usable(limits)
    }

    fn raise_threshold(&mut self, threshold: u64) {
        if self.explicit() {
            self.laws.law_mut().floor(threshold);
        } else {
            self.path.fallback.law_mut().raise_threshold(threshold);
        }
    }
}
