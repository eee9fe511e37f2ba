//! A law that follows the protocol of the path's routers.
//!
//! ```text
//!   XCP's grants  ◄─the bottleneck port runs the other law─►  VCP's codes
//!        └──────── CUBIC while no router answers ────────────────┘
//! ```
//!
//! Every port with a control law answers both kinds of packets: its own protocol's as measured, and
//! the other protocol's by translation. It marks this next to the identity of the router that
//! limits the flow (`docs/wire.md`, sections 3 and 6). The sender begins with XCP's header, asks
//! for a starting rate, and changes to the law of the port that limits it. It passes on the window,
//! RTTs, and the record of losses, so that the flow neither stalls nor bursts.

mod judge;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use sender::AutoSender;
