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
//! | [`queue`] | DropTail, RED, CoDel |
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
pub mod owner;
pub mod port;
pub mod queue;
pub mod schedule;
pub mod separation;
pub mod shaper;
pub mod stats;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod wire;

pub use link::{Link, LinkConfig};
pub use owner::Owner;
pub use port::{Departure, Port, Rebuild};
pub use schedule::{Change, Restart, Schedule};
pub use separation::Separation;
pub use shaper::{Retimed, Shaper};
pub use stats::{Delays, DropCause, Drops, Gauge, LinkStats, Summary};
pub use wire::{Jitter, Wire, WireConfig};
