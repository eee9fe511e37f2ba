//! Writing of packets: header, acknowledgements, and sealing.

use core::ops::Range;

use super::PacketSpaces;
use crate::connection::building::Open;
use crate::connection::handshake::ACK_DELAY_EXPONENT;
use crate::connection::keys::unsealed;
use crate::connection::paths::Feedback;
use crate::wire::packet::{Header, TruncatedNumber};
use crate::wire::{ConnectionId, Frame, SpaceId, TransportError, Writer};
use crate::{Duration, Instant};

impl PacketSpaces {
    /// Returns true if packets of `space` may be sent. This requires keys and, for data, that the
    /// handshake is `complete`. Exceptions are a client's 0-RTT packets and the answers of a server
    /// that accepts early data.
    pub(in crate::connection) fn may_send(&self, space: SpaceId, complete: bool) -> bool {
        if space != SpaceId::Data {
            return self.keys.has(space);
        }
        complete
            || self.keys.has_early()
                // [9000 13.2.6 early-data-acked]
                && (self.side.is_client() || self.keys.has(SpaceId::Data))
    }

    /// Returns the number of the next packet, and its encoding in a header.
    pub(in crate::connection) fn number(&self, space: SpaceId) -> (u64, TruncatedNumber) {
        let detector = self.recovery.space(space);
        let mut full = detector.sent().next_number();
        if space == SpaceId::Data && full == self.skip_number {
            full += 1;
        }
        (full, TruncatedNumber::new(full, detector.largest_acked()))
    }

    /// Writes a header, reserving room for the tag. Returns `None` if the remaining room is too
    /// small for the shortest packet that can be sealed, in which case the header may have been
    /// written. `token` is only used for Initial packets.
    pub(in crate::connection) fn start(
        &self,
        space: SpaceId,
        [dcid, scid]: [ConnectionId; 2],
        token: &[u8],
        w: &mut Writer<'_>,
    ) -> Option<Open> {
        let (full, number) = self.number(space);
        let header = match space {
            SpaceId::Initial => Header::Initial {
                dcid,
                scid,
                token,
                number,
            },
            SpaceId::Handshake => Header::Handshake { dcid, scid, number },
            // [9001 4.9 newest-keys]
            SpaceId::Data => match self.keys.phase() {
                Some(key_phase) => Header::OneRtt {
                    dcid,
                    number,
                    key_phase,
                    // [9000 17.4 spin-bit]
                    spin: false,
                },
                // [9001 5.6 server-seals-none]
                None if self.side.is_client() => Header::ZeroRtt { dcid, scid, number },
                None => return None,
            },
        };
        let tag_len = self.keys.tag_len(space);
        let end = w.limit();
        let started = header.encode(w).ok()?;
        let limit = end.checked_sub(tag_len)?;
        if started.sample_at() > limit {
            return None;
        }
        w.set_limit(limit);
        Some(Open {
            space,
            number: full,
            started,
            end,
            tag_len,
        })
    }

    /// Writes ACK and FEEDBACK frames if an ACK would contain news for the peer. Returns the
    /// largest number in it. `with_data` is true if other frames should follow.
    pub(in crate::connection) fn write_acks(
        &mut self,
        now: Instant,
        space: SpaceId,
        with_data: bool,
        feedback: &mut Feedback,
        w: &mut Writer<'_>,
    ) -> Option<u64> {
        let is_data = space == SpaceId::Data;
        // [9000 13.2.6 same-space]
        let received = self.received_mut(space);
        if !received.has_news() {
            return None;
        }
        // If the packet also carries data, ACK may fill at most half of the room.
        let limit = if with_data && is_data {
            w.remaining() / 2
        } else {
            w.remaining()
        };
        let acked = received.write_ack(now, w, ACK_DELAY_EXPONENT, limit);
        // [9000 19.21 known-to-peer]
        if is_data && feedback.offered() && self.keys.has(SpaceId::Data) {
            feedback.write_frames(now, w);
        }
        acked
    }

    /// Writes ACK_FREQUENCY if the request has changed, and returns its sequence number. `interval`
    /// is the one over which routers measure, and `window` is in datagrams.
    pub(in crate::connection) fn write_ack_request(
        &mut self,
        now: Instant,
        interval: Option<Duration>,
        window: u64,
        w: &mut Writer<'_>,
    ) -> Option<u64> {
        let threshold = self.recovery.space(SpaceId::Data).reordering().packets();
        let srtt = self.recovery.rtt().srtt();
        let frequency = self
            .ack_request
            .poll(now, srtt, interval, window, threshold)?;
        let sequence = frequency.sequence;
        let written = Frame::AckFrequency(frequency).encode(w).is_ok();
        if !written {
            self.ack_request.on_lost(sequence);
        }
        self.after_data_ack();
        written.then_some(sequence)
    }

    /// Seals a packet and returns its range. If this fails, the packet is removed from the writer.
    ///
    /// # Errors
    /// Returns AEAD_LIMIT_REACHED if the keys may not seal any more packets, and INTERNAL_ERROR if
    /// there's no room.
    pub(in crate::connection) fn seal(
        &mut self,
        open: &Open,
        w: &mut Writer<'_>,
    ) -> Result<Range<usize>, TransportError> {
        w.set_limit(open.end);
        let finished = open.started.finish(w, open.tag_len).ok();
        let packet = finished.and_then(|range| Some((w.range_mut(range.clone())?, range)));
        let sealed = match packet {
            Some((packet, range)) => self
                .keys
                .seal(open.space, open.number, &open.started, packet)
                .map(|()| range),
            None => Err(unsealed()),
        };
        if sealed.is_err() {
            w.truncate(open.started.start());
        }
        sealed
    }
}
