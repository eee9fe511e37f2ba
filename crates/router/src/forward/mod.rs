//! The complete router without I/O: it receives, routes, queues and marks packets.
//!
//! ```text
//!   receive ─► checks ─► route ─► TTL ─► MTU ─► cut ─► Link (port and wire) ─► poll
//!                 └─ ICMP ◄──┴──────┴───────┘
//! ```

mod accept;
mod addresses;
mod classify;
mod cloud_meter;
mod clouds;
mod cut;
mod deadlines;
#[cfg(test)]
mod duty_tests;
#[cfg(test)]
mod entry_tests;
mod examine;
mod frame;
#[cfg(test)]
mod idle_tests;
#[cfg(test)]
mod memory_tests;
mod own_udp;
mod pool;
mod port;
#[cfg(test)]
mod quick_start_tests;
mod refuse;
mod route;
mod router;
#[cfg(test)]
mod super_tests;
mod tally;
#[cfg(test)]
mod tally_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trust_tests;
#[cfg(test)]
mod tunnel_tests;
mod turns;
#[cfg(test)]
mod xcp_tests;

pub use classify::{Classifier, EcnRule, write_answer};
pub use cloud_meter::{CloudMeter, Estimated, MessageCounts};
pub use frame::Frame;
pub use own_udp::HEADERS;
pub use pathmark_protocols::shim::Identity;
pub use pool::{LARGE, Pool, USUAL, WORKING, cost};
pub use port::{PortSettings, RouterPort, Trust};
pub use router::{Router, RouterConfig, Target, route_table};
pub use tally::{Counters, Refused, Tally, TunnelTally};
