//! What applications and logs see of a connection: reports, counters, its end, and its events.

mod error;
mod report;
mod rtt_histogram;
mod stats;
mod trace;

pub use error::{ApplicationClose, ConnectionError};
pub use report::{BoundShares, PathReport};
pub use rtt_histogram::RttHistogram;
pub use stats::Stats;
pub(crate) use trace::Tracing;
pub use trace::{Trace, TraceEvent, TraceFactory, TracedPacket, TracedRecovery};
