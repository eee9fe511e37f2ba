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

use pathmark_cc::{KnownPath, Request};

use super::building::Contents;
use super::feedback::ShimUse;
use super::{Connection, Transmit};
use crate::wire::{Frame, SpaceId, Writer};
use crate::{Ecn, Instant};

/// What a connection knows of its path beforehand, and leaves to later ones.
#[derive(Debug, Default)]
pub(super) struct RememberedPath {
    known: Option<KnownPath>,
    /// [`ShownPath`] was handed out.
    reported: bool,
}

/// What a connection has shown of its path, for later ones between the same addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownPath {
    /// The most that it carried within a round trip, if that is worth a question.
    pub path: Option<KnownPath>,
    /// Routers of this path were asked for what was known before.
    pub asked: bool,
}

impl Connection {
    /// What is known of the path from an earlier connection; the configured rate counts
    /// before it. Call it before the first [`poll_transmit`](Self::poll_transmit).
    pub const fn set_known_path(&mut self, known: Option<KnownPath>) {
        self.remembered_path.known = known;
    }

    /// What the connection has measured of its path: once, when it closes after its handshake.
    /// Nothing of an address that is not validated: the peer may have forged it.
    pub fn poll_shown_path(&mut self) -> Option<ShownPath> {
        if self.remembered_path.reported || self.close.is_open() || !self.is_complete() {
            return None;
        }
        self.remembered_path.reported = true;
        self.address.limit.is_validated().then(|| ShownPath {
            path: self.route.arrivals.known(),
            asked: self.route.asked,
        })
    }

    /// What is known of the path, for questions.
    fn known_path(&self) -> Option<KnownPath> {
        let configured = self.config.known_rate;
        let configured = configured.map(|rate| KnownPath { rate, rtt: None });
        configured.or(self.remembered_path.known)
    }

    /// True if a question may leave before the handshake is complete. No router is asked for a path
    /// to an address that is not validated: the peer may have forged it.
    fn may_ask_ahead(&self) -> bool {
        let keys = match self.side.is_client() {
            true => self.keys.zero_rtt.is_some(),
            false => self.keys.one_rtt.is_some(),
        };
        keys && !self.is_complete()
            && self.feedback.question_len() > 0
            && self.address.limit.is_validated()
            && self.route.controller.asks()
    }

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
        let known = self.known_path()?;
        if !self.may_ask_ahead() || !self.route.plain.wants_shim(now, None) {
            return None;
        }
        // As long as the packets whose rate it asks for.
        let size = u64::from(self.route.mtud.mtu());
        if self.recovery.bytes_in_flight() + size > self.route.controller.window() {
            return None;
        }
        let room = buffer.get_mut(..usize::try_from(size).ok()?)?;
        let random = self.random.next_u64();
        let question = self.route.controller.ask_ahead(now, random, &known)?;
        let mut request = Request::default();
        request.quick_start = Some(question);
        let mut w = Writer::new(room);
        let len = self.feedback.question_len();
        self.feedback.fill_question(&request, w.take(len).ok()?);
        let dcid = self.control.remote_ids.current().id;
        let open = self.start_packet(SpaceId::Data, &dcid, &mut w)?;
        Frame::Ping.encode(&mut w).ok()?;
        let rest = w.remaining();
        w.put_zeros(rest).ok()?;
        let long = open.started.ty().is_long();
        let ecn = match long {
            true => Ecn::NotEct,
            false => self.route.ecn(self.feedback.signal()),
        };
        let contents = Contents {
            eliciting: true,
            padded: true,
            shim: ShimUse::Question(len),
            ecn,
            ..Contents::default()
        };
        self.finish_packet(now, &open, contents, &mut w)?;
        self.route.asked = true;
        let len = w.position();
        self.on_datagram_sent(len);
        Some(Transmit {
            remote: self.address.remote,
            local: self.address.local,
            ecn,
            len,
            segment_size: len,
        })
    }
}
