//! Connections that their peers have closed (RFC 9000 §10.2.2). Since nothing is sent for them
//! anymore, they are dropped immediately, which frees nearly all of their memory. Only their
//! ids are kept, for three probe timeouts, to recognize and drop late packets.
//! Otherwise, these would cause stateless resets, and a duplicate of a client's first packet
//! would begin a new connection.

use std::collections::VecDeque;

use super::demux::{Demux, Known};
use crate::Instant;

/// Maximum number of connections whose ids are kept. The oldest are forgotten first.
const MOST: usize = 4096;

/// Number of connections for whose ids capacity is always kept.
const KEPT: usize = 64;

/// The ids of connections that were closed by their peers.
#[derive(Debug, Default)]
pub(super) struct Drained {
    /// Expiry times and ids, in the order in which the connections were closed.
    ids: VecDeque<(Instant, Known)>,
}

impl Drained {
    /// Keeps the ids of a connection until this time, unless too many others follow.
    pub(super) fn add(&mut self, until: Instant, known: Known, demux: &mut Demux) {
        if self.ids.len() >= MOST
            && let Some((_, oldest)) = self.ids.pop_front()
        {
            demux.forget(oldest);
        }
        self.ids.push_back((until, known));
    }

    /// Forgets expired ids. Ids behind some that expire later are only forgotten after these.
    /// This is cheap enough to be called often.
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
        // Their memory is released as well.
        assert!(demux.capacity() <= 4 * 2048, "{}", demux.capacity());
        assert!(drained.ids.capacity() <= KEPT);
    }
}
