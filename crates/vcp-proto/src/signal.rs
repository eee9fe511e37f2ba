//! VCP's two carriers as signals of the transport.

use pathmark_cc::{Carrier, Countable, Explicit, Feedback, Request, VcpCode};
use pathmark_shim::Kind;
use pathmark_transport::{Arrived, BadFeedback, Counters, Ecn, Meter, Signal};

use crate::{
    counters::Totals,
    header::{self, Packet, Repr},
};

/// Default TTL or hop limit of sent packets.
const USUAL_TTL: u8 = 64;

/// VCP in a shim.
#[derive(Clone, Copy, Debug)]
pub struct VcpSignal {
    carries_r: bool,
    sent_ttl: Option<u8>,
}

impl VcpSignal {
    /// Creates the signal with r carried in the shim, for packets sent with a TTL of 64.
    pub const fn new() -> Self {
        Self {
            carries_r: true,
            sent_ttl: Some(USUAL_TTL),
        }
    }

    /// Requests that routers mix LOW and HIGH marks by lottery instead of carrying r, as in the
    /// VCP extensions paper (Ikeda et al.).
    #[must_use]
    pub const fn with_lottery(mut self) -> Self {
        self.carries_r = false;
        self
    }

    /// Sets the TTL with which packets are sent, which allows detecting hops without a VCP router.
    /// `None`: unknown.
    #[must_use]
    pub const fn with_sent_ttl(mut self, ttl: Option<u8>) -> Self {
        self.sent_ttl = ttl;
        self
    }
}

impl Default for VcpSignal {
    fn default() -> Self {
        Self::new()
    }
}

impl Signal for VcpSignal {
    fn kind(&self) -> u8 {
        Kind::VCP.number()
    }

    fn shim_len(&self) -> usize {
        header::LEN
    }

    fn speaks(&self, wanted: Explicit) -> bool {
        wanted == Explicit::Vcp(Carrier::Shim)
    }

    /// A buffer of another length than [`shim_len`](Self::shim_len) stays unchanged.
    fn fill(&self, request: &Request, shim: &mut [u8]) {
        if let Some(shim) = shim.as_mut_array::<{ header::LEN }>() {
            *shim = Repr::initial(request, self.carries_r).emit();
        }
    }

    fn meter(&self) -> Box<dyn Meter> {
        Box::<ShimMeter>::default()
    }

    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: &Countable,
    ) -> Result<Feedback, BadFeedback> {
        difference(older, newer, sent, self.sent_ttl)
    }
}

/// VCP in the IP ECN field, see [`super::mark`].
#[derive(Clone, Copy, Debug, Default)]
pub struct VcpEcnSignal;

impl VcpEcnSignal {
    /// The signal's kind, which is outside the eight kinds of shims.
    pub const KIND: u8 = 0x10;
}

impl Signal for VcpEcnSignal {
    fn kind(&self) -> u8 {
        Self::KIND
    }

    fn shim_len(&self) -> usize {
        0
    }

    /// Sends LOW.
    fn ecn(&self) -> Option<Ecn> {
        Some(Ecn::from_bits(VcpCode::Low as u8))
    }

    fn fill(&self, _request: &Request, _shim: &mut [u8]) {}

    fn meter(&self) -> Box<dyn Meter> {
        Box::<EcnMeter>::default()
    }

    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: &Countable,
    ) -> Result<Feedback, BadFeedback> {
        difference(older, newer, sent, None)
    }
}

/// Counts packets that carry a shim. Packets without a shim do not belong to VCP and must not
/// count.
#[derive(Debug, Default)]
struct ShimMeter(Totals);

impl Meter for ShimMeter {
    #[inline]
    fn on_packet(&mut self, arrived: &Arrived<'_>) {
        if let Some(shim) = arrived.shim {
            let packet = Packet::parse(shim).ok();
            self.0
                .count_shim(packet.as_ref(), arrived.bytes, arrived.ttl);
        }
    }

    fn counters(&self) -> Option<Counters> {
        counters(&self.0)
    }
}

#[derive(Debug, Default)]
struct EcnMeter(Totals);

impl Meter for EcnMeter {
    #[inline]
    fn on_packet(&mut self, arrived: &Arrived<'_>) {
        let code = VcpCode::from_bits(arrived.ecn as u8);
        self.0.count_ecn(code, arrived.bytes, arrived.ttl);
    }

    fn counters(&self) -> Option<Counters> {
        counters(&self.0)
    }
}

fn counters(totals: &Totals) -> Option<Counters> {
    if totals.is_empty() {
        return None;
    }
    let mut counters = Counters::new();
    totals
        .encode()
        .into_iter()
        .all(|total| counters.push(total))
        .then_some(counters)
}

fn difference(
    older: Option<&Counters>,
    newer: &Counters,
    sent: &Countable,
    sent_ttl: Option<u8>,
) -> Result<Feedback, BadFeedback> {
    let read = |counters: &Counters| Totals::decode(counters.as_slice());
    let older = older.map_or(Ok(Totals::default()), read)?;
    let feedback = read(newer)?.since(&older, sent, sent_ttl)?;
    Ok(Feedback::Vcp(feedback))
}

#[cfg(test)]
#[path = "signal_tests.rs"]
mod tests;
