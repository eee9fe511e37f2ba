//! IP: routes, ICMP, fragmentation, reassembly and checksums.
//!
//! These parts still do no I/O. They turn packets into verdicts and replies.

mod checksum;
mod fragment;
mod icmp;
#[cfg(test)]
mod icmp_tests;
mod limit;
mod reassembly;
mod route;
mod table;

pub use checksum::complete;
pub use fragment::{BadFragment, Fragments};
pub use icmp::{IcmpError, checksum_holds, echo_reply, error as icmp_error};
pub use limit::TokenBucket;
pub use reassembly::{Reassembly, cut_v6};
pub use route::{Prefix, PrefixError, RouteTable, Routes};
