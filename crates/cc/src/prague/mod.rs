//! Prague (draft-briscoe-iccrg-prague-congestion-control): the sender for hops that mark ECT(1)
//! packets with CE long before a queue grows (L4S, RFC 9330).
//!
//! Such a hop marks some packets in every round trip, so the share of marked packets says how much
//! too large the window is. The law averages this share (α), and cuts the window by α/2 once per
//! round trip in which marks arrive. In between, it grows by one packet per round trip, so that it
//! has 2/p packets where the share p is marked. On paths below 25 ms, it behaves as if the round
//! trip took 25 ms. Otherwise flows with short paths would take most of a link.
//!
//! Where nothing is marked, a hop signals congestion by losses, and other flows there don't respond
//! to marks either. Therefore, the window follows CUBIC until the first mark, and from each loss to
//! the next mark. It also does so while marks come from a queue that is too long for L4S, as some
//! queues mark ECT(1) at the level for ECT(0), at which other flows halve their window.

mod rounds;
#[cfg(test)]
mod tests;

use crate::base::arith::{Carry, micros, mul_div, rate};
use crate::base::{Duration, Instant};
use crate::law::{Acked, Controller, Lost, PacketState, Sent};
use crate::metrics::{Metrics, Phase};
use crate::signals::Ecn;
use crate::standard::CubicController;
use rounds::{ONE, Rounds};

/// Shortest round trip as which the path counts.
const LEAST_RTT: Duration = Duration::from_millis(25);

/// The packet that ends a round trip after a cut, and the time of the cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    last_sent: u64,
    at: Instant,
}

/// The controller `prague`. It follows CUBIC until a mark, then its own rule until a loss.
#[derive(Clone, Debug)]
pub(crate) struct Prague {
    /// Holds the window in both modes.
    cubic: CubicController,
    mtu: u64,
    srtt: Duration,
    last_sent: u64,
    rounds: Rounds,
    /// True while marks, not losses, are what limits the window.
    scalable: bool,
    cut: Option<Cut>,
    /// Bytes acknowledged since the first mark, for one round trip.
    arrived: Option<u64>,
    growth: Carry,
}

impl Prague {
    /// Creates a controller for datagrams of `mtu` bytes, with an initial window of `initial`
    /// packets, or RFC 9002's.
    pub(crate) fn new(mtu: u16, initial: Option<u32>) -> Self {
        Self {
            cubic: CubicController::cubic(mtu, initial),
            mtu: u64::from(mtu.max(1)),
            srtt: LEAST_RTT,
            last_sent: 0,
            rounds: Rounds::default(),
            scalable: false,
            cut: None,
            arrived: None,
            growth: Carry::NONE,
        }
    }

    /// The round trip for which the window is controlled.
    fn virtual_rtt(&self) -> Duration {
        self.srtt.max(LEAST_RTT)
    }

    /// Additive increase for the bytes that came back without a mark: a packet per virtual round
    /// trip and window.
    fn grow(&mut self, acked: &Acked) {
        let unmarked = acked.packets.saturating_sub(acked.marked);
        let bytes = mul_div(acked.bytes, unmarked, acked.packets.max(1));
        let window = self.cubic.window();
        // A virtual round trip takes 1/ratio as long as a real one, and its window is 1/ratio as
        // large.
        let (real, wanted) = (micros(self.srtt), micros(self.virtual_rtt()));
        let ratio_q16 = u128::from(mul_div(real, 1 << 16, wanted));
        let share = u128::from(bytes) * u128::from(self.mtu) * ratio_q16.pow(2);
        let whole = u128::from(window) << 32;
        let added = self.growth.add(share, whole);
        self.cubic.raise(window.saturating_add(added));
    }

    /// Whether a round trip has passed since the last cut.
    fn may_cut(&self, now: Instant, acked: &Acked) -> bool {
        self.cut.is_none_or(|cut| {
            acked.largest > cut.last_sent && now.saturating_since(cut.at) >= self.virtual_rtt()
        })
    }

    /// Responds to marks: cuts by α/2. The first ones cut by half, so that the queue drains.
    fn on_marks(&mut self, now: Instant) {
        let window = self.cubic.window();
        let alpha = self.rounds.alpha().unwrap_or_else(|| {
            self.arrived = Some(0);
            ONE
        });
        self.cubic
            .take_over(window - mul_div(window, alpha, 2 * ONE));
        self.scalable = true;
        self.cut = Some(Cut {
            last_sent: self.last_sent,
            at: now,
        });
    }

    /// Counts what arrives in the round trip after the first cut. Since a queue stood when it
    /// began, this is what the path carries. The window becomes as large, because with a packet per
    /// round trip it would take dozens of round trips to grow to this size.
    fn follow_first_cut(&mut self, now: Instant, acked: &Acked) {
        let (Some(arrived), Some(cut)) = (self.arrived, self.cut) else {
            return;
        };
        let arrived = arrived.saturating_add(acked.bytes);
        self.arrived = Some(arrived);
        if acked.largest > cut.last_sent {
            let took = micros(now.saturating_since(cut.at)).max(1);
            let fits = mul_div(arrived, micros(acked.min_rtt).min(took), took);
            self.cubic.raise(fits);
            self.arrived = None;
            self.rounds.begin();
        }
    }
}

impl Controller for Prague {
    #[inline]
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.last_sent = self.last_sent.max(sent.packet_number);
        self.cubic.on_sent(now, sent)
    }

    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.srtt = acked.srtt;
        let packet_time = mul_div(micros(acked.srtt), self.mtu, self.cubic.window().max(1));
        let length = self.virtual_rtt();
        self.rounds
            .on_ack(now, acked, self.last_sent, length, packet_time);
        if self.rounds.are_classic() {
            self.scalable = false;
            self.cubic.on_ack(now, acked);
            if acked.marked > 0 {
                let (sent_at, last) = (acked.sent_at, self.last_sent);
                self.cubic.on_congestion_experienced(now, sent_at, last);
            }
            return;
        }
        self.follow_first_cut(now, acked);
        if !self.scalable {
            self.cubic.on_ack(now, acked);
        } else if acked.window_limited {
            self.grow(acked);
        }
        // The cut for a loss is also one for the marks of its round trip.
        if acked.marked > 0 && !self.cubic.in_recovery() && self.may_cut(now, acked) {
            self.on_marks(now);
        }
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        self.cubic.on_loss(now, lost);
        if self.cubic.in_recovery() {
            self.scalable = false;
            self.arrived = None;
        }
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        self.scalable = false;
        self.arrived = None;
        self.cubic.on_persistent_congestion(now);
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        self.cubic.on_spurious_loss(now);
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        self.cubic.on_restart(now, idle);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu.max(1));
        self.cubic.on_mtu(mtu);
    }

    #[inline]
    fn window(&self) -> u64 {
        self.cubic.window()
    }

    #[inline]
    fn pacing_rate(&self) -> Option<u64> {
        if self.scalable {
            Some(rate(self.cubic.window(), self.srtt, 1, 1))
        } else {
            self.cubic.pacing_rate()
        }
    }

    fn ecn(&self) -> Ecn {
        Ecn::Ect1
    }

    /// An L4S queue marks what waits for about 1 ms (RFC 9331 section 4.3), so bursts would end
    /// slow start far too early. After a loss, packets leave as CUBIC's do, because a smooth flow
    /// takes from others in a full queue.
    fn longest_batch(&self) -> Duration {
        let short = self.scalable || self.cubic.in_slow_start();
        Duration::from_micros(if short { 250 } else { 1000 })
    }

    fn metrics(&self) -> Metrics {
        if !self.scalable {
            return self.cubic.metrics();
        }
        Metrics::new("prague", Phase::Avoidance, self.cubic.window())
    }
}
