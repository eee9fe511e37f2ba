//! Quick-Start (RFC 4782): a question for a starting rate, instead of up to ten round trips of slow
//! start.
//!
//! ```text
//!   sender                     routers                        sender, one RTT later
//!   request of a rate ──────►  each lowers it to what is  ──► rate × RTT at once, paced over
//!                              free, and remembers it         one RTT, then its own law
//! ```
//!
//! [`QuickStartLink`] adds the router's part to any law of a port, and [`QuickStart`] adds the
//! sender's part to any law that is [`Startable`].

#[cfg(test)]
mod ahead_tests;
#[cfg(test)]
mod keep_tests;
#[cfg(test)]
mod law_tests;
#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod lost_tests;
#[cfg(test)]
mod oracle_tests;
mod port;
mod sender;
#[cfg(test)]
mod sender_tests;
mod startable;
#[cfg(test)]
mod steered_tests;

use crate::base::Duration;
pub use port::QuickStartLink;
pub use sender::QuickStart;
pub(crate) use startable::Granted;
pub use startable::{AfterGrant, Startable};

// Constants of both parts.

/// A request is only approved while the sum of used and approved rates, including this one, is at
/// most this share of the capacity: 85 % (ns-2's `qs_thresh` and `alloc_rate`, which the paper on
/// XCP and CUBIC with Quick-Start uses).
pub(crate) const SHARE: (u64, u64) = (85, 100);

/// If the port's law makes room, a part of the capacity is granted even if all is in use. Each flow
/// gets half of the rest, provided that this is at least so many bytes per round trip, which are
/// some initial windows.
pub(crate) const CREDIT_BYTES: u64 = 64_000;

/// Usage is measured in samples of 200 ms. The busiest of the last five and the current one counts
/// (ns-2; RFC 4782 appendix D has 150 ms and 3 to 20).
pub(crate) const SAMPLE: Duration = Duration::from_millis(200);
pub(crate) const SAMPLES: usize = 5;

/// A grant is remembered for at least two of RFC 4782's periods of 200 ms each (ns-2).
pub(crate) const LEAST_MEMORY: Duration = Duration::from_millis(400);
/// A grant's traffic arrives one RTT later. Counting it for 1.5 RTTs covers this.
pub(crate) const MEMORY_RTTS: (u32, u32) = (3, 2);
/// RTT assumed for a sender that didn't state one.
pub(crate) const UNKNOWN_RTT: Duration = Duration::from_secs(1);

/// Bytes that a sender may have sent before it received its grant, which are the largest initial
/// window (RFC 9002 section 7.2: 14,720 bytes, or two packets of 9000) and the packets of a
/// handshake.
pub(crate) const FIRST_WINDOW: u64 = 32_000;

/// A flight will not arrive if it hasn't begun after `PATIENCE_RTTS` RTTs, and not less than
/// `LEAST_PATIENCE` after one RTT. This allows for the sender's acknowledgement delay and a
/// scheduling step.
pub(crate) const PATIENCE_RTTS: (u32, u32) = (5, 4);
pub(crate) const LEAST_PATIENCE: Duration = Duration::from_millis(50);
/// Stated RTTs are accepted up to this, or up to twice the mean RTT of granted flights.
pub(crate) const TRUSTED_RTT: Duration = Duration::from_secs(1);
/// A flight is a sample of the RTT if at least this part of its grant has arrived.
pub(crate) const SHOWN_PART: u64 = 8;
/// A grant is unused if, `LOOK_RTTS` RTTs after its first packet, less than `1/SHOWN_PART` of the
/// expected bytes has arrived. Either a hop that doesn't take part made it void, or the answer was
/// lost.
pub(crate) const LOOK_RTTS: (u32, u32) = (1, 2);
/// Weight of a flight's RTT in the mean.
pub(crate) const MEAN_PART: u64 = 8;

/// Number of grants that a port remembers, and of places for each hash of a flow. While all of
/// these places are in use, nothing is approved.
pub(crate) const GRANTS: usize = 256;
pub(crate) const WAYS: usize = 8;

/// Requests of one source that are examined per second; further requests are denied.
pub(crate) const PER_SOURCE: u16 = 64;
/// Number of sources that are counted separately, by a hash of their address. Sources with the same
/// hash share the limits of one source.
pub(crate) const SOURCES: usize = 256;
/// Period of this limit.
pub(crate) const SOURCE_PERIOD: Duration = Duration::from_secs(1);
/// If a source uses less than this part of a grant, all its flows together are limited to the
/// larger of `REUSE` times the used rate, this part of the grant …
pub(crate) const REUSE: u64 = 8;
/// … and this part of the capacity. A used grant raises the limit to at least twice this grant, and
/// each period of `FORGIVEN_AFTER` doubles it.
pub(crate) const LEAST_PART: u64 = 64;
pub(crate) const FORGIVEN_AFTER: Duration = Duration::from_secs(8);

/// A grant must be used within an RTT and within 3 s (RFC 4782 §4.4).
pub(crate) const LATEST_START: Duration = Duration::from_secs(3);
/// RTTs for which a sender waits for an answer, because the receiver may delay its acknowledgement.
pub(crate) const ANSWER_RTTS: u32 = 2;
/// Maximum number of repetitions if the question's packet was lost, and the time for them, in
/// multiples of the time for an answer. A loss is detected one and a half RTTs after the question
/// was sent, or up to two if the path reorders.
pub(crate) const REPEATS: u32 = 2;
pub(crate) const REPEAT_TIME: u32 = 3;
/// Maximum number of repetitions of a denied question, each a round trip later, because the first
/// question may be too early: flows with a grant may have returned a part by then.
pub(crate) const DENIED_AGAIN: u32 = 2;
/// A grant is not used if at least this many packets, and one in `FIRST_LOST.1`, of those before
/// the flight are lost beyond the expected loss, because their hop hasn't granted anything.
pub(crate) const FIRST_LOST: (u64, u64) = (2, 4);

/// If TTLs show a hop that didn't take part, the flight's rate is the granted rate divided by this:
/// the half that RFC 9959 allows for unconfirmed capacity. Arrivals confirm the rest.
pub(crate) const UNSEEN_HOP: u64 = 2;

/// Flows share a start if they ask within this part of a round trip. A flow that asks later finds
/// the link in use, just like one that asks in the next round trip. With files arriving at random,
/// sharing starts with all questions of a round trip would make them end a fifth later.
const TOGETHER: u32 = 8;
