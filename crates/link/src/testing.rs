//! An owner that records marks and drops.

use pathmark_cc::Answer;

use crate::owner::Owner;
use crate::stats::DropCause;

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
