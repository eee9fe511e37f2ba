//! HyStart++ (RFC 9406): slow start that ends when the RTT rises, before the queue overflows.
//!
//! A rise of the round's least RTT leads into *conservative slow start*, which grows at a quarter
//! of the speed for five rounds. If the RTT falls back meanwhile, the rise was jitter and slow
//! start resumes; otherwise congestion avoidance begins.
//!
//! Two things are looked for besides, since the RFC counts on an acknowledgement for every other
//! packet and on rounds whose first packets already meet the queue:
//!
//! - *Few acknowledgements.* This transport asks for 16 per window or 8 per round trip. Four
//!   samples that stand for 16 packets count like the RFC's eight, which are those of 16 packets.
//! - *A rise within a round.* The round's least RTT is that of its first packets, so a queue that
//!   grows behind them is seen a round later, when the window has doubled again. So each group of
//!   samples is compared with the longest RTT of the round before: above that by the threshold is a
//!   rise, and above it by a quarter of the least RTT, or two thresholds, is a queue for certain
//!   that ends slow start at once. Jitter lengthens the longest RTT of the round before as well.
//! - *A rise without a queue of this sender.* Where the RTT stays long, but half as much again is
//!   delivered per time as at the beginning of conservative slow start, the path is not full.

use crate::base::arith::{mul_div, rate};
use crate::base::{Duration, Instant};
use crate::law::Acked;
use crate::standard::loss_based::{Growth, StartRule};

/// RFC 9406 §4.3: least and most rise that counts, as a share of the last round's least RTT in
/// between.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
/// RFC 9406 §4.3: a round with fewer samples is not judged.
const N_RTT_SAMPLE: u32 = 8;
/// RFC 9406 §4.3: conservative slow start's slowness and length.
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// Packets that as many samples stand for, where each other packet is acknowledged (RFC 9000
/// §13.2.2).
const PACKETS_OF_SAMPLES: u64 = 2 * N_RTT_SAMPLE as u64;
/// Fewer samples do not make a group, however many packets they stand for.
const LEAST_SAMPLES: u32 = 4;
/// A queue is certain above this part of the least RTT, or these many thresholds.
const CERTAIN_DIVISOR: u32 = 4;
const CERTAIN_THRESHOLDS: u32 = 2;

/// Growth of the delivered rate, from the first whole round of conservative slow start on, of a
/// path that is not full.
const RATE_GROWTH: (u64, u64) = (3, 2);

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// The least RTT of the samples that led into it.
    baseline: Duration,
    /// Rounds it has lasted.
    rounds: u32,
    /// Bytes per second that its first whole round delivered.
    rate: Option<u64>,
    /// Bytes acknowledged that have not made a whole byte of growth yet.
    carried: u64,
}

/// RTTs of a round.
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

/// What a round has delivered so far.
#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    since: Option<Instant>,
    bytes: u64,
}

impl Delivered {
    /// The round ends at `now`, and the next one begins. Its rate in bytes per second, if it is
    /// known.
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
    /// Takes a sample that stands for `packets`. The group's least RTT, once it has enough.
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

/// HyStart++ as a start rule. Growth per acknowledgement is not limited (L = ∞), since the
/// transport paces.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyStart {
    /// The round ends when a packet beyond this one is acknowledged.
    round_end: Option<u64>,
    /// RTTs of the last round before conservative slow start, if it has begun; of the last one
    /// otherwise.
    last: Option<Span>,
    current: Option<Span>,
    /// This round's samples that stand for enough packets to be judged by their least one.
    enough: bool,
    samples: Group,
    group: Group,
    delivered: Delivered,
    conservative: Option<Conservative>,
}

/// How much the least RTT must rise over `last_min` to count (RFC 9406 §4.2).
pub(crate) fn rtt_threshold(last_min: Duration) -> Duration {
    (last_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

impl HyStart {
    /// Follows rounds. Returns true if conservative slow start has run its course.
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

    /// A round has ended that delivered `rate`. Returns as [`follow_rounds`](Self::follow_rounds).
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
            // More arrives as more is sent: the RTT has risen, but not for a queue of ours.
            self.conservative = None;
        }
        self.last = ended;
        false
    }

    /// Looks at a sample that stands for `packets`. Returns true if a queue stands for certain.
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

    /// Conservative slow start begins; what is measured from now on is compared with `baseline`.
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
