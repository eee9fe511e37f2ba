//! HyStart++ (RFC 9406): slow start that ends when the RTT rises, before the queue overflows.
//!
//! A rise of the round's minimum RTT leads to *conservative slow start*, which grows at a quarter
//! of the speed for five rounds. If the RTT falls again during this time, the rise was jitter, and
//! slow start resumes. Otherwise congestion avoidance begins.
//!
//! The RFC assumes an acknowledgement for every other packet, and rounds whose first packets
//! already meet the queue. This implementation therefore also handles three other cases:
//!
//! - *Few acknowledgements.* This transport requests 16 acknowledgements per window, or 8 per round
//!   trip. Four samples that stand for 16 packets count like the RFC's eight samples, which stand
//!   for 16 packets.
//! - *A rise within a round.* The round's minimum RTT is that of its first packets, so a queue that
//!   grows behind them is noticed only a round later, when the window has doubled again. Therefore
//!   each group of samples is compared with the longest RTT of the previous round. Exceeding it by
//!   the threshold is a rise. Exceeding it by a quarter of the minimum RTT, or two thresholds,
//!   indicates a queue with certainty and immediately ends slow start. Jitter lengthens the longest
//!   RTT of the previous round as well.
//! - *A rise without a queue of this sender.* If the RTT stays long, but half as much again is
//!   delivered per time as at the beginning of conservative slow start, the path is not full.

use crate::base::arith::{mul_div, rate};
use crate::base::{Duration, Instant};
use crate::law::Acked;
use crate::standard::loss_based::{Growth, StartRule};

/// RFC 9406 §4.3: the smallest and the largest rise that counts, and between them the share of the
/// last round's minimum RTT.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
/// RFC 9406 §4.3: a round with fewer samples is not judged.
const N_RTT_SAMPLE: u32 = 8;
/// RFC 9406 §4.3: slowness and length of conservative slow start.
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// Number of packets that `N_RTT_SAMPLE` samples stand for if every other packet is acknowledged
/// (RFC 9000 §13.2.2).
const PACKETS_OF_SAMPLES: u64 = 2 * N_RTT_SAMPLE as u64;
/// Minimum number of samples in a group, however many packets they stand for.
const LEAST_SAMPLES: u32 = 4;
/// A queue is certain above this part of the minimum RTT, or this number of thresholds.
const CERTAIN_DIVISOR: u32 = 4;
const CERTAIN_THRESHOLDS: u32 = 2;

/// Growth of the delivery rate since the first whole round of conservative slow start that shows
/// that a path is not full.
const RATE_GROWTH: (u64, u64) = (3, 2);

#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// The minimum RTT of the samples that led to it.
    baseline: Duration,
    /// Number of completed rounds.
    rounds: u32,
    /// Delivery rate of its first whole round, in bytes per second.
    rate: Option<u64>,
    /// Acknowledged bytes that have not made up a whole byte of growth yet.
    carried: u64,
}

/// The range of RTTs in a round.
#[derive(Clone, Copy, Debug)]
struct Span {
    min: Duration,
    max: Duration,
}

impl Span {
    fn with(span: Option<Self>, rtt: Duration) -> Self {
        span.map_or(Self { min: rtt, max: rtt }, |span| Self {
            min: span.min.min(rtt),
            max: span.max.max(rtt),
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    since: Option<Instant>,
    bytes: u64,
}

impl Delivered {
    /// Ends the round at `now` and begins the next. Returns the rate of the round in bytes per
    /// second, if it is known.
    fn end(&mut self, now: Option<Instant>) -> Option<u64> {
        let ended = core::mem::replace(
            self,
            Self {
                since: now,
                bytes: 0,
            },
        );
        let time = now?.saturating_since(ended.since?);
        (time > Duration::ZERO).then(|| rate(ended.bytes, time, 1, 1))
    }
}

/// Successive samples of one round.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    samples: u32,
    packets: u64,
    min: Option<Duration>,
}

impl Group {
    /// Adds a sample that stands for `packets`. Returns the group's minimum RTT once it has enough
    /// samples.
    fn add(&mut self, rtt: Duration, packets: u64) -> Option<Duration> {
        self.samples = self.samples.saturating_add(1);
        self.packets = self.packets.saturating_add(packets);
        let min = self.min.map_or(rtt, |min| min.min(rtt));
        self.min = Some(min);
        let enough = self.samples >= N_RTT_SAMPLE
            || (self.samples >= LEAST_SAMPLES && self.packets >= PACKETS_OF_SAMPLES);
        if enough {
            *self = Self::default();
        }
        enough.then_some(min)
    }
}

/// HyStart++ as a start rule. Growth per acknowledgement is not limited (L = ∞), because the
/// transport paces.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyStart {
    /// The round ends when a packet after this one is acknowledged.
    round_end: Option<u64>,
    /// RTTs of the last round before conservative slow start if it has begun, otherwise of the last
    /// round.
    last: Option<Span>,
    current: Option<Span>,
    /// True if this round's samples stand for enough packets to be judged by their minimum.
    enough: bool,
    samples: Group,
    group: Group,
    delivered: Delivered,
    conservative: Option<Conservative>,
}

/// How much the minimum RTT must rise over `last_min` to count (RFC 9406 §4.2).
pub(crate) fn rtt_threshold(last_min: Duration) -> Duration {
    (last_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

impl HyStart {
    /// Follows rounds. Returns true if conservative slow start is over.
    fn follow_rounds(&mut self, acked: &Acked, last_sent: u64) -> bool {
        let ends = self.round_end.is_none_or(|end| acked.largest > end);
        let mut spent = false;
        if ends {
            let began = self.round_end.replace(last_sent).is_some();
            let rate = self.delivered.end(acked.rtt.map(|rtt| acked.sent_at + rtt));
            if began {
                spent = self.end_round(rate);
            }
        }
        self.delivered.bytes = self.delivered.bytes.saturating_add(acked.bytes);
        spent
    }

    /// Ends a round with delivery rate `rate`. Returns the same as
    /// [`follow_rounds`](Self::follow_rounds).
    fn end_round(&mut self, rate: Option<u64>) -> bool {
        let ended = self.current.take();
        self.enough = false;
        self.samples = Group::default();
        self.group = Group::default();
        if let Some(css) = &mut self.conservative {
            css.rounds += 1;
            if css.rounds == 2 {
                css.rate = rate;
            }
            let grows = css
                .rate
                .zip(rate)
                .is_some_and(|(first, rate)| rate >= mul_div(first, RATE_GROWTH.0, RATE_GROWTH.1));
            if !grows {
                return css.rounds >= CSS_ROUNDS;
            }
            // The delivery rate grows with the sending rate, so the rise of the RTT is not due to
            // our queue.
            self.conservative = None;
        }
        self.last = ended;
        false
    }

    /// Evaluates a sample that stands for `packets`. Returns true if there certainly is a queue.
    fn watch(&mut self, rtt: Duration, packets: u64) -> bool {
        let current = Span::with(self.current, rtt);
        self.current = Some(current);
        self.enough |= self.samples.add(rtt, packets).is_some();
        let group = self.group.add(rtt, packets);
        if !self.enough {
            return false;
        }
        if let Some(css) = self.conservative
            && current.min < css.baseline
        {
            self.conservative = None;
        }
        let Some(last) = self.last else { return false };
        let threshold = rtt_threshold(last.min);
        if let Some(least) = group {
            let certain = (last.min / CERTAIN_DIVISOR).max(threshold * CERTAIN_THRESHOLDS);
            if least >= last.max.saturating_add(certain) {
                return true;
            }
            if least >= last.max.saturating_add(threshold) {
                self.conserve(least);
            }
        }
        if current.min >= last.min.saturating_add(threshold) {
            self.conserve(current.min);
        }
        false
    }

    /// Begins conservative slow start; from now on, RTTs are compared with `baseline`.
    fn conserve(&mut self, baseline: Duration) {
        if self.conservative.is_some() {
            return;
        }
        self.conservative = Some(Conservative {
            baseline,
            rounds: 0,
            rate: None,
            carried: 0,
        });
        self.current = None;
        self.enough = false;
        self.samples = Group::default();
    }
}

impl StartRule for HyStart {
    fn on_ack(&mut self, acked: &Acked, last_sent: u64) -> Growth {
        let spent = self.follow_rounds(acked, last_sent);
        let queue = acked.rtt.is_some_and(|rtt| self.watch(rtt, acked.packets));
        if spent || queue {
            return Growth {
                bytes: 0,
                leave: true,
            };
        }
        match &mut self.conservative {
            Some(css) => {
                let due = css.carried.saturating_add(acked.bytes);
                css.carried = due % CSS_GROWTH_DIVISOR;
                Growth::plain(due / CSS_GROWTH_DIVISOR)
            }
            None => Growth::plain(acked.bytes),
        }
    }
}
