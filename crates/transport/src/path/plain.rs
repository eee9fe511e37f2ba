//! Detects whether something on the path drops datagrams that have a shim.

use crate::{Duration, Instant};

/// Number of pairs (a lost shim and an acknowledged plain packet), without any shim getting
/// through, after which the path counts as plain.
const PAIRS: u32 = 3;
/// More pairs are required if packets are often lost at random: as many consecutive shims must be
/// lost by chance with a probability below 10^-9. This is so low because a sender of a thousand
/// shims per second, with many plain packets between two shims, has many chances.
const CHANCE: u64 = 1_000_000_000;
/// Upper bound on the required pairs.
const MOST_PAIRS: u32 = 64;
/// Number of packets over which random loss is estimated. Older packets count half.
const REMEMBERED: u32 = 4096;
/// The path isn't plain if the plain packets lost in the meantime, times this, exceed those that
/// got through, because chance then explains the lost shims.
const LOST_BY_CHANCE: u32 = 4;
/// Number of lost packets with a shim after which a trial has failed.
const TRIALS: u32 = 3;
/// Time until a plain path is first tried again. Each failure doubles it.
const FIRST_RETRY: Duration = Duration::from_secs(30);
const LONGEST_RETRY: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug)]
enum State {
    /// Shims are sent. The counts start at the last shim that got through and at the last pair.
    Shims {
        lost: u32,
        plain_acked: u32,
        pairs: u32,
        /// Plain packets since the last shim that got through.
        plain_passed: u32,
        plain_lost: u32,
    },
    /// No shims are sent.
    Plain { retry_at: Instant },
    /// One shim at a time is sent, as a test.
    Trial { outstanding: bool, lost: u32 },
}

/// Number of recent packets that got through and of those that were lost, with or without a shim.
/// Shims lost since the last one that got through aren't included.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    passed: u32,
    lost: u32,
}

impl Usual {
    const fn add(&mut self, passed: u32, lost: u32) {
        self.passed += passed;
        self.lost = self.lost.saturating_add(lost);
        if self.passed >= REMEMBERED {
            self.passed /= 2;
            self.lost /= 2;
        }
    }

    /// Returns the number of pairs that chance doesn't explain.
    fn pairs(self) -> u32 {
        let (lost, all) = (
            u64::from(self.lost),
            u64::from(self.lost) + u64::from(self.passed),
        );
        let mut chance = CHANCE;
        let mut pairs = 0;
        while chance > 0 && pairs < MOST_PAIRS {
            chance = chance * lost / all.max(1);
            pairs += 1;
        }
        pairs.max(PAIRS)
    }
}

/// Decides for each packet whether it gets a shim.
#[derive(Clone, Debug)]
pub struct PlainPath {
    state: State,
    usual: Usual,
    /// Shims lost since the last one that got through.
    lost_shims: u32,
    retry: Duration,
    /// Largest number among acknowledged packets with a shim. Losses of earlier packets don't
    /// count.
    largest_acked: Option<u64>,
    /// First packet with a shim. Earlier plain packets, such as those of the handshake, prove
    /// nothing.
    first_shim: Option<u64>,
    /// Packets before this number belong to another state.
    since: u64,
    next: u64,
}

impl Default for PlainPath {
    fn default() -> Self {
        Self::new()
    }
}

impl PlainPath {
    const HOPEFUL: State = State::Shims {
        lost: 0,
        plain_acked: 0,
        pairs: 0,
        plain_passed: 0,
        plain_lost: 0,
    };

    /// Creates the state of a new path, which is assumed to let shims pass.
    pub const fn new() -> Self {
        Self {
            state: Self::HOPEFUL,
            usual: Usual { passed: 0, lost: 0 },
            lost_shims: 0,
            retry: FIRST_RETRY,
            largest_acked: None,
            first_shim: None,
            since: 0,
            next: 0,
        }
    }

    /// Returns whether the next ack-eliciting packet should have a shim. `probe` is the index of a
    /// PTO probe among those of its timeout; every second probe is sent without a shim.
    pub fn wants_shim(&mut self, now: Instant, probe: Option<u8>) -> bool {
        if let State::Plain { retry_at } = self.state
            && now >= retry_at
        {
            self.state = State::Trial {
                outstanding: false,
                lost: 0,
            };
            self.since = self.next;
        }
        match self.state {
            State::Shims { .. } => probe.is_none_or(|index| index % 2 == 0),
            State::Plain { .. } => false,
            State::Trial { outstanding, .. } => !outstanding,
        }
    }

    /// Returns true while single packets with a shim test whether they now get through.
    pub const fn is_tried(&self) -> bool {
        matches!(self.state, State::Trial { .. })
    }

    /// Returns true if shims are assumed to get through.
    pub const fn passes_shims(&self) -> bool {
        matches!(self.state, State::Shims { .. })
    }

    /// Records that the ack-eliciting packet `number` was sent, with or without a shim.
    pub const fn on_sent(&mut self, number: u64, shim: bool) {
        self.next = number + 1;
        if shim && self.first_shim.is_none() {
            self.first_shim = Some(number);
        }
        if shim && let State::Trial { outstanding, .. } = &mut self.state {
            *outstanding = true;
        }
    }

    /// Forgets the outstanding packet of a trial, if any, because its fate won't be reported.
    pub const fn forget_trial(&mut self) {
        if let State::Trial { outstanding, .. } = &mut self.state {
            *outstanding = false;
        }
    }

    /// Processes the acknowledgement of the ack-eliciting packet `number`.
    pub fn on_acked(&mut self, number: u64, shim: bool) {
        if number < self.since {
            return;
        }
        if shim {
            let lost = core::mem::take(&mut self.lost_shims);
            self.usual.add(1, lost);
            self.largest_acked = self.largest_acked.max(Some(number));
            self.retry = FIRST_RETRY;
            self.state = Self::HOPEFUL;
        } else if let State::Shims {
            plain_acked,
            plain_passed,
            ..
        } = &mut self.state
            && self.first_shim.is_some_and(|first| number > first)
        {
            *plain_acked = plain_acked.saturating_add(1);
            *plain_passed = plain_passed.saturating_add(1);
            self.usual.add(1, 0);
        }
    }

    /// Processes the loss of the ack-eliciting packet `number`. Call this after
    /// [`on_acked`](Self::on_acked) for the same ACK frame. Returns true if the path is now plain.
    pub fn on_lost(&mut self, now: Instant, number: u64, shim: bool) -> bool {
        if number < self.since {
            return false;
        }
        if self.largest_acked.is_some_and(|l| number < l) {
            self.usual.add(0, 1);
            return false;
        }
        if shim {
            self.lost_shims = self.lost_shims.saturating_add(1);
        }
        match &mut self.state {
            State::Shims { plain_lost, .. } if !shim => {
                if self.first_shim.is_some_and(|first| number > first) {
                    *plain_lost = plain_lost.saturating_add(1);
                    self.usual.add(0, 1);
                }
                false
            }
            _ if !shim => false,
            State::Shims { lost, .. } => {
                *lost += 1;
                false
            }
            State::Plain { .. } => false,
            State::Trial { outstanding, lost } => {
                *outstanding = false;
                *lost += 1;
                if *lost < TRIALS {
                    return false;
                }
                self.retry = (self.retry * 2).min(LONGEST_RETRY);
                self.state = State::Plain {
                    retry_at: now + self.retry,
                };
                true
            }
        }
    }

    /// Decides after an ACK frame was processed. Returns true if the path became plain.
    pub fn settle(&mut self, now: Instant) -> bool {
        let State::Shims {
            lost,
            plain_acked,
            pairs,
            plain_passed,
            plain_lost,
        } = &mut self.state
        else {
            return false;
        };
        let new = (*lost).min(*plain_acked);
        if new == 0 {
            return false;
        }
        *pairs = pairs.saturating_add(new);
        *lost = 0;
        *plain_acked = 0;
        if *pairs < self.usual.pairs() || plain_lost.saturating_mul(LOST_BY_CHANCE) > *plain_passed
        {
            return false;
        }
        self.since = self.next;
        self.state = State::Plain {
            retry_at: now + self.retry,
        };
        true
    }
}
