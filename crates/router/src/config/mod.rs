//! The router's configuration: TOML, read strictly.
//!
//! [`Config`] is what a file says, checked as a whole: every name resolves, every number makes
//! sense, and whoever asks for a router from it gets one. Errors name file, line and key, and the
//! nearest known word. The parts that describe a link ([`RateValue`], [`QueueSpec`], [`LossSpec`],
//! …) are shared with other readers of links, such as scenario files.

mod build;
mod check;
mod clouds;
#[cfg(test)]
mod edge_tests;
mod error;
#[cfg(test)]
mod law_tests;
mod link;
mod loss;
mod memory;
mod names;
mod read;
mod schema;
mod steer;
mod suggest;
#[cfg(test)]
mod tests;
mod trust;
mod units;

pub use build::{LinkContext, build_link, build_schedule, build_wire};
pub use clouds::{Secret, XcpISpec};
pub use error::{ConfigError, Fault, Source};
pub use link::{Chance, ChangeSpec, JitterSpec, LimitSpec, LinkSpec, QueueKind, QueueSpec};
pub use loss::{AntennasText, Decibel, FecSpec, LossSpec, MeanBurst};
#[cfg(feature = "daemon")]
pub(crate) use names::{PORT_NAME, is_port_name};
pub use read::open_regular;
pub(crate) use read::read_regular;
pub use schema::{Config, EcnSpec, IcmpSpec, Interface, PortSpec, RouteSpec};
#[cfg(feature = "daemon")]
pub(crate) use steer::DEFAULT_TABLE;
pub use steer::{HostSpec, OnStop, SteerSpec};
pub use suggest::nearest;
pub use units::{ByteCount, Percent, RateValue, Span, UnitError};
