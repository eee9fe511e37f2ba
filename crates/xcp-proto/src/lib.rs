//! XCP on the wire.
//!
//! ```text
//!   sender                 router port                      receiver
//!   ──────                 ───────────                      ────────
//!   Repr::initial ─shim─►  carried::read ► LinkController
//!                          stamp::… ◄───── XcpAnswer ─shim─►  Meter ─counters─► difference ► Controller
//! ```
//!
//! - [`header`]: the shim in its full and compact forms, as a checked view ([`Packet`]) and as
//!   typed fields ([`Repr`]).
//! - [`h_feedback`]: the compact form's feedback in 16 bits.
//! - [`window`]: between the compact form's window and the rates of the laws.
//! - [`stamp`]: what a router writes, which only ever lowers; in a header and in an IP packet in
//!   place.
//! - [`carried`]: what a packet tells the link half of the law.
//! - [`counters`]: what a receiver counts and how a sender reads it.
//! - [`tunnel`]: what a copy of a shim outside a tunnel leaves in the shim inside.
//! - `signal` (feature `transport`): XCP as a signal of the transport.
//! - `host` (feature `transport`): virtual routers of a receiver behind hops that are no XCP
//!   routers.
//!
//! The laws themselves are in `pathmark-cc`; here are bytes and the rules of both ends. Nothing
//! panics or allocates, whatever arrives.

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

pub mod carried;
pub mod counters;
pub mod h_feedback;
pub mod header;
#[cfg(feature = "transport")]
mod host;
#[cfg(feature = "transport")]
mod signal;
pub mod stamp;
pub mod tunnel;
pub mod window;

pub use header::{Form, Packet, Repr};
#[cfg(feature = "transport")]
pub use host::HostClouds;
#[cfg(feature = "transport")]
pub use signal::XcpSignal;
pub use stamp::Identity;
