//! NewReno's window rule according to RFC 9002 §7.3: grows by one datagram per round trip, and
//! halves on congestion.

#[cfg(test)]
mod tests;

use super::loss_based::{Avoidance, Cause, LossBased};
use super::slow_start::SlowStart;
use crate::base::Instant;
use crate::base::arith::Carry;
use crate::law::Acked;

/// NewReno's window rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reno {
    growth: Carry,
}

impl Avoidance for Reno {
    const NAME: &'static str = "newreno";

    fn on_ack(&mut self, _now: Instant, acked: &Acked, window: u64, mtu: u64) -> u64 {
        // [9002 7.3.3 additive-increase]
        let share = u128::from(mtu) * u128::from(acked.bytes);
        self.growth.add(share, u128::from(window))
    }

    fn on_congestion(&mut self, _now: Instant, window: u64, _mtu: u64, _cause: Cause) -> u64 {
        self.growth.clear();
        // [9002 7.3.2 halve]
        window / 2
    }

    fn on_collapse(&mut self) {
        self.growth.clear();
    }
}

/// The controller `newreno`.
pub type NewReno = LossBased<Reno, SlowStart>;

impl NewReno {
    /// NewReno for datagrams of `mtu` bytes, with an initial window of `initial` packets.
    pub fn newreno(mtu: u16, initial: Option<u32>) -> Self {
        Self::new(mtu, initial, Reno::default(), SlowStart)
    }
}
