//! Frames about the connection itself that are waiting to be sent.

use bytes::Bytes;

use super::outbox::Outbox;
use crate::cid::{LocalIds, RemoteIds};
use crate::crypto::{Random, ResetToken, SharedEndpointKey};
use crate::wire::frame::NewConnectionId;
use crate::wire::{ConnectionId, Frame, TransportParameters, Writer};

/// A frame that must arrive, with the information needed to repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControlFrame {
    HandshakeDone,
    NewToken,
    /// Its sequence number.
    NewConnectionId(u64),
    /// Its sequence number.
    RetireConnectionId(u64),
    /// Its sequence number. Only the latest request is repeated.
    AckFrequency(u64),
}

/// Connection IDs of both sides, and flags for frames without other state.
#[derive(Debug)]
pub(super) struct Control {
    /// Our ID during the handshake, which is the source ID of long headers.
    pub(super) handshake_id: ConnectionId,
    pub(super) local_ids: LocalIds,
    pub(super) remote_ids: RemoteIds,
    handshake_done: bool,
    /// A token for the client's next connection, until it is acknowledged.
    token: Option<Bytes>,
    token_due: bool,
    /// Whether a PING is due.
    pub(super) ping: bool,
    /// The endpoint's key, for the reset tokens of our IDs.
    key: SharedEndpointKey,
}

impl Control {
    pub(super) const fn new(
        handshake_id: ConnectionId,
        local_ids: LocalIds,
        remote_ids: RemoteIds,
        key: SharedEndpointKey,
    ) -> Self {
        Self {
            handshake_id,
            local_ids,
            remote_ids,
            handshake_done: false,
            token: None,
            token_due: false,
            ping: false,
            key,
        }
    }

    /// Server: tells the client that the handshake is confirmed.
    pub(super) fn send_handshake_done(&mut self) {
        self.handshake_done = true;
    }

    /// Server: gives the client a token for its next connection.
    pub(super) fn send_token(&mut self, token: Bytes) {
        self.token_due = !token.is_empty();
        self.token = Some(token);
    }

    /// Applies the peer's parameters: its limit on connection IDs, and its reset tokens.
    pub(super) fn on_peer_parameters(&mut self, peer: &TransportParameters) {
        self.local_ids
            .on_peer_limit(peer.active_connection_id_limit);
        if let Some(token) = peer.stateless_reset_token {
            self.remote_ids.set_first_token(ResetToken::new(token));
        }
        if let Some(preferred) = &peer.preferred_address {
            let token = ResetToken::new(preferred.reset_token);
            self.remote_ids
                .set_preferred(preferred.connection_id, token);
        }
    }

    /// Gives the peer as many of our connection IDs as it stores, and as its `received` bytes earn.
    pub(super) fn issue_ids(&mut self, random: &mut Random, outbox: &mut Outbox, received: u64) {
        while let Some(id) = self.local_ids.issue(random, received) {
            outbox.add_id(id);
        }
    }

    /// Lets the endpoint remove its routes to this connection.
    pub(super) fn remove_ids(&self, outbox: &mut Outbox) {
        for id in self.local_ids.iter() {
            outbox.remove_id(*id);
        }
    }

    /// Returns true if a frame is due.
    pub(super) fn is_due(&self) -> bool {
        self.handshake_done
            || self.token_due
            || self.ping
            || self.local_ids.has_pending()
            || self.remote_ids.has_pending()
    }

    /// Writes the frames that fit, passing those whose fate matters to `written`.
    pub(super) fn write(&mut self, w: &mut Writer<'_>, mut written: impl FnMut(ControlFrame)) {
        if self.handshake_done && Frame::HandshakeDone.encode(w).is_ok() {
            self.handshake_done = false;
            written(ControlFrame::HandshakeDone);
        }
        if self.token_due
            && let Some(token) = &self.token
            && Frame::NewToken(token).encode(w).is_ok()
        {
            self.token_due = false;
            written(ControlFrame::NewToken);
        }
        while let Some(issued) = self.local_ids.next_frame(&*self.key) {
            let frame = Frame::NewConnectionId(NewConnectionId {
                sequence: issued.sequence,
                retire_prior_to: issued.retire_prior_to,
                id: issued.id,
                reset_token: *issued.token.as_bytes(),
            });
            if frame.encode(w).is_err() {
                self.local_ids.on_lost(issued.sequence);
                break;
            }
            written(ControlFrame::NewConnectionId(issued.sequence));
        }
        while let Some(sequence) = self.remote_ids.next_retirement() {
            if Frame::RetireConnectionId(sequence).encode(w).is_err() {
                self.remote_ids.on_retirement_lost(sequence);
                break;
            }
            written(ControlFrame::RetireConnectionId(sequence));
        }
        if self.ping && Frame::Ping.encode(w).is_ok() {
            self.ping = false;
        }
    }

    pub(super) fn on_acked(&mut self, frame: ControlFrame) {
        match frame {
            ControlFrame::RetireConnectionId(sequence) => {
                self.remote_ids.on_retirement_acked(sequence);
            }
            ControlFrame::NewToken => {
                self.token = None;
                self.token_due = false;
            }
            ControlFrame::HandshakeDone
            | ControlFrame::NewConnectionId(_)
            | ControlFrame::AckFrequency(_) => {}
        }
    }

    pub(super) fn on_lost(&mut self, frame: ControlFrame) {
        match frame {
            // [9000 13.3 done-repeated]
            ControlFrame::HandshakeDone => self.handshake_done = true,
            ControlFrame::NewToken => self.token_due = self.token.is_some(),
            ControlFrame::NewConnectionId(sequence) => self.local_ids.on_lost(sequence),
            ControlFrame::RetireConnectionId(sequence) => {
                self.remote_ids.on_retirement_lost(sequence);
            }
            ControlFrame::AckFrequency(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cid::RemoteId;
    use crate::connection::Routing;
    use crate::crypto::null::NullEndpointKey;
    use crate::wire::frame::Frames;
    use crate::wire::transport_parameters::PreferredAddress;

    fn id(n: u8) -> ConnectionId {
        ConnectionId::new(&[n; 8]).unwrap()
    }

    /// Returns the frames of a packet whose fates matter, and checks that the packet contains these
    /// and `pings` more.
    fn packet(control: &mut Control, pings: usize) -> Vec<ControlFrame> {
        let mut room = [0; 200];
        let mut w = Writer::new(&mut room);
        let mut remembered = Vec::new();
        control.write(&mut w, |frame| remembered.push(frame));
        let frames: Vec<_> = Frames::new(w.written()).map(Result::unwrap).collect();
        assert_eq!(frames.len(), remembered.len() + pings);
        let found = frames.iter().filter(|frame| **frame == Frame::Ping);
        assert_eq!(found.count(), pings);
        remembered
    }

    fn written(control: &mut Control) -> Vec<ControlFrame> {
        packet(control, 0)
    }

    fn control() -> Control {
        let key = Arc::new(NullEndpointKey::new(1));
        Control::new(id(1), LocalIds::new(id(1)), RemoteIds::new(id(1), 8), key)
    }

    #[test]
    fn the_end_of_the_handshake_is_sent_until_it_is_acknowledged() {
        // [9000 13.3 done-repeated]
        let mut control = control();
        control.send_handshake_done();
        for _ in 0..3 {
            assert_eq!(written(&mut control), [ControlFrame::HandshakeDone]);
            assert!(!control.is_due());
            control.on_lost(ControlFrame::HandshakeDone);
        }
        assert_eq!(written(&mut control), [ControlFrame::HandshakeDone]);
        control.on_acked(ControlFrame::HandshakeDone);
        assert!(!control.is_due());
    }

    /// Checks that `frame`, which is due, is sent until it is acknowledged.
    fn until_acknowledged(control: &mut Control, frame: ControlFrame) {
        for _ in 0..3 {
            assert!(control.is_due());
            assert_eq!(written(control), [frame]);
            assert!(!control.is_due());
            control.on_lost(frame);
        }
        control.on_acked(frame);
        assert!(!control.is_due());
        // A repetition that turned out to be unnecessary is lost.
        control.on_lost(frame);
        assert!(!control.is_due());
    }

    #[test]
    fn a_token_is_sent_until_it_is_acknowledged() {
        let mut control = control();
        assert!(!control.is_due());
        control.send_token(Bytes::from_static(b"token"));
        until_acknowledged(&mut control, ControlFrame::NewToken);
    }

    #[test]
    fn a_ping_is_sent_once_and_only_if_it_was_asked_for() {
        let mut control = control();
        control.send_handshake_done();
        assert_eq!(packet(&mut control, 0), [ControlFrame::HandshakeDone]);
        control.ping = true;
        assert!(control.is_due());
        assert_eq!(packet(&mut control, 1), []);
        assert!(!control.is_due());
    }

    /// RFC 9000 §5.1.1: the peer gets as many IDs as its `active_connection_id_limit` allows, and
    /// the endpoint routes each ID while the connection exists.
    #[test]
    fn the_peer_gets_as_many_ids_as_it_stores() {
        let mut control = control();
        let mut outbox = Outbox::new(id(1));
        let mut random = Random::from_u64(1);
        control.issue_ids(&mut random, &mut outbox, 0);
        assert!(!control.is_due(), "the limit is unknown");
        control.on_peer_parameters(&TransportParameters {
            active_connection_id_limit: 3,
            ..TransportParameters::DEFAULT
        });
        control.issue_ids(&mut random, &mut outbox, 0);
        assert!(control.is_due());
        let expected = [1, 2].map(ControlFrame::NewConnectionId);
        assert_eq!(written(&mut control), expected);
        assert!(!control.is_due());
        control.on_lost(ControlFrame::NewConnectionId(2));
        assert_eq!(written(&mut control), [ControlFrame::NewConnectionId(2)]);
        // All IDs that were added are removed.
        control.remove_ids(&mut outbox);
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        while let Some(change) = outbox.poll_routing(None, false) {
            match change {
                Routing::Add(id) => added.push(id),
                Routing::Remove(id) => removed.push(id),
                Routing::ResetTokens => panic!("no token is known"),
            }
        }
        assert_eq!((added.len(), &added), (3, &removed));
    }

    /// RFC 9000 §19.16: an ID that the peer retires is reported until the peer acknowledges this.
    #[test]
    fn a_retirement_is_sent_until_it_is_acknowledged() {
        let mut control = control();
        let new = RemoteId {
            sequence: 1,
            id: id(2),
            token: None,
        };
        assert_eq!(control.remote_ids.on_new(1, &new), Ok(true));
        until_acknowledged(&mut control, ControlFrame::RetireConnectionId(0));
    }

    /// RFC 9000 §18.2: the tokens that end the connection, and the ID of the preferred address.
    #[test]
    fn tokens_and_the_preferred_id_come_with_the_peers_parameters() {
        let mut control = control();
        control.on_peer_parameters(&TransportParameters {
            stateless_reset_token: Some([7; 16]),
            preferred_address: Some(PreferredAddress {
                v4: None,
                v6: None,
                connection_id: id(3),
                reset_token: [8; 16],
            }),
            ..TransportParameters::DEFAULT
        });
        let ids = &mut control.remote_ids;
        assert!(ids.is_reset(&ResetToken::new([7; 16])));
        assert!(ids.switch());
        assert_eq!(ids.current().id, id(3));
        assert!(ids.is_reset(&ResetToken::new([8; 16])));
    }
}
