//! The demonstration: five concurrent files through a slow, distant and possibly lossy link,
//! with and without explicit feedback, and with the kernel's TCP. This is the experiment of the
//! VCP Linux paper (Li, Yousefi'zadeh, §IV): 10 Mbit/s, 400 ms round trip, five files of 5 MB.
//!
//! ```text
//!   node "server" ──tun── vcp-router (10 Mbit/s, 200 ms each way) ──tun── node "client"
//! ```
//!
//! Each run has its own test bed, so that all runs can be concurrent. In-process, each run uses
//! the emulator.

pub mod bed;
mod in_process;
pub mod kernel;
pub mod picture;
pub mod report;
pub mod rounds;
pub mod run;
pub mod scenario;
pub mod transfer;
