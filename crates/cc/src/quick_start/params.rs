//! Constants of both parts.

use crate::Duration;

/// Nothing is approved while so much of the capacity is used or approved already, and all that is
/// used or approved stays within it: 85 % (ns-2's `qs_thresh` and `alloc_rate`, which the paper on
/// XCP and CUBIC with Quick-Start uses).
pub(crate) const SHARE: (u64, u64) = (85, 100);

/// Use is measured over samples of 200 ms, and the busiest of five and the running one counts (ns-2;
/// RFC 4782 appendix D has 150 ms and 3 to 20).
pub(crate) const SAMPLE: Duration = Duration::from_millis(200);
pub(crate) const SAMPLES: usize = 5;

/// A grant is remembered so long at least: two of RFC 4782's periods, of 200 ms (ns-2).
pub(crate) const LEAST_MEMORY: Duration = Duration::from_millis(400);
/// The traffic of a grant arrives one round-trip time after it and lasts: 1.5 round-trip times.
pub(crate) const MEMORY_RTTS: (u32, u32) = (3, 2);
/// Memory for a sender that told no round-trip time: of one with 1 s.
pub(crate) const UNKNOWN_RTT: Duration = Duration::from_secs(1);

/// Grants that a port remembers. While all are in use, nothing is approved.
pub(crate) const GRANTS: usize = 256;

/// Requests of one source that are looked at within a second; further ones are denied.
pub(crate) const PER_SOURCE: u16 = 64;
/// Sources that are told apart, by a hash of their address. Those of the same place share what one
/// may ask.
pub(crate) const SOURCES: usize = 256;
/// The second.
pub(crate) const SOURCE_PERIOD: Duration = Duration::from_secs(1);

/// A grant is used within a round-trip time and within 3 s, or not at all (RFC 4782 §4.4).
pub(crate) const LATEST_START: Duration = Duration::from_secs(3);
/// A sender waits so many round-trip times for an answer; the receiver may hold its
/// acknowledgement back.
pub(crate) const ANSWER_RTTS: u32 = 2;
