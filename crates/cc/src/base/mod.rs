//! Time, integer arithmetic, meters and the table of flows, for all kinds of laws.

#[cfg_attr(
    not(feature = "ablate"),
    expect(dead_code, unreachable_pub, reason = "only trials name mechanisms")
)]
pub(crate) mod ablate;
pub(crate) mod arith;
pub(crate) mod flow_table;
pub(crate) mod offered;
pub(crate) mod rtt_sketch;
mod time;

pub use time::{Duration, Instant};
