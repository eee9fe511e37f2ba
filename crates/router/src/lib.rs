//! A userspace router whose ports mark load into the packets that pass.
//!
//! [`core`] is the router without I/O, the same under a virtual clock as on TUN interfaces.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

#[cfg(feature = "daemon")]
pub mod cli;
#[cfg(feature = "config")]
pub mod config;
pub mod core;
#[cfg(feature = "daemon")]
pub mod daemon;
pub mod forward;
pub mod ip;
pub mod offload;
#[cfg(feature = "daemon")]
pub mod tun;
