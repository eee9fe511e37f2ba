//! Quick-Start as a signal of the transport.

use pathmark_cc::{Countable, Feedback, QuickStartPurpose, Request};
use pathmark_shim::Kind;
use pathmark_shim::quick_start::{Function, LEN, Rate, Repr, RttOctave};
use pathmark_transport::{Arrived, BadFeedback, Counters, Meter, Signal};

use crate::counters::Totals;

/// Default TTL or hop limit of sent packets.
const USUAL_TTL: u8 = 64;

/// Quick-Start in a shim, which only packets with a request carry.
#[derive(Clone, Copy, Debug)]
pub struct QuickStartSignal {
    ttl: u8,
}

impl QuickStartSignal {
    /// Creates the signal for packets sent with a TTL of 64.
    pub const fn new() -> Self {
        Self { ttl: USUAL_TTL }
    }

    /// Sets the TTL that packets are sent with. If it differs from the IP header's, no rate is
    /// approved.
    #[must_use]
    pub const fn with_sent_ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }
}

impl Default for QuickStartSignal {
    fn default() -> Self {
        Self::new()
    }
}

impl Signal for QuickStartSignal {
    fn kind(&self) -> u8 {
        Kind::QUICK_START.number()
    }

    fn shim_len(&self) -> usize {
        LEN
    }

    fn asks_once(&self) -> bool {
        true
    }

    /// A controller without a request gets a report of a rate of 0, which routers do not change.
    /// A buffer shorter than [`shim_len`](Self::shim_len) stays unchanged.
    fn fill(&self, request: &Request, shim: &mut [u8]) {
        let Some(room) = shim.first_chunk_mut::<LEN>() else {
            return;
        };
        let (function, rate, difference, nonce, rtt) = match &request.quick_start {
            Some(asked) => (
                match asked.purpose {
                    QuickStartPurpose::Start => Function::Request,
                    QuickStartPurpose::Keep => Function::Keep,
                    QuickStartPurpose::Report => Function::Report,
                },
                Rate::ceil(asked.rate),
                asked.ttl_difference,
                asked.nonce,
                asked.rtt,
            ),
            None => (Function::Report, Rate::default(), 0, 0, None),
        };
        let micros =
            |rtt: pathmark_cc::Duration| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
        *room = Repr {
            function,
            rate,
            qs_ttl: self.ttl.wrapping_sub(difference),
            rtt: rtt.map_or(RttOctave::default(), |rtt| RttOctave::ceil(micros(rtt))),
            nonce,
        }
        .emit();
    }

    fn meter(&self) -> Box<dyn Meter> {
        Box::<QuickStartMeter>::default()
    }

    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: &Countable,
    ) -> Result<Feedback, BadFeedback> {
        let read = |counters: &Counters| Totals::decode(counters.as_slice());
        let older = older.map_or(Ok(Totals::default()), read)?;
        let feedback = read(newer)?.since(&older, sent)?;
        Ok(Feedback::QuickStart(feedback))
    }
}

/// Counts only packets that carry a request.
#[derive(Debug, Default)]
struct QuickStartMeter(Totals);

impl Meter for QuickStartMeter {
    fn on_packet(&mut self, arrived: &Arrived<'_>) {
        if let Some(Ok(shim)) = arrived.shim.map(Repr::parse) {
            self.0.count(&shim, arrived.bytes, arrived.ttl);
        }
    }

    fn counters(&self) -> Option<Counters> {
        if self.0.is_empty() {
            return None;
        }
        let mut counters = Counters::new();
        self.0
            .encode()
            .into_iter()
            .all(|total| counters.push(total))
            .then_some(counters)
    }
}

#[cfg(test)]
#[path = "signal_tests.rs"]
mod tests;
