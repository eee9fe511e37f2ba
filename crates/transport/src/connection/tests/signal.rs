//! A signal for tests: 12 bytes, into which routers write a code and an ID.

use pathmark_shim::Kind;
use pathmark_shim::frame::{prefix, seal};

use super::*;
use crate::{Arrived, Breach};

/// Size of the shim, in bytes.
pub(crate) const LEN: usize = 12;
/// Size of a long shim, in bytes.
pub(crate) const LONG: usize = 36;

/// Counts packets and bytes per code.
#[derive(Debug)]
pub(crate) struct TestSignal {
    pub(crate) kind: u8,
    /// Carried in the ECN field, without a shim.
    pub(crate) in_ecn: bool,
    /// Its shim is as long as XCP's on a path of IPv4; the rest isn't used.
    pub(crate) long: bool,
    /// The requests of laws that it can carry, besides unspecific requests.
    pub(crate) speaks: Option<Explicit>,
    /// Control interval of its routers.
    pub(crate) t_rho: Duration,
}

impl TestSignal {
    pub(crate) fn shim(kind: u8) -> Self {
        Self {
            kind,
            in_ecn: false,
            long: false,
            speaks: None,
            t_rho: Duration::ZERO,
        }
    }

    /// Carried in the ECN field.
    pub(crate) fn in_ecn(kind: u8) -> Self {
        Self {
            in_ecn: true,
            ..Self::shim(kind)
        }
    }

    pub(crate) fn long_shim(kind: u8) -> Self {
        Self {
            long: true,
            ..Self::shim(kind)
        }
    }
}

/// Counters with these values.
pub(crate) fn counters<const N: usize>(values: [u64; N]) -> Counters {
    let mut counters = Counters::new();
    let push = |value| assert!(counters.push(value));
    values.into_iter().for_each(push);
    counters
}

/// Acts as a router, writing `code` and `router` into the shim of a datagram, if there is one.
pub(crate) fn mark(datagram: &mut [u8], code: u8, router: u8) -> bool {
    let Some(kind) = datagram.first().copied().and_then(Kind::from_first_byte) else {
        return false;
    };
    let Some(shim) = datagram.first_chunk_mut::<LEN>() else {
        return false;
    };
    shim[4] = code;
    shim[5] = router;
    seal(kind, shim);
    true
}

impl Signal for TestSignal {
    fn kind(&self) -> u8 {
        self.kind
    }

    fn shim_len(&self) -> usize {
        match (self.in_ecn, self.long) {
            (true, _) => 0,
            (false, false) => LEN,
            (false, true) => LONG,
        }
    }

    fn speaks(&self, wanted: Explicit) -> bool {
        self.speaks == Some(wanted)
    }

    fn ecn(&self) -> Option<Ecn> {
        self.in_ecn.then_some(Ecn::Ect1)
    }

    fn fill(&self, request: &Request, shim: &mut [u8]) {
        let kind = Kind::new(self.kind).unwrap();
        if let Some(shim) = shim.first_chunk_mut::<LONG>() {
            *shim = [0; LONG];
            shim[..4].copy_from_slice(&prefix::<LONG>(kind));
            seal(kind, shim);
            return;
        }
        let Some(shim) = shim.first_chunk_mut::<LEN>() else {
            return;
        };
        *shim = [0; LEN];
        shim[..4].copy_from_slice(&prefix::<LEN>(kind));
        shim[6] = request.min_rtt.map_or(0, |rtt| rtt.as_millis() as u8);
        seal(kind, shim);
    }

    fn meter(&self) -> Box<dyn Meter> {
        Box::new(TestMeter {
            in_ecn: self.in_ecn,
            ..TestMeter::default()
        })
    }

    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: &Countable,
    ) -> Result<Feedback, BadFeedback> {
        let bad = |breach| BadFeedback {
            breach,
            message: "cannot be",
        };
        let zero = [0; 9];
        let old = older.map_or(&zero[..], Counters::as_slice);
        let new = newer.as_slice();
        if new.len() != 9 {
            return Err(bad(Breach::Form));
        }
        let sum = |of: &[u64]| of.iter().fold(0_u64, |sum, &n| sum.saturating_add(n));
        if sum(&new[..4]) > sent.packets {
            return Err(bad(Breach::Packets));
        }
        if sum(&new[4..8]) > sent.bytes {
            return Err(bad(Breach::Sum));
        }
        let mut vcp = VcpFeedback {
            t_rho: self.t_rho,
            ..VcpFeedback::default()
        };
        for code in 0..4 {
            let minus = |i: usize| new[i].checked_sub(old[i]).ok_or(bad(Breach::Backwards));
            vcp.packets[code] = minus(code)?;
            vcp.bytes[code] = minus(4 + code)?;
        }
        vcp.router = new[8] as u16;
        Ok(Feedback::Vcp(vcp))
    }
}

#[derive(Debug, Default)]
struct TestMeter {
    in_ecn: bool,
    packets: [u64; 4],
    bytes: [u64; 4],
    router: u64,
}

impl Meter for TestMeter {
    fn on_packet(&mut self, arrived: &Arrived<'_>) {
        let code = if self.in_ecn {
            arrived.ecn as usize
        } else {
            arrived.shim.map_or(0, |shim| usize::from(shim[4] & 3))
        };
        self.packets[code] += 1;
        self.bytes[code] += arrived.bytes;
        if let Some(shim) = arrived.shim {
            self.router = u64::from(shim[5]);
        }
    }

    fn counters(&self) -> Option<Counters> {
        let mut counters = Counters::new();
        for value in self.packets.iter().chain(&self.bytes).chain([&self.router]) {
            counters.push(*value);
        }
        Some(counters)
    }
}
