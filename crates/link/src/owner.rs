//! The interface between a port and the code that owns its packets.

use pathmark_cc::Answer;

use crate::stats::DropCause;

/// The owner of the packets that pass through a port. It writes marks into packets and takes
/// back dropped ones.
pub trait Owner<P> {
    /// Writes `answer` into a packet that leaves for the wire. Not called for [`Answer::None`].
    fn mark(&mut self, packet: &mut P, answer: &Answer);

    /// Writes `answer` into one of the packets of a run, counted from 0; see
    /// [`Port::arrive_run`](crate::port::Port::arrive_run).
    fn mark_one(&mut self, run: &mut P, index: u32, answer: &Answer) {
        let _ = index;
        self.mark(run, answer);
    }

    /// Number of IP packets that a packet consists of.
    fn packets(&self, packet: &P) -> u32 {
        let _ = packet;
        1
    }

    /// Takes back a dropped packet.
    fn dropped(&mut self, packet: P, cause: DropCause);
}
