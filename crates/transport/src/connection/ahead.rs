//! A question for a starting rate that leaves before the handshake is complete, for a rate that is
//! known of the path. It rides in front of a datagram of its own, behind all else there is to send:
//!
//! ```text
//!   client, may send early data     Initial, 0-RTT …        shim + 0-RTT [PING, padding]
//!   server, address is validated    Initial, Handshake …    shim + 1-RTT [PING, padding]
//! ```
//!
//! A client asks a server that advertised the signal when the resumed session began, a server a
//! client whose ClientHello names it. Both answer with the handshake's next flight.

use super::building::Contents;
use super::{Connection, Transmit};
use crate::wire::{Frame, SpaceId, Writer};
use crate::{Ecn, Instant};

impl Connection {
    /// The question, if there is one to ask before the handshake is complete.
    #[inline]
    pub(super) fn transmit_question(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        if self.is_complete() {
            return None;
        }
        self.question_ahead(now, buffer)
    }

    #[cold]
    fn question_ahead(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        let known = self.paths.known()?;
        let keys = match self.side.is_client() {
            true => self.spaces.keys().has_early(),
            false => self.spaces.keys().has(SpaceId::Data),
        };
        let path = self.paths.path_mut();
        if !keys || !path.may_ask(now) {
            return None;
        }
        // As long as the packets whose rate it asks for.
        let size = u64::from(path.mtu());
        if self.spaces.recovery().bytes_in_flight() + size > path.window() {
            return None;
        }
        let room = buffer.get_mut(..usize::try_from(size).ok()?)?;
        let mut w = Writer::new(room);
        let random = self.random.next_u64();
        let shim = path.write_question_ahead(now, random, &known, &mut w)?;
        let dcid = self.control.remote_ids.current().id;
        let open = self.start_packet(SpaceId::Data, &dcid, &mut w)?;
        Frame::Ping.encode(&mut w).ok()?;
        let rest = w.remaining();
        w.put_zeros(rest).ok()?;
        let long = open.started.ty().is_long();
        let ecn = match long {
            true => Ecn::NotEct,
            false => self.paths.path().mark(),
        };
        let contents = Contents {
            eliciting: true,
            padded: true,
            shim,
            ecn,
            ..Contents::default()
        };
        self.finish_packet(now, &open, contents, &mut w)?;
        self.paths.path_mut().on_asked_ahead();
        let len = w.position();
        self.on_datagram_sent(len);
        Some(self.paths.path().transmit(ecn, len, len))
    }
}
