//! The share of marked packets per round trip, and whether marks come from a queue of L4S.

use crate::base::arith::micros;
use crate::base::{Duration, Instant};
use crate::law::Acked;

/// 1, in 2^-32.
pub(super) const ONE: u64 = 1 << 32;
/// Weight of a new round is 1 / 2^4.
const GAIN_SHIFT: u32 = 4;

/// Queueing delay that no L4S queue has while it marks, besides the time of two packets: it marks
/// everything from about 1 ms, whereas classic queues mark from 5 ms (CoDel) or 15 ms (PIE).
const CLASSIC_US: u64 = 4_000;
/// Number of marked rounds with such a queue, beyond those without one, after which marks count as
/// classic, until there are as many rounds of the other kind.
const CLASSIC_ROUNDS: u32 = 5;

/// A round trip in progress.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// It ends when a packet after this one is acknowledged, and after the virtual round trip.
    last_sent: u64,
    started: Instant,
    packets: u64,
    marked: u64,
    /// Least queueing delay in µs.
    queue_us: Option<u64>,
}

/// The average over rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    round: Round,
    /// Share of marked packets in 2^-32; `None` until it begins.
    alpha: Option<u64>,
    score: u32,
    classic: bool,
}

impl Rounds {
    /// Counts an ACK. `length` is the shortest round, and `packet_us` the time of a packet at the
    /// flow's rate.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        acked: &Acked,
        last_sent: u64,
        length: Duration,
        packet_us: u64,
    ) {
        if acked.largest > self.round.last_sent
            && now.saturating_since(self.round.started) >= length
        {
            self.end(packet_us);
            self.round = Round {
                last_sent,
                started: now,
                ..Round::default()
            };
        }
        let round = &mut self.round;
        round.packets = round.packets.saturating_add(acked.packets);
        round.marked = round.marked.saturating_add(acked.marked);
        let queue = acked.rtt.map(|rtt| rtt.saturating_sub(acked.min_rtt));
        let queue = acked.forward_delay.or(queue).map(micros);
        round.queue_us = [round.queue_us, queue].into_iter().flatten().min();
    }

    fn end(&mut self, packet_us: u64) {
        let Round {
            packets, marked, ..
        } = self.round;
        if packets == 0 {
            return;
        }
        let share = u128::from(marked.min(packets)) * u128::from(ONE) / u128::from(packets);
        let share = u64::try_from(share).unwrap_or(ONE);
        if let Some(alpha) = &mut self.alpha {
            *alpha = *alpha - (*alpha >> GAIN_SHIFT) + (share >> GAIN_SHIFT);
        }
        if let (Some(queue), true) = (self.round.queue_us, marked > 0) {
            let long = queue > CLASSIC_US.saturating_add(packet_us.saturating_mul(2));
            self.score = if long {
                (self.score + 1).min(CLASSIC_ROUNDS)
            } else {
                self.score.saturating_sub(1)
            };
            match self.score {
                CLASSIC_ROUNDS => self.classic = true,
                0 => self.classic = false,
                _ => {}
            }
        }
    }

    /// Begins to average with the next round.
    pub(super) fn begin(&mut self) {
        self.alpha = Some(0);
        self.round = Round::default();
    }

    /// The average share of marked packets, in 2^-32.
    pub(super) const fn alpha(&self) -> Option<u64> {
        self.alpha
    }

    /// Whether marks come from a queue that is too long for L4S.
    pub(super) const fn are_classic(&self) -> bool {
        self.classic
    }
}
