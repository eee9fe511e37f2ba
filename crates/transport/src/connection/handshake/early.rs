//! 1-RTT packets that arrived before the end of the handshake, which are kept until they can be
//! read (RFC 9001 §5.7).
//!
//! A port may queue datagrams with shims separately from those of the handshake, so it is normal
//! that the first data arrives before its end.

use std::collections::VecDeque;

use pathmark_shim::frame;

use crate::connection::Received;
use crate::wire::packet::LONG_FORM;

/// Maximum number of datagrams kept, and of their bytes: about an initial window.
const MOST: usize = 10;
const MOST_BYTES: usize = 15_000;

/// Datagrams that arrived too early. Most connections don't have any.
#[derive(Debug, Default)]
pub(super) struct Early(Option<Box<EarlyDatagrams>>);

#[derive(Debug, Default)]
struct EarlyDatagrams {
    datagrams: VecDeque<(Received, Vec<u8>)>,
    bytes: usize,
}

impl Early {
    /// Keeps a datagram that only contains a 1-RTT packet, as long as there's room. Returns false
    /// for any other.
    pub(super) fn keep(&mut self, received: &Received, datagram: &[u8]) -> bool {
        let at = frame::declared_len(datagram).unwrap_or(0);
        if datagram.get(at).is_none_or(|first| first & LONG_FORM != 0) {
            return false;
        }
        self.store(received, datagram)
    }

    /// Keeps a datagram as long as there's room.
    pub(super) fn store(&mut self, received: &Received, datagram: &[u8]) -> bool {
        let kept = self.0.get_or_insert_default();
        if kept.datagrams.len() >= MOST || kept.bytes + datagram.len() > MOST_BYTES {
            return false;
        }
        kept.bytes += datagram.len();
        kept.datagrams.push_back((*received, datagram.to_vec()));
        true
    }

    /// Returns the first datagram. When none is left, the memory is freed.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(Received, Vec<u8>)> {
        let taken = self.0.as_mut()?.datagrams.pop_front();
        if taken.is_none() {
            self.0 = None;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::Ecn;

    #[test]
    fn keeps_an_initial_window_of_short_headers_in_order() {
        let received = Received {
            remote: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
            local: None,
            ecn: Ecn::NotEct,
            ttl: None,
        };
        let mut early = Early::default();
        assert!(!early.keep(&received, &[0xc0; 1200]), "a long header");
        assert!(!early.keep(&received, &[]));
        assert!(early.take().is_none());
        for number in 0..20 {
            assert_eq!(early.keep(&received, &[0x40, number]), number < 10);
        }
        for number in 0..10 {
            assert_eq!(early.take().unwrap().1, [0x40, number]);
        }
        assert!(early.take().is_none() && early.0.is_none());
        for number in 0..20 {
            assert_eq!(early.keep(&received, &[0x40; 7500]), number < 2);
        }
    }
}
