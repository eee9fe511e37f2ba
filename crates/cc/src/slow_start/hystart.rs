//! HyStart++ (RFC 9406): slow start that ends when the RTT rises, before the queue overflows.
//!
//! A rise of the round's least RTT leads into *conservative slow start*, which grows at a quarter of the speed for five rounds. If the
//! RTT falls back meanwhile, the rise was jitter and slow start resumes; otherwise congestion avoidance begins.

use crate::loss_based::{Growth, StartRule};
use crate::{Acked, Duration};

/// RFC 9406 §4.3: least and most rise that counts, as a share of the last round's least RTT in between.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
/// RFC 9406 §4.3: samples without which a round says nothing.
const N_RTT_SAMPLE: u32 = 8;
/// RFC 9406 §4.3: conservative slow start's slowness and length.
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// The round's least RTT when it began.
    baseline: Duration,
    /// Rounds it has lasted.
    rounds: u32,
    /// Bytes acknowledged that have not made a whole byte of growth yet.
    carried: u64,
}

/// HyStart++ as a start rule. Growth per acknowledgement is not limited (L = ∞), since the transport paces.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyStart {
    /// The round ends when a packet beyond this one is acknowledged.
    round_end: Option<u64>,
    last_min: Option<Duration>,
    current_min: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

/// How much the least RTT must rise over `last_min` to count (RFC 9406 §4.2).
pub(crate) fn rtt_threshold(last_min: Duration) -> Duration {
    (last_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

impl HyStart {
    /// Follows rounds. Returns true if conservative slow start has run its course.
    fn follow_rounds(&mut self, largest: u64, last_sent: u64) -> bool {
        if self.round_end.is_some_and(|end| largest <= end) {
            return false;
        }
        let first = self.round_end.is_none();
        self.round_end = Some(last_sent);
        if first {
            return false;
        }
        self.last_min = self.current_min.take();
        self.samples = 0;
        match &mut self.conservative {
            Some(css) => {
                css.rounds += 1;
                css.rounds >= CSS_ROUNDS
            }
            None => false,
        }
    }

    fn watch(&mut self, rtt: Duration) {
        let current = self.current_min.map_or(rtt, |min| min.min(rtt));
        self.current_min = Some(current);
        self.samples = self.samples.saturating_add(1);
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        match (self.conservative, self.last_min) {
            (Some(css), _) if current < css.baseline => self.conservative = None,
            (None, Some(last)) if current >= last.saturating_add(rtt_threshold(last)) => {
                self.conservative = Some(Conservative {
                    baseline: current,
                    rounds: 0,
                    carried: 0,
                });
            }
            _ => {}
        }
    }
}

impl StartRule for HyStart {
    fn on_ack(&mut self, acked: &Acked, last_sent: u64) -> Growth {
        let leave = self.follow_rounds(acked.largest, last_sent);
        if leave {
            return Growth {
                bytes: 0,
                leave: true,
            };
        }
        if let Some(rtt) = acked.rtt {
            self.watch(rtt);
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
