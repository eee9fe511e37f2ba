//! All signalling protocols in one place: VCP, XCP and Quick-Start, and your own protocols.
//!
//! Routers, the emulator, the library and the commands read and write shims through this crate, so
//! that they don't depend on individual protocols.
//!
//! | module | contents |
//! |---|---|
//! | [`shim`] | reads the shim of a datagram for a port, and writes the port's answer into it |
//! | [`packet`] | the same for IP packets, including those that offload will segment |
//! | [`ecn`] | VCP's code in the IP ECN field |
//! | [`forged`] | shims for packets that no law would send, for testing ports |
//! | [`registry`] | [`Protocol`]: your own protocol, registered once |
//! | [`tunnel`] | copies a shim in front of a tunnel's packet, and merges the result back |
//! | `signals` (feature `transport`) | the signals of a law, for endpoints |

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

pub mod ecn;
pub mod forged;
pub mod packet;
pub mod registry;
pub mod shim;
#[cfg(feature = "transport")]
pub mod signals;
pub mod tunnel;

pub use registry::{Protocol, RegisterError, register};
