//! Windowed maxima.

/// The largest value of the current and the previous ProbeBW cycle (`BBR.max_bw_filter`).
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

    /// Ends a cycle, unless it had no values.
    pub(super) fn advance(&mut self) {
        if self.running > 0 {
            self.last = self.running;
            self.running = 0;
        }
    }
}

/// The maximum over a window of round trips, computed from three successive maxima as in Kathleen
/// Nichols' filter (Linux, `lib/win_minmax.c`).
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

    /// Adds a value of `round` and forgets values that are at least `window` rounds old.
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
        // Values that are too old are replaced, and each part of the window gets its own entry.
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
