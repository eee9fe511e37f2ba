//! Links without I/O: ports, queues, shapers, impaired wires, and the keys that describe them.
//!
//! ```text
//!            ┌───────────────────────── Link ─────────────────────────────┐
//!  arrival ──► Port: controller ─► queue ─► shaper ─► mark │ Wire: loss, delay, jitter ─► next hop
//!            └────────────────────────────────────────────────────────────┘
//! ```
//!
//! Packets have a type parameter `P`: the TUN driver passes handles of pooled buffers, and an
//! emulator its own packets. Because no code here looks into packets, a port must get the necessary
//! fields as an [`Arrival`](pathmark_cc::Arrival), and writes its answers through the packet's
//! [`Owner`]. Callers pass `now` and get deadlines in return. Every buffer has a limit.
//!
//! | module | holds |
//! |---|---|
//! | [`link`] | a port and the wire behind it, with a schedule of changes |
//! | [`port`] | control law, queue and transmitter of one output |
//! | [`separation`] | the two queues of a port that keeps packets with feedback apart |
//! | [`queue`] | DropTail, RED, CoDel, DualPI2; the interface to the owner of packets |
//! | [`measure`] | the rate of a slower link behind a port, from probes |
//! | [`shaper`], [`trace`] | the transmitter: a constant rate, or a recorded one |
//! | [`wire`], [`impair`] | propagation delay, jitter; random loss and codes |
//! | [`stats`] | counters and gauges of a link |
//! | `keys` (feature `config`) | links described in TOML |
//! | `law_view` (feature `config`) | a control law's state in reports |

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod flows;
pub mod impair;
#[cfg(feature = "config")]
pub mod keys;
#[cfg(feature = "config")]
pub mod law_view;
pub mod link;
pub mod measure;
pub mod port;
pub mod queue;
pub mod separation;
pub mod shaper;
pub mod stats;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod wire;

pub use crate::link::{Change, Link, LinkConfig, Restart, Schedule};
pub use crate::port::{Departure, Port, Rebuild};
pub use crate::queue::Owner;
pub use crate::separation::Separation;
pub use crate::shaper::{Retimed, Shaper};
pub use crate::stats::{Delays, DropCause, Drops, Gauge, LinkStats, Summary};
pub use crate::wire::{Jitter, Wire, WireConfig};
