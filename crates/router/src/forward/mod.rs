//! The complete router without I/O: it receives, routes, queues and marks packets.
//!
//! ```text
//!   receive ─► checks ─► route ─► TTL ─► MTU ─► cut ─► Link (port and wire) ─► poll
//!                 └─ ICMP ◄──┴──────┴───────┘
//! ```

mod accept;
mod classify;
mod cloud_meter;
mod clouds;
mod deadlines;
#[cfg(test)]
mod duty_tests;
#[cfg(test)]
mod ecn_tests;
#[cfg(test)]
mod entry_tests;
#[cfg(test)]
mod idle_tests;
#[cfg(test)]
mod memory_tests;
mod pool;
mod port;
#[cfg(test)]
mod quick_start_tests;
mod refuse;
mod router;
#[cfg(test)]
mod super_tests;
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

pub use pathmark_protocols::shim::Identity;

pub use classify::{Classifier, EcnRule, write_answer};
pub use cloud_meter::{CloudMeter, Estimated, HEADERS, MessageCounts};
pub use pool::{Frame, LARGE, Pool, USUAL, WORKING, cost};
pub use port::{Counters, PortSettings, Refused, RouterPort, Tally, Trust, TunnelTally};
pub use router::{Router, RouterConfig, Target, route_table};
