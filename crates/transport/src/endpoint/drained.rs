//! Connections that their peers have closed (RFC 9000 §10.2.2). Nothing is sent for them any more,
//! so they are dropped at once, and with them nearly all of their memory. What is still under way
//! to them is known by its ids for three probe timeouts, and dropped: it is worth no stateless
//! reset, and a client's first packet that comes again begins no connection.

use std::collections::VecDeque;

use super::demux::{Demux, Known};
use crate::Instant;

/// Connections whose ids are kept. Beyond them the oldest are forgotten.
const MOST: usize = 4096;

/// Connections for whose ids room stays.
const KEPT: usize = 64;

/// The ids of connections that were closed by their peers.
#[derive(Debug, Default)]
pub(super) struct Drained {
    /// Until when, in the order in which they were closed.
    ids: VecDeque<(Instant, Known)>,
}

impl Drained {
    /// Keeps the ids of a connection until then, or until as many others have come.
    pub(super) fn add(&mut self, until: Instant, known: Known, demux: &mut Demux) {
        if self.ids.len() >= MOST
            && let Some((_, oldest)) = self.ids.pop_front()
        {
            demux.forget(oldest);
        }
        self.ids.push_back((until, known));
    }

    /// Forgets those whose time is over, but for such as were closed after one that has more time:
    /// to be asked often.
    #[inline]
    pub(super) fn forget_old(&mut self, now: Instant, demux: &mut Demux) {
        while let Some((until, _)) = self.ids.front()
            && *until <= now
            && let Some((_, known)) = self.ids.pop_front()
        {
            demux.forget(known);
            if self.ids.is_empty() {
                self.ids.shrink_to(KEPT);
            }
        }
    }

    /// Those whose ids are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Random;
    use crate::endpoint::ConnectionHandle;
    use crate::wire::ConnectionId;

    #[test]
    fn no_more_are_kept_than_may_be() {
        let mut demux = Demux::new(&mut Random::from_u64(1));
        let mut drained = Drained::default();
        let until = Instant::from_millis(5);
        for n in 0..2 * MOST as u64 {
            let id = ConnectionId::new(&n.to_be_bytes()).unwrap();
            demux.add_id(ConnectionHandle(7), &id);
            let known = demux.leave(ConnectionHandle(7));
            drained.add(until, known, &mut demux);
        }
        assert_eq!((drained.len(), demux.len()), (MOST, MOST));
        assert!(demux.capacity() >= MOST && drained.ids.capacity() >= MOST);
        drained.forget_old(Instant::from_millis(4), &mut demux);
        assert_eq!(drained.len(), MOST);
        drained.forget_old(until, &mut demux);
        assert_eq!((drained.len(), demux.len()), (0, 0));
        // The memory goes with them.
        assert!(demux.capacity() <= 4 * 2048, "{}", demux.capacity());
        assert!(drained.ids.capacity() <= KEPT);
    }
}
