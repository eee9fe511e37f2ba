//! The router on TUN interfaces: the only part of this crate with system calls.
//!
//! ```text
//!   epoll ─► Device::read ─► Router::receive … Router::poll ─► Egress ─► Device::write
//!     └ deadlines of shapers and delay lines, signals, requests of the status socket
//! ```
//!
//! One thread forwards all packets. At these rates, the copies between kernel and process cost
//! more than everything else, and the two directions are not independent, because the ACKs of
//! one clock the other.

mod device;
mod driver;
pub(crate) mod links;
mod poller;
pub(crate) mod sys;

pub use device::{Device, DeviceError, Egress};
pub use driver::{Deaf, Driver, Event, Pace};
pub use links::{LinkKind, LinkState, Namespaces, Watch, find};
