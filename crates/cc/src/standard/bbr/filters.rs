//! Windowed maxima.

/// The largest value of the running and of the last ProbeBW cycle (`BBR.max_bw_filter`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TwoCycles {
    last: u64,
    running: u64,
}

impl TwoCycles {
    pub(super) fn max(&self) -> u64 {
        self.last.max(self.running)
    }

    pub(super) fn add(&mut self, value: u64) {
        self.running = self.running.max(value);
    }

    /// A cycle ends. One that saw nothing is none.
    pub(super) fn advance(&mut self) {
        if self.running > 0 {
            self.last = self.running;
            self.running = 0;
        }
    }
}

/// The largest of three successive maxima over a window of round trips, after Kathleen Nichols'
/// filter (Linux, `lib/win_minmax.c`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Windowed {
    best: [Entry; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    round: u64,
    value: u64,
}

impl Windowed {
    pub(super) fn max(&self) -> u64 {
        let [best, ..] = &self.best;
        best.value
    }

    /// Adds a value of `round`; values that are `window` rounds old are forgotten.
    pub(super) fn add(&mut self, round: u64, value: u64, window: u64) {
        let new = Entry { round, value };
        let [best, second, third] = &mut self.best;
        let age = |entry: &Entry| round.saturating_sub(entry.round);
        if value >= best.value || age(third) >= window {
            self.best = [new; 3];
            return;
        }
        if value >= second.value {
            *second = new;
            *third = new;
        } else if value >= third.value {
            *third = new;
        }
        // What is too old makes way, and each part of the window has an entry of its own.
        if age(best) >= window {
            self.best = [*second, *third, new];
            let [best, second, third] = self.best;
            if age(&best) >= window {
                self.best = [second, third, new];
            }
        } else if second.round == best.round && age(second) > window / 4 {
            *second = new;
            *third = new;
        } else if third.round == second.round && age(third) > window / 2 {
            *third = new;
        }
    }
}
