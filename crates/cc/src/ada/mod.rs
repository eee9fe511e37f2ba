//! ADA: NewReno that starts with a rate granted by routers, and in congestion avoidance.
//!
//! Welzl, Abfalterer, Gjessing, "XCP vs. CUBIC with Quick-Start", section II: the slow-start
//! threshold is derived from the grant, so the flow never probes by slow start. The paper does not
//! print the formula; here the threshold is the part of the granted window that was used.

use crate::quick_start::{AfterGrant, QuickStart};
use crate::standard::{LossBased, Reno, SlowStart};

/// The controller `ada`.
pub(crate) type Ada = QuickStart<LossBased<Reno, SlowStart>>;

impl Ada {
    /// ADA for datagrams of `mtu` bytes, which begins with `initial` packets and requests `rate`
    /// bytes of IP packets per second.
    pub(crate) fn ada(mtu: u16, initial: Option<u32>, rate: Option<u64>) -> Self {
        let law = LossBased::new(mtu, initial, Reno::default(), SlowStart);
        Self::new(Some("ada"), mtu, rate, AfterGrant::Avoidance, law).asking_once()
    }
}
