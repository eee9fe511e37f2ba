//! Control laws over emulated paths.

mod hidden;
mod sim;
mod targets;
mod xcp;
mod xcp_trust;
