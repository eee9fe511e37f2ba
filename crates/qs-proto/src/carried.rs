//! Reads requests for a port.

use pathmark_cc::{Carried, Duration, QuickStartCarried};
use pathmark_shim::quick_start::{Function, Repr};

/// Reads the shim in front of a UDP payload; `source` is a hash of its sender's address. Returns
/// [`Carried::Foreign`] if there is no valid request, because routers must not change reports
/// and unknown functions.
#[inline]
pub fn from_payload(payload: &[u8], source: u32) -> Carried {
    match Repr::parse(payload) {
        Ok(repr) if repr.function.answered().is_some() => Carried::QuickStart(QuickStartCarried {
            rate: repr.rate.bytes_per_second(),
            rtt: repr.rtt.micros().map(Duration::from_micros),
            source,
            keeps: matches!(repr.function, Function::Keep | Function::Kept),
        }),
        _ => Carried::Foreign,
    }
}
