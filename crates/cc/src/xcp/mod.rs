//! XCP, the eXplicit Control Protocol. Each packet requests a change of rate, and each router
//! lowers the request as far as necessary.
//!
//! ```text
//!   port/      sums.rs, interval.rs: y, d, q of an interval ─► fairness.rs: F ─► share per packet
//!                                                                                          │
//!   sender/    request.rs: RTT, X, wish ─► header ─► routers lower the wish ─► receiver sums ┘─► window += Σ · srtt
//! ```
//!
//! Computations use the *rate form*; headers in the papers' window form are converted to it
//! (`params.rs`). All state is integer. The following table gives scales and bounds (section
//! II-E of the XCP Linux paper, for this implementation), for capacities from 10^3 to 10^12 B/s,
//! RTTs up to 65.535 s, packets up to 9000 bytes and up to 2^20 flows:
//!
//! | quantity | type | unit | bits at most |
//! |---|---|---|---|
//! | inter-packet time X | u64 | 2^-40 s | 47 (one RTT) |
//! | Σ X of an interval | u128 | 2^-40 s | 67 |
//! | Σ X·RTT | u128 | 2^-40 s · µs | 91 |
//! | bytes of an interval, queue | u64 | B | 57 (saturating) |
//! | capacity, input y | u64 | 2^-16 B/s | 56; y 62 (saturating) |
//! | α·(C − y), β·q/d before division | i128 | 10^-6 · 2^-16 B/s | 92 |
//! | F, feedback of one packet | i64 | 2^-16 B/s | 62 (saturating) |
//! | pools | u64 | 2^-16 B/s | 62 (saturating) |
//! | C_p, C_n | 63 bits and shift | 2^-16 B/s per 2^-40 s, per B | relative error 2^-59 |
//! | C_p·X, C_n·s before the shift | u128 | | 110 |
//! | window | u64 | 2^-16 B | 62 |
//! | Σ feedback · RTT | i128 | 2^-16 B/s · µs | 89 |
//!
//! Amounts that are given are rounded down, and amounts that are taken are rounded up.
//!
//! Sources: Katabi, Handley, Rohrs, "Congestion Control for High Bandwidth-Delay Product Networks"
//! (SIGCOMM 2002); draft-falk-xcp-spec-03 (rate form); the XCP Linux paper (Zhang, Henderson).

mod params;
mod port;
mod sender;

#[cfg(test)]
mod oracle;

pub use params::{
    Capacity as XcpCapacity, CloudParams, ExactEstimate, WindowForm, XcpLinkParams, XcpLoss,
    XcpParams,
};
pub use port::XcpLink;
pub(crate) use sender::{PublishedXcp, XcpLaw, XcpSender, path};
