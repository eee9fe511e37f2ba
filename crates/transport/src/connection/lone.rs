//! Datagrams with a single packet, which has one frame and padding. They are used on another path,
//! to test which size a path carries, and to carry a question for a starting rate.

use super::Transmit;
use super::building::Contents;
use super::paths::OffPathFrame;
use super::transmit::Sending;
use crate::Ecn;
use crate::wire::{ConnectionId, Frame, SpaceId, Writer};

impl Sending<'_> {
    /// Builds a PATH_RESPONSE on the path that the peer probes, or a PATH_CHALLENGE on the path
    /// that was left.
    pub(super) fn off_path(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        if !self.spaces.keys.has(SpaceId::Data) {
            return None;
        }
        let ids = &mut self.sources.control.remote_ids;
        let response = self.paths.poll_response(ids);
        let sent = response.and_then(|frame| self.off_path_datagram(buffer, &frame));
        if sent.is_some() {
            return sent;
        }
        let ids = &self.sources.control.remote_ids;
        let challenge = self.paths.poll_challenge(self.now, ids, self.random)?;
        self.off_path_datagram(buffer, &challenge)
    }

    fn off_path_datagram(&mut self, buffer: &mut [u8], frame: &OffPathFrame) -> Option<Transmit> {
        let mut w = Writer::new(buffer.get_mut(..frame.size)?);
        let contents = Contents {
            off_path: true,
            ..Contents::default()
        };
        self.filled_packet(&frame.dcid, &frame.frame(), contents, &mut w)?;
        let len = w.position();
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += len as u64;
        self.paths.on_off_path_sent(self.now, frame, len as u64);
        Some(Transmit {
            remote: frame.remote,
            local: frame.local,
            ecn: Ecn::NotEct,
            len,
            segment_size: len,
        })
    }

    /// Builds a probe for a larger datagram (RFC 8899). It consists of PING and padding, so that
    /// its loss does no harm. Probes aren't sent before the application has data to send, because a
    /// connection that only receives or is closed immediately would never benefit from them.
    pub(super) fn mtu_probe(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let path = &mut self.paths.path;
        let carries_data = path.route.carries_data(|| self.sources.has_data());
        if !carries_data || !self.sources.handshake.is_confirmed() || self.spaces.is_probing() {
            return None;
        }
        let in_flight = self.spaces.recovery.bytes_in_flight();
        let size = path.poll_mtu_probe(self.now, in_flight)?;
        let mut w = Writer::new(buffer.get_mut(..usize::from(size))?);
        let contents = Contents {
            mtu_probe: true,
            shim: self.write_request(None, &mut w),
            ecn: self.paths.path.mtu_probe_mark(),
            ..Contents::default()
        };
        let (number, transmit) = self.filled_datagram(contents, &mut w)?;
        self.paths.path.route.on_mtu_probe_sent(number, size);
        Some(transmit)
    }

    /// Builds a question for a starting rate, which is sent before the handshake is complete if a
    /// rate of the path is known. It has a separate datagram, which is sent after everything else:
    ///
    /// ```text
    ///   client, may send early data     Initial, 0-RTT …        shim + 0-RTT [PING, padding]
    ///   server, address is validated    Initial, Handshake …    shim + 1-RTT [PING, padding]
    /// ```
    ///
    /// A client asks if the server advertised the signal when the resumed session began, and a
    /// server asks if the ClientHello lists the signal. Both answer with the next flight of the
    /// handshake.
    #[inline]
    pub(super) fn question_ahead(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        if self.sources.handshake.is_complete() {
            return None;
        }
        self.ask_ahead(buffer)
    }

    #[cold]
    fn ask_ahead(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let known = self.paths.known()?;
        let keys = match self.side.is_client() {
            true => self.spaces.keys.has_early(),
            false => self.spaces.keys.has(SpaceId::Data),
        };
        let path = &mut self.paths.path;
        if !keys || !path.may_ask(self.now) {
            return None;
        }
        // The question has the size of the packets for whose rate it asks.
        let size = u64::from(path.mtu());
        if self.spaces.recovery.bytes_in_flight() + size > path.window() {
            return None;
        }
        let room = buffer.get_mut(..usize::try_from(size).ok()?)?;
        let mut w = Writer::new(room);
        let random = self.random.next_u64();
        let shim = path.write_question_ahead(self.now, random, &known, &mut w)?;
        let contents = Contents {
            shim,
            ecn: match self.spaces.keys.has(SpaceId::Data) {
                true => path.mark(),
                // A 0-RTT packet has a long header.
                false => Ecn::NotEct,
            },
            ..Contents::default()
        };
        let (_, transmit) = self.filled_datagram(contents, &mut w)?;
        self.paths.path.route.on_asked_ahead();
        Some(transmit)
    }

    /// Builds a datagram filled with PING and padding. Returns the number of its packet, too.
    fn filled_datagram(
        &mut self,
        contents: Contents,
        w: &mut Writer<'_>,
    ) -> Option<(u64, Transmit)> {
        let dcid = self.sources.control.remote_ids.current().id;
        let ecn = contents.ecn;
        let number = self.filled_packet(&dcid, &Frame::Ping, contents, w)?;
        let len = w.position();
        self.on_datagram_sent(len);
        Some((number, self.paths.path.transmit(ecn, len, len)))
    }

    /// Builds a packet with one frame, padded to the end of the room. Returns its number.
    fn filled_packet(
        &mut self,
        dcid: &ConnectionId,
        frame: &Frame<'_>,
        contents: Contents,
        w: &mut Writer<'_>,
    ) -> Option<u64> {
        let open = self.start(SpaceId::Data, dcid, w)?;
        frame.encode(w).ok()?;
        let rest = w.remaining();
        w.put_zeros(rest).ok()?;
        let contents = Contents {
            eliciting: true,
            padded: true,
            ..contents
        };
        self.finish(&open, contents, w)?;
        Some(open.number)
    }
}
