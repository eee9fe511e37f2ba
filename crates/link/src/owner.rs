//! What a port asks of the code that holds its packets.

use pathmark_cc::Answer;

use crate::stats::DropCause;

/// The owner of the packets that pass through a port: writes marks into them and takes back dropped
/// ones.
pub trait Owner<P> {
    /// The packet leaves for the wire; write `answer` into it. Not called for [`Answer::None`].
    fn mark(&mut self, packet: &mut P, answer: &Answer);

    /// The same for one of the packets of a run, counted from 0; see
    /// [`Port::arrive_run`](crate::port::Port::arrive_run).
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
