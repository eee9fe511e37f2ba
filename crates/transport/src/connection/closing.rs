//! Ending a connection: saying so, listening a while, forgetting (RFC 9000 §10.2).

use bytes::Bytes;

use super::building::{Building, Contents, MIN_PACKET_ROOM, Permit};
use super::close::{CloseReason, ConnectionError};
use super::lifecycle::Ending;
use super::{Connection, Event, Transmit};
use crate::wire::frame::{ApplicationClose, ConnectionClose};
use crate::wire::packet::TAG_LEN;
use crate::wire::{Frame, SpaceId, TransportError, TransportErrorCode, Writer};
use crate::{Ecn, Instant};

/// Most bytes of a reason that are sent: a CONNECTION_CLOSE fits into any datagram, three of them
/// even.
const MAX_REASON: usize = 256;

impl Connection {
    /// True once this side has closed the connection and a CONNECTION_CLOSE was built.
    #[must_use]
    pub fn has_sent_close(&self) -> bool {
        self.lifecycle.has_sent_close()
    }

    pub(super) fn close_by_application(&mut self, now: Instant, code: u64, reason: Bytes) {
        let reason = CloseReason::Application { code, reason };
        self.close_with(now, reason, ConnectionError::LocallyClosed);
    }

    /// The peer broke the rules, or the connection cannot go on: tell it and close.
    pub(super) fn fail(&mut self, now: Instant, error: TransportError) {
        let reason = CloseReason::Transport(error.clone());
        // [9000 10.3 close-if-able]
        self.close_with(now, reason, ConnectionError::Transport(error));
    }

    /// After a panic that may have left the connection half changed: the datagram that tells the
    /// peer of it (INTERNAL_ERROR), the last one. Of the connection only its keys, addresses and
    /// packet numbers are used, and no congestion controller. The batch that was being built as it
    /// panicked must not leave: its last packet's number may be used again here.
    pub fn close_after_panic(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        let error = TransportError::new(TransportErrorCode::INTERNAL_ERROR, "");
        self.lifecycle.close_last(error);
        self.transmit_close(now, buffer)
    }

    fn close_with(&mut self, now: Instant, reason: CloseReason, error: ConnectionError) {
        let pto = self.pto();
        let ending = self.lifecycle.close(now, pto, reason, error);
        self.on_ending(ending);
    }

    /// The peer closed: the connection sends no further packet (RFC 9000 §10.2.2).
    pub(super) fn drain(&mut self, now: Instant, error: ConnectionError) {
        let pto = self.pto();
        let ending = self.lifecycle.drain(now, pto, error);
        self.on_ending(ending);
    }

    /// The connection is over without a CONNECTION_CLOSE: timed out, reset, or no version in
    /// common.
    pub(super) fn lose(&mut self, now: Instant, error: ConnectionError) {
        let pto = self.pto();
        let ending = self.lifecycle.lose(now, pto, error);
        self.on_ending(ending);
    }

    fn on_ending(&mut self, ending: Ending) {
        let error = match ending {
            Ending::Known => return,
            Ending::Over(error) => error,
            Ending::Gone(error) => {
                self.remove_ids();
                error
            }
        };
        self.datagrams.stop();
        self.outbox.push(Event::Lost(error));
    }

    /// All is forgotten.
    pub(super) fn forget(&mut self) {
        self.lifecycle.forget();
        self.remove_ids();
    }

    /// The endpoint may remove its routes to this connection.
    fn remove_ids(&mut self) {
        for id in self.control.local_ids.iter() {
            self.outbox.remove_id(*id);
        }
    }

    /// CONNECTION_CLOSE, if one is due: under each level's keys that the peer may have.
    pub(super) fn transmit_close(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        let reason = self.lifecycle.due()?.clone();
        let full = self.paths.full_datagram();
        let room = buffer.get_mut(..full)?;
        let path = self.paths.path();
        // [9000 10.2.1 closing-elsewhere]
        if !path.is_validated() && path.available() < full as u64 {
            return None;
        }
        let mut building = Building::new(room, Permit::AcksOnly);
        let levels = SpaceId::ALL.map(|space| {
            // Before the handshake is complete a server's client may lack 1-RTT keys, but has the
            // others.
            // [9000 10.2.3 close-in-one-rtt]
            self.spaces.keys().has(space) && (space != SpaceId::Data || self.is_complete())
        });
        let last = SpaceId::ALL
            .into_iter()
            .zip(levels)
            .rfind(|(_, has)| *has)?
            .0;
        let pad = self.spaces.keys().has(SpaceId::Initial);
        for (space, has) in SpaceId::ALL.into_iter().zip(levels) {
            if has && building.w.remaining() >= MIN_PACKET_ROOM {
                let pad = pad.then_some(space == last);
                self.close_packet(now, space, &reason, pad, &mut building);
            }
        }
        self.lifecycle.on_close_sent(now);
        let len = building.len();
        if len == 0 {
            return None;
        }
        self.on_datagram_sent(len);
        Some(self.paths.path().transmit(Ecn::NotEct, len, len))
    }

    /// `pad`: the datagram is to be of full size, and this is the last of its packets. One after
    /// which there is no room for others is the last, too.
    fn close_packet(
        &mut self,
        now: Instant,
        space: SpaceId,
        reason: &CloseReason,
        pad: Option<bool>,
        building: &mut Building<'_>,
    ) {
        let start = building.w.position();
        let dcid = self.control.remote_ids.current().id;
        let Some(open) = self.start_packet(space, &dcid, &mut building.w) else {
            building.w.truncate(start);
            return;
        };
        write_close(space, reason, &mut building.w);
        let crowded = building.w.remaining() < MIN_PACKET_ROOM;
        let pad = pad.is_some_and(|last| last || crowded);
        let contents = Contents {
            padded: pad,
            ..Contents::default()
        };
        if pad {
            let full = self.paths.full_datagram().saturating_sub(TAG_LEN);
            let missing = full.saturating_sub(building.w.position());
            let fits = missing.min(building.w.remaining());
            let _ = building.w.put_zeros(fits);
        }
        self.finish_packet(now, &open, contents, &mut building.w);
    }
}

/// Bytes of a CONNECTION_CLOSE frame but for its reason, at most: type, code, frame type, length.
const CLOSE_FRAME: usize = 1 + 8 + 8 + 2;

fn write_close(space: SpaceId, reason: &CloseReason, w: &mut Writer<'_>) {
    // A long token leaves little room in an Initial packet.
    let most = w.remaining().saturating_sub(CLOSE_FRAME).min(MAX_REASON);
    let cut = |reason: &[u8]| reason.len().min(most);
    let written = match reason {
        CloseReason::Application { code, reason } if space == SpaceId::Data => {
            Frame::ApplicationClose(ApplicationClose {
                error_code: *code,
                reason: reason.get(..cut(reason)).unwrap_or(&[]),
            })
            .encode(w)
        }
        reason => {
            let error = reason.before_one_rtt();
            let text = error.reason.as_bytes();
            Frame::ConnectionClose(ConnectionClose {
                error_code: error.code,
                frame_type: error.frame_type,
                reason: text.get(..cut(text)).unwrap_or(&[]),
            })
            .encode(w)
        }
    };
    // A code beyond 2^62 cannot be encoded; the close itself can.
    if written.is_err() && space == SpaceId::Data {
        let _ = Frame::ApplicationClose(ApplicationClose {
            error_code: 0,
            reason: &[],
        })
        .encode(w);
    }
}
