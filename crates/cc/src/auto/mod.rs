//! The law that listens to whatever the path's routers speak.
//!
//! ```text
//!   XCP's grants  ◄──the narrow port runs the other law──►  VCP's codes
//!        └──────── CUBIC while no router answers ────────────────┘
//! ```
//!
//! Every port with a control law answers both kinds of packets, its own as it measures and the
//! other's in translation, and says so beside the identity of the router that bounds the flow
//! (`docs/wire.md`, sections 3 and 6). The sender begins with XCP's header, asks for a rate to
//! start with, and goes over to the law of the port that bounds it. Window, round trips, and what
//! is known of losses go over with it, so that nothing stalls and nothing bursts.

mod judge;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use sender::AutoSender;
