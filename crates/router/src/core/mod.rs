//! The router without I/O: ports, queues, shapers, impairments, routes.
//!
//! ```text
//!            ┌───────────────────────── Link ─────────────────────────────┐
//!  arrival ──► Port: controller ─► queue ─► shaper ─► mark │ Wire: loss, delay, jitter ─► next hop
//!            └────────────────────────────────────────────────────────────┘
//! ```
//!
//! Packets are a type parameter `P`: the TUN driver passes handles of pooled buffers, an emulator
//! whatever it likes; nothing here looks inside one. What the core must know of a packet comes in
//! as an [`Arrival`](pathmark_cc::Arrival), what is to be written into it goes out through its
//! [`Owner`]. `now` comes in, deadlines go out. Every buffer has a limit.

mod delays;
mod flows;
mod follow;
mod gauge;
pub mod impair;
mod link;
mod port;
#[cfg(test)]
mod port_tests;
pub mod queue;
#[cfg(test)]
mod rate_tests;
mod schedule;
mod separation;
mod shaper;
#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
mod sparse_tests;
mod stats;
pub mod trace;

use pathmark_cc::Answer;

pub use delays::Delays;
pub use gauge::{Gauge, Summary};
pub use link::{Link, LinkConfig};
pub use port::{Departure, Port, Rebuild};
pub use schedule::{Change, Restart, Schedule};
pub use separation::Separation;
pub use shaper::{Retimed, Shaper};
pub use stats::{DropCause, Drops, LinkStats};

/// Whoever owns the packets that pass through a port: writes marks into them and takes back dropped
/// ones.
pub trait Owner<P> {
    /// The packet leaves for the wire; write `answer` into it. Not called for [`Answer::None`].
    fn mark(&mut self, packet: &mut P, answer: &Answer);

    /// The same for one of the packets of a run (see [`Port::arrive_run`]), counted from 0.
    fn mark_one(&mut self, run: &mut P, index: u32, answer: &Answer) {
        let _ = index;
        self.mark(run, answer);
    }

    /// IP packets that a packet stands for.
    fn packets(&self, packet: &P) -> u32 {
        let _ = packet;
        1
    }

    /// The packet goes no further.
    fn dropped(&mut self, packet: P, cause: DropCause);
}

#[cfg(test)]
pub(crate) mod testing {
    //! An owner that remembers what happened.

    use super::{Answer, DropCause, Owner};

    #[derive(Debug, Default)]
    pub(crate) struct Log {
        pub(crate) marks: Vec<(u32, Answer)>,
        pub(crate) drops: Vec<(u32, DropCause)>,
    }

    impl Owner<u32> for Log {
        fn mark(&mut self, packet: &mut u32, answer: &Answer) {
            self.marks.push((*packet, *answer));
        }
        fn dropped(&mut self, packet: u32, cause: DropCause) {
            self.drops.push((packet, cause));
        }
    }
}
