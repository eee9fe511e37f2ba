//! Is there something on the path that eats datagrams with a shim?

use crate::{Duration, Instant};

/// Shim lost and plain acknowledged, this often without a shim getting through: the path is plain …
const PAIRS: u32 = 3;
/// … unless packets are lost at random so often that as many shims in a row would be lost with
/// this chance or a greater one, 10^-9: where every n-th packet has a shim, a thousand per second
/// come and most plain ones between two of them pass.
const CHANCE: u64 = 1_000_000_000;
/// More pairs are not waited for.
const MOST_PAIRS: u32 = 64;
/// Packets over which random loss is known; older ones count half.
const REMEMBERED: u32 = 4096;
/// … unless so large a share of the plain ones was lost meanwhile that chance explains the shims.
const LOST_BY_CHANCE: u32 = 4;
/// Packets with a shim that may be lost until a trial has failed.
const TRIALS: u32 = 3;
/// First wait until a plain path is tried again; doubled by every failure.
const FIRST_RETRY: Duration = Duration::from_secs(30);
const LONGEST_RETRY: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug)]
enum State {
    /// Shims are sent. Counts run since the last one that got through, and since the last pair.
    Shims {
        lost: u32,
        plain_acked: u32,
        pairs: u32,
        /// Plain ones since the last shim that got through.
        plain_passed: u32,
        plain_lost: u32,
    },
    /// None are.
    Plain { retry_at: Instant },
    /// One at a time is sent, to see.
    Trial { outstanding: bool, lost: u32 },
}

/// How many recent packets got through, and how many did not, whatever they carried. Shims lost
/// since the last one that got through are not among them.
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

    /// Pairs that chance does not explain.
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

/// Decides for each packet whether a shim goes in front.
#[derive(Clone, Debug)]
pub struct PlainPath {
    state: State,
    usual: Usual,
    /// Shims lost since the last one that got through.
    lost_shims: u32,
    retry: Duration,
    /// Largest number among acknowledged packets with a shim: losses from before it do not count.
    largest_acked: Option<u64>,
    /// First packet with a shim: plain ones from before it (the handshake's) prove nothing.
    first_shim: Option<u64>,
    /// Packets from before this are of another state.
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

    /// A new path, thought to let shims pass.
    #[must_use]
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

    /// Whether the next ack-eliciting packet bears a shim. `probe` is the index of a PTO probe
    /// among those of its timeout: every second goes plain.
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

    /// True while single packets with a shim try whether they get through by now.
    #[must_use]
    pub const fn is_tried(&self) -> bool {
        matches!(self.state, State::Trial { .. })
    }

    /// True if shims are thought to get through.
    #[must_use]
    pub const fn passes_shims(&self) -> bool {
        matches!(self.state, State::Shims { .. })
    }

    /// Ack-eliciting packet `number` left, with a shim or without.
    #[inline]
    pub const fn on_sent(&mut self, number: u64, shim: bool) {
        self.next = number + 1;
        if shim && self.first_shim.is_none() {
            self.first_shim = Some(number);
        }
        if shim && let State::Trial { outstanding, .. } = &mut self.state {
            *outstanding = true;
        }
    }

    /// The fate of the packet that is out for a trial, if one is, will not be reported.
    pub const fn forget_trial(&mut self) {
        if let State::Trial { outstanding, .. } = &mut self.state {
            *outstanding = false;
        }
    }

    /// Ack-eliciting packet `number` was acknowledged.
    #[inline]
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

    /// Ack-eliciting packet `number` was lost. Call after [`on_acked`](Self::on_acked) for the same
    /// ACK frame. True if this makes the path plain.
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

    /// An ACK frame has been dealt with. True if the path turned plain.
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
