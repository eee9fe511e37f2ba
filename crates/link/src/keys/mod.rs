//! A link's keys: TOML, read strictly.
//!
//! [`LinkKeys`] declares the keys once, for both the ports of a router and the links of a
//! scenario. [`WithLink`] reads them along with other keys of a table, and [`LinkCheck`] turns
//! them into a [`LinkSpec`], from which [`build_link`] creates a link. A [`Fault`] names file,
//! line and key, and suggests the nearest known word.

mod build;
mod check;
mod fault;
mod link;
mod loss;
mod queue;
mod read;
mod schema;
mod suggest;
#[cfg(test)]
mod tests;
mod units;

pub use build::{LinkContext, build_link, build_schedule, build_wire};
pub use check::{LinkCheck, Pace, Reader};
pub use fault::{Fault, Source};
pub use link::{ChangeSpec, JitterSpec, LinkSpec};
pub use loss::{AntennasText, Decibel, FecSpec, LossSpec, MeanBurst, MeanStay};
pub use queue::{LimitSpec, QueueKind, QueueSpec};
pub use read::{open_regular, read_regular};
pub use schema::{Law, LinkKeys, WithLink};
pub use suggest::nearest;
pub use units::{ByteCount, Chance, Percent, RateValue, Span, UnitError};
