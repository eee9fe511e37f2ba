//! Time, integer arithmetic and meters that laws of all kinds use.

pub(crate) mod arith;
pub(crate) mod offered;
pub(crate) mod power;
pub(crate) mod rtt_sketch;
mod time;
pub(crate) mod window;

pub use time::{Duration, Instant};
