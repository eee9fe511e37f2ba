//! What the tests of the protocols share.

use pathmark_cc::Countable;

/// A value with a change.
pub(crate) fn changed<T>(mut value: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut value);
    value
}

/// A sender's own count of `packets` packets of `longest` bytes each.
pub(crate) fn sent(packets: u64, longest: u64) -> Countable {
    Countable {
        packets,
        bytes: packets.saturating_mul(longest),
        longest,
    }
}

/// A packet of 1200 bytes, with ECT(0).
#[cfg(feature = "transport")]
pub(crate) fn arrived(shim: Option<&[u8]>, ttl: u8) -> pathmark_transport::Arrived<'_> {
    pathmark_transport::Arrived {
        shim,
        ecn: pathmark_transport::Ecn::Ect0,
        ttl: Some(ttl),
        bytes: 1200,
        now: pathmark_cc::Instant::ZERO,
        number: 0,
    }
}
