//! A flow's record, and the time for which it is set aside.

use pathmark_cc::RateChange;

/// A flow with one strike is set aside after half of the time, with more strikes after a
/// quarter.
const LEAST_PART: u8 = 2;
/// Number of epochs for which a flow is first set aside, and the maximum number of doublings:
/// from 2 to 64 s.
const FIRST_ASIDE: u16 = 10;
pub(super) const MOST_STRIKES: u8 = 5;
/// This part of a flow's unmet reductions is forgiven per epoch, so that small differences, for
/// example because of lost answers, do not add up.
const FADES: u32 = 256;
/// Flows that obey were told to give up as much as their rate while a round trip passed.
const DEFIANT: u32 = 2;
/// A flow with at most this number of packets per round trip is not judged by its answers. Senders
/// use windows of whole packets, at least two, so they can't follow small changes there.
const LEAST_PACKETS: u128 = 4;
/// A flow that is set aside returns if its points are below this value.
pub(super) const PERSISTS: u8 = 6;

/// A flow's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Points for epochs above its share: two or more up, one down.
    pub(super) over: u8,
    /// Number of times that it was set aside, minus forgiven ones.
    pub(super) strikes: u8,
    /// Remaining epochs for which it is set aside.
    pub(super) aside: u16,
    /// The sum of this epoch's answers, in bytes per second.
    told: i32,
    /// Bytes in the previous epoch.
    last: u32,
    /// Bytes of the last packet with an answer, and the round trip that it stated, in µs.
    packet: u32,
    rtt_us: u32,
    /// By how much the flow should have slowed down but did not, in bytes per epoch.
    unmet: u32,
}

impl Record {
    #[inline]
    pub(super) fn on_answer(&mut self, packet: u32, change: RateChange) {
        let delta = (change.delta >> 16).clamp(i32::MIN.into(), i32::MAX.into());
        self.told = self.told.saturating_add(delta as i32);
        (self.packet, self.rtt_us) = (packet, change.rtt_us);
    }

    /// Compares an epoch's answers with the change of the flow's bytes per epoch. Returns true if
    /// the flow defies them. Rises are no concern, because requests at the start allow them, too.
    pub(super) fn compare(&mut self, bytes: u32, nanos: u64) -> bool {
        let told = i128::from(core::mem::take(&mut self.told)) * i128::from(nanos) / 1_000_000_000;
        let fell = core::mem::replace(&mut self.last, bytes).saturating_sub(bytes);
        let in_round_trip = u128::from(bytes) * u128::from(self.rtt_us) * 1_000;
        let least = u128::from(self.packet) * LEAST_PACKETS * u128::from(nanos);
        if self.rtt_us > 0 && in_round_trip <= least {
            self.unmet = 0;
            return false;
        }
        let unmet = i128::from(self.unmet - self.unmet / FADES) - told - i128::from(fell);
        self.unmet = unmet.clamp(0, u32::MAX.into()) as u32;
        self.defies(bytes)
    }

    /// Returns true if answers told the flow to give up `DEFIANT` times its rate, `bytes` per
    /// epoch, in vain.
    pub(super) const fn defies(&self, bytes: u32) -> bool {
        self.unmet / DEFIANT > bytes
    }

    /// Ends an epoch, with `over` points if it was above the share and 0 otherwise. Returns true
    /// if the flow reaches `limit` and is now set aside.
    pub(super) fn turn(&mut self, over: u8, limit: u8) -> bool {
        self.over = match over {
            0 => self.over.saturating_sub(1),
            _ => self.over.saturating_add(over),
        };
        if self.aside == 0 {
            let limit = limit >> self.strikes.min(LEAST_PART);
            let set_aside = self.over >= limit.max(PERSISTS);
            if set_aside {
                self.set_aside();
            }
            return set_aside;
        }
        self.aside -= 1;
        if self.aside == 0 && self.over >= PERSISTS {
            self.set_aside();
        } else if self.aside == 0 {
            self.over = 0;
        }
        false
    }

    pub(super) const fn set_aside(&mut self) {
        self.over = 0;
        self.aside = FIRST_ASIDE << self.strikes;
        if self.strikes < MOST_STRIKES {
            self.strikes += 1;
        }
    }

    pub(super) fn forgive(&mut self) {
        if self.aside == 0 && self.over == 0 {
            self.strikes = self.strikes.saturating_sub(1);
        }
    }

    pub(super) const fn is_clean(&self) -> bool {
        self.over == 0 && self.strikes == 0 && self.aside == 0
    }
}
