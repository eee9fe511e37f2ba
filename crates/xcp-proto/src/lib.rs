//! XCP on the wire.
//!
//! ```text
//!   sender                 router port                      receiver
//!   ──────                 ───────────                      ────────
//!   Repr::initial ─shim─►  stamp::from_… ► LinkController
//!                          stamp::… ◄───── XcpAnswer ─shim─►  Meter ─counters─► Controller
//! ```
//!
//! - [`header`]: the shim in its full and compact forms, as a checked view ([`Packet`]) and as
//!   typed fields ([`Repr`]).
//! - [`window`]: the compact form's feedback in 16 bits, and conversion between its window and the
//!   laws' rates.
//! - [`stamp`]: reads a packet's fields for a port's law, and writes a router's answers, which
//!   never raise the feedback, in a header or in an IP packet.
//! - [`counters`]: the counters of a receiver, and their interpretation by a sender.
//! - [`tunnel`]: merging a copy of a shim outside a tunnel into the inner shim.
//! - `signal` (feature `transport`): XCP as a signal of the transport, and virtual routers of a
//!   receiver behind hops without XCP routers.
//!
//! The laws themselves are in `pathmark-cc`; this crate contains the byte formats and the rules of
//! both ends. No input makes it panic or allocate.

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

pub mod counters;
pub mod header;
#[cfg(feature = "transport")]
mod signal;
pub mod stamp;
pub mod tunnel;
pub mod window;

#[cfg(test)]
#[path = "../../shim/tests/it/support.rs"]
mod support;

pub use header::{Form, Packet, Repr};
#[cfg(feature = "transport")]
pub use signal::{HostClouds, XcpSignal};
pub use stamp::Identity;
