//! The router's configuration: TOML, read strictly.
//!
//! [`Config`] is the content of a file, checked as a whole: every name resolves, every number is
//! plausible, and a router can be created from it. Errors name file, line and key, and suggest
//! the nearest known word. The keys of a port's link are [`pathmark_link::keys`].

mod check;
mod clouds;
#[cfg(test)]
mod edge_tests;
#[cfg(test)]
mod law_tests;
mod memory;
mod names;
mod read;
mod schema;
mod steer;
#[cfg(test)]
mod tests;

pub use clouds::{Secret, XcpISpec};
#[cfg(feature = "daemon")]
pub(crate) use names::{PORT_NAME, is_port_name};
pub use read::ConfigError;
pub use schema::{
    Config, EcnSpec, HostSpec, IcmpSpec, Interface, MeasureSpec, OnStop, PortSpec, RouteSpec,
    SteerSpec,
};
#[cfg(feature = "daemon")]
pub(crate) use steer::DEFAULT_TABLE;
