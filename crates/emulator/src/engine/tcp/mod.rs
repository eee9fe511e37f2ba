//! A TCP of the papers' time: Reno without selective acknowledgements, as in ns-2.
//!
//! It has no connection of this library. After a timeout, it sends everything again from the first
//! missing segment on (go-back-N), although the receiver may have kept most of it. If routers
//! change the window, losses and timeouts still lower it as in Reno.

mod receiver;
mod segment;
mod sender;
mod timer;

pub(super) use receiver::{TcpReceiver, room};
pub(super) use sender::{TcpSender, TcpSetup, shim_len};
