//! Counters and measurements of a link.

mod counters;
mod delays;
mod gauge;

pub use counters::{DropCause, Drops, LinkStats};
pub use delays::Delays;
pub use gauge::{Gauge, Summary};
