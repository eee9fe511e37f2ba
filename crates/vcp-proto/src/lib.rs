//! VCP on the wire.
//!
//! ```text
//!   sender                 router port                      receiver
//!   ──────                 ───────────                      ────────
//!   Repr::initial ─shim─►  mark::from_… ► LinkController
//!                          mark::…  ◄───── VcpAnswer ─shim─►  Meter ─counters─► Controller
//! ```
//!
//! - [`header`]: the 16-byte shim, as a checked view ([`Packet`]) and as typed fields
//!   ([`Repr`]).
//! - [`mark`]: reads a packet's fields for a port's law, and the marking rule, which never lowers a
//!   code, in a header, in an IP packet, or in the other carrier, the IP ECN field, for paths that
//!   preserve nothing else.
//! - [`counters`]: the counters of a receiver, and their interpretation by a sender.
//! - [`rtt_class`]: a round-trip time in one byte.
//! - [`tunnel`]: merging a copy of a shim outside a tunnel into the inner shim.
//! - `signal` (feature `transport`): both carriers as signals of the transport.
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
pub mod mark;
pub mod rtt_class;
#[cfg(feature = "transport")]
mod signal;
pub mod tunnel;

#[cfg(test)]
#[path = "../../shim/tests/it/support.rs"]
mod support;

pub use header::{LEN, Packet, Repr};
#[cfg(feature = "transport")]
pub use signal::{VcpEcnSignal, VcpSignal};
