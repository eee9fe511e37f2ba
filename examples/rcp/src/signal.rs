//! RCP as a signal of the transport.

use pathmark_cc::{Countable, Duration, Feedback, OwnFeedback, Request};
use pathmark_transport::{Arrived, BadFeedback, Breach, Counters, Meter, Signal};

use crate::header::{LEN, Repr};
use crate::{KIND, UNANSWERED};

/// RCP, carried in a shim.
#[derive(Clone, Copy, Debug, Default)]
pub struct RcpSignal;

/// A receiver's counters in wire order: packets, their bytes, and the rate and router of the latest
/// packet.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    packets: u64,
    bytes: u64,
    rate: u64,
    router: u16,
}

fn bad(breach: Breach, message: &'static str) -> BadFeedback {
    BadFeedback { breach, message }
}

impl Totals {
    fn read(counters: &Counters) -> Result<Self, BadFeedback> {
        let form = || bad(Breach::Form, "RCP has four counters");
        let &[packets, bytes, rate, router] = counters.as_slice() else {
            return Err(form());
        };
        Ok(Self {
            packets,
            bytes,
            rate: rate.min(UNANSWERED),
            router: u16::try_from(router).map_err(|_| form())?,
        })
    }
}

impl Signal for RcpSignal {
    fn kind(&self) -> u8 {
        KIND.number()
    }

    fn shim_len(&self) -> usize {
        LEN
    }

    fn fill(&self, request: &Request, shim: &mut [u8]) {
        let [rate, rtt_us, _] = request.own.map_or([UNANSWERED, 0, 0], |own| own.words);
        let header = Repr {
            rate,
            rtt_us: u32::try_from(rtt_us).unwrap_or(u32::MAX),
            router: 0,
        };
        // The transport provides `shim_len` bytes.
        let _ = header.emit(shim);
    }

    fn meter(&self) -> Box<dyn Meter> {
        Box::<RcpMeter>::default()
    }

    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: &Countable,
    ) -> Result<Feedback, BadFeedback> {
        let older = older.map_or(Ok(Totals::default()), Totals::read)?;
        let newer = Totals::read(newer)?;
        if newer.packets > sent.packets || newer.bytes > sent.bytes {
            return Err(bad(Breach::Packets, "more packets than were sent"));
        }
        let fell = || bad(Breach::Backwards, "a total fell");
        Ok(Feedback::Own(OwnFeedback {
            kind: KIND.number(),
            packets: newer.packets.checked_sub(older.packets).ok_or_else(fell)?,
            bytes: newer.bytes.checked_sub(older.bytes).ok_or_else(fell)?,
            router: newer.router,
            interval: Duration::ZERO,
            words: [newer.rate, 0, 0],
        }))
    }
}

#[derive(Debug, Default)]
struct RcpMeter {
    totals: Totals,
    /// Number of the packet that carried this rate and router.
    latest: u64,
}

impl Meter for RcpMeter {
    fn on_packet(&mut self, arrived: &Arrived<'_>) {
        if let Some(header) = arrived.shim.and_then(Repr::parse) {
            let totals = &mut self.totals;
            totals.packets += 1;
            totals.bytes = totals.bytes.saturating_add(arrived.bytes);
            if arrived.number >= self.latest {
                self.latest = arrived.number;
                (totals.rate, totals.router) = (header.rate, header.router);
            }
        }
    }

    fn counters(&self) -> Option<Counters> {
        let Totals {
            packets,
            bytes,
            rate,
            router,
        } = self.totals;
        let mut counters = Counters::new();
        let all = [packets, bytes, rate, router.into()];
        (packets > 0 && all.into_iter().all(|total| counters.push(total))).then_some(counters)
    }
}
