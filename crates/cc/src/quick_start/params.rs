//! Constants of both parts.

use crate::base::Duration;

/// Nothing is approved while so much of the capacity is used or approved already, and all that is
/// used or approved stays within it: 85 % (ns-2's `qs_thresh` and `alloc_rate`, which the paper on
/// XCP and CUBIC with Quick-Start uses).
pub(crate) const SHARE: (u64, u64) = (85, 100);

/// Where the port's law makes room, a part of the capacity is granted although all is in use, half
/// of what is left of it to each if that is worth so many bytes per round trip: some initial
/// windows.
pub(crate) const CREDIT_BYTES: u64 = 64_000;

/// Use is measured over samples of 200 ms, and the busiest of five and the running one counts
/// (ns-2; RFC 4782 appendix D has 150 ms and 3 to 20).
pub(crate) const SAMPLE: Duration = Duration::from_millis(200);
pub(crate) const SAMPLES: usize = 5;

/// A grant is remembered so long at least: two of RFC 4782's periods, of 200 ms (ns-2).
pub(crate) const LEAST_MEMORY: Duration = Duration::from_millis(400);
/// The traffic of a grant arrives one round-trip time after it and lasts: 1.5 round-trip times.
pub(crate) const MEMORY_RTTS: (u32, u32) = (3, 2);
/// Memory for a sender that told no round-trip time: of one with 1 s.
pub(crate) const UNKNOWN_RTT: Duration = Duration::from_secs(1);

/// Bytes that a sender may have sent before it heard of its grant: the largest initial window
/// (RFC 9002 section 7.2: 14,720 bytes, or two packets of 9000), and the packets of a handshake.
pub(crate) const FIRST_WINDOW: u64 = 32_000;

/// A flight that has not begun after so many round-trip times, and so long after the first, does
/// not come: the asker's acknowledgement may be late by its delay and a scheduling step.
pub(crate) const PATIENCE_RTTS: (u32, u32) = (5, 4);
pub(crate) const LEAST_PATIENCE: Duration = Duration::from_millis(50);
/// An asker is believed a round-trip time of so much, or of twice the mean that granted flights
/// have shown.
pub(crate) const TRUSTED_RTT: Duration = Duration::from_secs(1);
/// A flight shows its round-trip time if this part of what was granted came …
pub(crate) const SHOWN_PART: u64 = 8;
/// … and if less than this part of what should have come has, so many round-trip times after its
/// first packet, it is none: a hop that does not take part made the grant void, or the answer was
/// lost.
pub(crate) const LOOK_RTTS: (u32, u32) = (1, 2);
/// A flight's round-trip time counts for this part of the mean.
pub(crate) const MEAN_PART: u64 = 8;

/// Grants that a port remembers, and how many of them for each hash of a flow. While all those are
/// in use, nothing is approved.
pub(crate) const GRANTS: usize = 256;
pub(crate) const WAYS: usize = 8;

/// Requests of one source that are looked at within a second; further ones are denied.
pub(crate) const PER_SOURCE: u16 = 64;
/// Sources that are told apart, by a hash of their address. Those of the same place share what one
/// may ask.
pub(crate) const SOURCES: usize = 256;
/// The second.
pub(crate) const SOURCE_PERIOD: Duration = Duration::from_secs(1);
/// A source that made use of less than this part of a grant has no more than so many times that, or
/// this part of what it was granted then, all its flows together …
pub(crate) const REUSE: u64 = 8;
/// … but this part of the capacity in any case. A grant that is used doubles the bound, and so does
/// each such time.
pub(crate) const LEAST_PART: u64 = 64;
pub(crate) const FORGIVEN_AFTER: Duration = Duration::from_secs(8);

/// A grant is used within a round-trip time and within 3 s, or not at all (RFC 4782 §4.4).
pub(crate) const LATEST_START: Duration = Duration::from_secs(3);
/// A sender waits so many round-trip times for an answer; the receiver may hold its
/// acknowledgement back.
pub(crate) const ANSWER_RTTS: u32 = 2;
/// A question whose packet was lost is asked again, so often at most, and within so many times what
/// an answer may take after the first: a loss is known one and a half round-trip times after the
/// question left, and up to two where the path reorders.
pub(crate) const REPEATS: u32 = 2;
pub(crate) const REPEAT_TIME: u32 = 3;
/// A question that was denied is asked so often again, a round trip later each time: flows that
/// were granted something may give part of it back by then, and the first time may be too early.
pub(crate) const DENIED_AGAIN: u32 = 2;
/// Nothing is started with where so many packets, and this part, of those before the flight are
/// lost: their hop is none of those that grant.
pub(crate) const FIRST_LOST: (u64, u64) = (2, 4);

/// Flows share a start if they ask within this part of a round trip. A flow that asks later in the
/// round trip finds the link in use, as one does that asks in the next: where files arrive at
/// random, starts that are shared with all of a round trip's questions end a fifth later.
pub(super) const TOGETHER: u32 = 8;
