//! Constants of both parts.

use crate::base::Duration;

/// No request is approved while this part of the capacity is used or approved already, and the sum
/// of used and approved rates stays within it: 85 % (ns-2's `qs_thresh` and `alloc_rate`, which the
/// paper on XCP and CUBIC with Quick-Start uses).
pub(crate) const SHARE: (u64, u64) = (85, 100);

/// Where the port's law makes room, a part of the capacity is granted although all is in use. Each
/// flow gets half of the rest, if that is worth this many bytes per round trip: some initial
/// windows.
pub(crate) const CREDIT_BYTES: u64 = 64_000;

/// Use is measured over samples of 200 ms, and the busiest of five and the running one counts
/// (ns-2; RFC 4782 appendix D has 150 ms and 3 to 20).
pub(crate) const SAMPLE: Duration = Duration::from_millis(200);
pub(crate) const SAMPLES: usize = 5;

/// A grant is remembered this long at least: two of RFC 4782's periods, of 200 ms (ns-2).
pub(crate) const LEAST_MEMORY: Duration = Duration::from_millis(400);
/// The traffic of a grant arrives one round-trip time after it and lasts: 1.5 round-trip times.
pub(crate) const MEMORY_RTTS: (u32, u32) = (3, 2);
/// RTT assumed for a sender that stated none.
pub(crate) const UNKNOWN_RTT: Duration = Duration::from_secs(1);

/// Bytes that a sender may have sent before it received its grant: the largest initial window (RFC
/// 9002 section 7.2: 14,720 bytes, or two packets of 9000), and the packets of a handshake.
pub(crate) const FIRST_WINDOW: u64 = 32_000;

/// A flight that has not begun after `PATIENCE_RTTS` round-trip times, and `LEAST_PATIENCE` after
/// the first one, will not arrive: the sender's acknowledgement may be late by its delay and a
/// scheduling step.
pub(crate) const PATIENCE_RTTS: (u32, u32) = (5, 4);
pub(crate) const LEAST_PATIENCE: Duration = Duration::from_millis(50);
/// A stated RTT is believed up to this, or up to twice the mean RTT of granted flights.
pub(crate) const TRUSTED_RTT: Duration = Duration::from_secs(1);
/// A flight is a sample of the RTT if this part of its grant arrived …
pub(crate) const SHOWN_PART: u64 = 8;
/// … and it is not one if less than this part of the expected bytes has arrived `LOOK_RTTS`
/// round-trip times after its first packet: a hop that does not take part made the grant void, or
/// the answer was lost.
pub(crate) const LOOK_RTTS: (u32, u32) = (1, 2);
/// A flight's round-trip time counts for this part of the mean.
pub(crate) const MEAN_PART: u64 = 8;

/// Grants that a port remembers, and how many of them for each hash of a flow. While all those are
/// in use, nothing is approved.
pub(crate) const GRANTS: usize = 256;
pub(crate) const WAYS: usize = 8;

/// Requests of one source that are examined within a second; further ones are denied.
pub(crate) const PER_SOURCE: u16 = 64;
/// Sources that are counted separately, by a hash of their address. Those with the same hash share
/// the limits of one source.
pub(crate) const SOURCES: usize = 256;
/// The period of that limit.
pub(crate) const SOURCE_PERIOD: Duration = Duration::from_secs(1);
/// A source that used less than this part of a grant is limited, over all its flows, to `REUSE`
/// times the used rate, or to this part of the grant …
pub(crate) const REUSE: u64 = 8;
/// … and to this part of the capacity at least. A used grant doubles the bound, and so does each
/// period of `FORGIVEN_AFTER`.
pub(crate) const LEAST_PART: u64 = 64;
pub(crate) const FORGIVEN_AFTER: Duration = Duration::from_secs(8);

/// A grant is used within a round-trip time and within 3 s, or not at all (RFC 4782 §4.4).
pub(crate) const LATEST_START: Duration = Duration::from_secs(3);
/// Round-trip times that a sender waits for an answer; the receiver may hold its acknowledgement
/// back.
pub(crate) const ANSWER_RTTS: u32 = 2;
/// Repetitions of a question whose packet was lost, within `REPEAT_TIME` times the time for an
/// answer after the first: a loss is known one and a half round-trip times after the question left,
/// and up to two where the path reorders.
pub(crate) const REPEATS: u32 = 2;
pub(crate) const REPEAT_TIME: u32 = 3;
/// Repetitions of a denied question, a round trip later each: flows with a grant may give part of
/// it back by then, and the first question may be too early.
pub(crate) const DENIED_AGAIN: u32 = 2;
/// Without a start if this many packets, and one in `FIRST_LOST.1`, of those before the flight are
/// lost: their hop has granted nothing.
pub(crate) const FIRST_LOST: (u64, u64) = (2, 4);

/// Where TTLs show a hop that did not take part, a flight has the granted rate over this: the half
/// that RFC 9959 allows of a capacity that is not confirmed yet. What arrives confirms the rest.
pub(crate) const UNSEEN_HOP: u64 = 2;

/// Flows share a start if they ask within this part of a round trip. A flow that asks later in the
/// round trip finds the link in use, as one does that asks in the next: where files arrive at
/// random, starts that are shared with all of a round trip's questions end a fifth later.
pub(super) const TOGETHER: u32 = 8;
