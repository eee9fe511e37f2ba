//! CONNECTION_CLOSE in every packet number space that the peer can read (RFC 9000 §10.2).

use super::Transmit;
use super::building::{Contents, MIN_PACKET_ROOM, PacketBuilder, Permit};
use super::close::CloseReason;
use super::transmit::Sending;
use crate::Ecn;
use crate::wire::frame::{ApplicationClose, ConnectionClose};
use crate::wire::packet::TAG_LEN;
use crate::wire::{Frame, SpaceId, Writer};

/// Maximum length of a reason that is sent, in bytes, so that even three CONNECTION_CLOSE frames
/// fit into any datagram.
const MAX_REASON: usize = 256;

impl Sending<'_> {
    /// Builds a CONNECTION_CLOSE, if one is due, in a packet of each level whose keys the peer may
    /// have.
    pub(super) fn close(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let reason = self.lifecycle.due()?.clone();
        let full = self.paths.full_datagram();
        let room = buffer.get_mut(..full)?;
        let path = &self.paths.path;
        // [9000 10.2.1 closing-elsewhere]
        if !path.is_validated() && path.address.available() < full as u64 {
            return None;
        }
        let mut building = PacketBuilder::new(room, Permit::AcksOnly);
        let levels = SpaceId::ALL.map(|space| {
            // Before the handshake is complete, a server's client may lack 1-RTT keys but has the
            // others.
            // [9000 10.2.3 close-in-one-rtt]
            let complete = self.sources.handshake.is_complete();
            self.spaces.keys.has(space) && (space != SpaceId::Data || complete)
        });
        let last = SpaceId::ALL
            .into_iter()
            .zip(levels)
            .rfind(|(_, has)| *has)?
            .0;
        let pad = self.spaces.keys.has(SpaceId::Initial);
        for (space, has) in SpaceId::ALL.into_iter().zip(levels) {
            if has && building.w.remaining() >= MIN_PACKET_ROOM {
                let pad = pad.then_some(space == last);
                self.close_packet(space, &reason, pad, &mut building);
            }
        }
        self.lifecycle.on_close_sent(self.now);
        let len = building.len();
        if len == 0 {
            return None;
        }
        self.on_datagram_sent(len);
        Some(self.paths.path.transmit(Ecn::NotEct, len, len))
    }

    /// Builds one packet. `pad` is given if the datagram must be of full size, and is true for the
    /// last of its packets. A packet that leaves no room for others is the last, too.
    fn close_packet(
        &mut self,
        space: SpaceId,
        reason: &CloseReason,
        pad: Option<bool>,
        building: &mut PacketBuilder<'_>,
    ) {
        let start = building.w.position();
        let dcid = self.sources.control.remote_ids.current().id;
        let Some(open) = self.start(space, &dcid, &mut building.w) else {
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
        self.finish(&open, contents, &mut building.w);
    }
}

/// Maximum size of a CONNECTION_CLOSE frame without its reason: type, code, frame type, and length.
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
    // A code beyond 2^62 can't be encoded, but the connection must still close.
    if written.is_err() && space == SpaceId::Data {
        let _ = Frame::ApplicationClose(ApplicationClose {
            error_code: 0,
            reason: &[],
        })
        .encode(w);
    }
}
