//! The law that follows the protocol of the path's routers.
//!
//! ```text
//!   XCP's grants  ◄──the narrow port runs the other law──►  VCP's codes
//!        └──────── CUBIC while no router answers ────────────────┘
//! ```
//!
//! Every port with a control law answers both kinds of packets: its own as it measures, and the
//! other's in translation. It marks that next to the identity of the router that bounds the flow
//! (`docs/wire.md`, sections 3 and 6). The sender begins with XCP's header, asks for a rate to
//! start with, and changes to the law of the port that bounds it. Window, round trips, and the
//! record of losses are passed on, so that the flow neither stalls nor bursts.

mod judge;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use sender::AutoSender;
