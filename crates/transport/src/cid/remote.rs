//! Connection ids that the peer issued.

use std::collections::VecDeque;

use crate::crypto::ResetToken;
use crate::wire::{ConnectionId, TransportError, TransportErrorCode};

/// How far sequence numbers may be above the lowest one not yet received.
const WINDOW: u64 = 64;

/// A connection id issued by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteId {
    /// Its sequence number.
    pub sequence: u64,
    /// The id.
    pub id: ConnectionId,
    /// The stateless reset token. The first id only has a token if the transport parameters
    /// contained it.
    pub token: Option<ResetToken>,
}

/// The ids with which this side can address the peer: the current id, the ids of paths that are
/// being probed, and spare ids.
#[derive(Debug)]
pub struct RemoteIds {
    current: RemoteId,
    /// In use on other paths.
    allotted: Vec<RemoteId>,
    /// Unused, by ascending sequence number.
    spare: Vec<RemoteId>,
    /// The `active_connection_id_limit` advertised by this side.
    limit: usize,
    retire_prior_to: u64,
    /// All sequence numbers below this one have been received.
    floor: u64,
    /// Bit n is set if `floor` + n has been received.
    seen: u64,
    /// Sequence numbers for RETIRE_CONNECTION_ID frames to send (again).
    pending: VecDeque<u64>,
    /// Sequence numbers of retired ids whose frames are unsent or unacknowledged. Several
    /// copies of a frame may be in flight.
    retiring: Vec<u64>,
}

impl RemoteIds {
    /// Creates the state with the id of the handshake, sequence number 0. `limit` is this
    /// side's `active_connection_id_limit`, 2 to 64.
    pub fn new(first: ConnectionId, limit: u64) -> Self {
        Self {
            current: RemoteId {
                sequence: 0,
                id: first,
                token: None,
            },
            allotted: Vec::new(),
            spare: Vec::new(),
            limit: usize::try_from(limit.clamp(2, WINDOW)).unwrap_or(2),
            retire_prior_to: 0,
            floor: 1,
            seen: 0,
            pending: VecDeque::new(),
            retiring: Vec::new(),
        }
    }

    /// Client: sets the id that the server chose (in its first packet, or in a Retry).
    pub fn set_first(&mut self, id: ConnectionId) {
        // [9000 7.2 first-id-stays] [9000 7.2 one-change]
        if self.current.sequence == 0 {
            self.current.id = id;
        }
    }

    /// Client: sets the `stateless_reset_token` transport parameter.
    pub fn set_first_token(&mut self, token: ResetToken) {
        if self.current.sequence == 0 {
            self.current.token = Some(token);
        }
    }

    /// Returns the id for the current path.
    pub fn current(&self) -> &RemoteId {
        &self.current
    }

    /// Processes NEW_CONNECTION_ID. Returns true if [`current`](Self::current) changed because
    /// the peer retired it. Ids returned by [`allot`](Self::allot) may then be retired as well.
    ///
    /// # Errors
    /// According to RFC 9000 §19.15 and §5.1.1: PROTOCOL_VIOLATION, FRAME_ENCODING_ERROR or
    /// CONNECTION_ID_LIMIT_ERROR.
    pub fn on_new(&mut self, retire_prior_to: u64, new: &RemoteId) -> Result<bool, TransportError> {
        let error = |code, reason| Err(TransportError::new(code, reason));
        // [9000 19.15 zero-length-peer]
        if self.current.id.is_empty() {
            return error(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "NEW_CONNECTION_ID from a peer with an id of length zero",
            );
        }
        if new.id.is_empty() || retire_prior_to > new.sequence {
            return error(
                TransportErrorCode::FRAME_ENCODING_ERROR,
                "new connection id is empty, or retires itself",
            );
        }
        let clash = self.held().any(|held| {
            if held.sequence == new.sequence {
                held.id != new.id || held.token != new.token
            } else {
                held.id == new.id || (held.token.is_some() && held.token == new.token)
            }
        });
        if clash {
            return error(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "connection id issued twice with different contents",
            );
        }
        // [9000 19.15 repeated]
        if self.note_seen(new.sequence)? {
            // [9000 19.15 retired-on-arrival]
            if new.sequence < self.retire_prior_to {
                self.queue_retirement(new.sequence);
            } else {
                let at = self.spare.partition_point(|s| s.sequence < new.sequence);
                self.spare.insert(at, *new);
            }
        }
        // [9000 5.1.2 retire-prior-to]
        let switched = self.retire_below(retire_prior_to);
        // [9000 5.1.1 too-many]
        if self.held().count() > self.limit {
            return error(
                TransportErrorCode::CONNECTION_ID_LIMIT_ERROR,
                "more connection ids than active_connection_id_limit",
            );
        }
        // RFC 9000 §5.1.2: a limit on ids whose retirement isn't acknowledged.
        // [9000 5.1.2 none-forgotten]
        if self.retiring.len() > 4 * self.limit {
            return error(
                TransportErrorCode::CONNECTION_ID_LIMIT_ERROR,
                "too many connection ids to retire at once",
            );
        }
        Ok(switched)
    }

    /// Records that `sequence` was received. Returns true the first time.
    fn note_seen(&mut self, sequence: u64) -> Result<bool, TransportError> {
        let Some(bit) = sequence.checked_sub(self.floor) else {
            return Ok(false);
        };
        if bit >= WINDOW {
            return Err(TransportError::new(
                TransportErrorCode::CONNECTION_ID_LIMIT_ERROR,
                "connection id sequence number far ahead",
            ));
        }
        let mask = 1 << bit;
        let new = self.seen & mask == 0;
        self.seen |= mask;
        let whole = self.seen.trailing_ones();
        self.seen = self.seen.checked_shr(whole).unwrap_or(0);
        self.floor += u64::from(whole);
        Ok(new)
    }

    fn held(&self) -> impl Iterator<Item = &RemoteId> {
        core::iter::once(&self.current)
            .chain(&self.allotted)
            .chain(&self.spare)
    }

    fn retire_below(&mut self, retire_prior_to: u64) -> bool {
        // Include ids that an earlier frame retired when there was no other id to use.
        // [9000 19.15 older-request]
        let retire_prior_to = self.retire_prior_to.max(retire_prior_to);
        self.retire_prior_to = retire_prior_to;
        for list in [&mut self.allotted, &mut self.spare] {
            for old in list.extract_if(.., |held| held.sequence < retire_prior_to) {
                self.pending.push_back(old.sequence);
                self.retiring.push(old.sequence);
            }
        }
        if self.current.sequence >= retire_prior_to {
            return false;
        }
        // Without a spare id, let the current path share the id of one being probed, because
        // this is better than using a retired one.
        let probed = self.allotted.first().map(|allotted| allotted.sequence);
        self.switch() || probed.is_some_and(|sequence| self.adopt(sequence))
    }

    fn queue_retirement(&mut self, sequence: u64) {
        self.pending.push_back(sequence);
        self.retiring.push(sequence);
    }

    /// Retires the current id and uses the next spare id. If there is none, this returns false and
    /// changes nothing.
    pub fn switch(&mut self) -> bool {
        let Some(next) = self.take_spare() else {
            return false;
        };
        let old = core::mem::replace(&mut self.current, next);
        self.queue_retirement(old.sequence);
        true
    }

    fn take_spare(&mut self) -> Option<RemoteId> {
        (!self.spare.is_empty()).then(|| self.spare.remove(0))
    }

    /// Returns true if a separate id is available for probing a path.
    #[cfg(test)]
    pub(super) fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Takes a spare id for another path. If the peer uses zero-length ids, this returns the
    /// current id.
    pub fn allot(&mut self) -> Option<RemoteId> {
        if self.current.id.is_empty() {
            return Some(self.current);
        }
        let id = self.take_spare()?;
        self.allotted.push(id);
        Some(id)
    }

    /// Returns true if the id can still be used, because it is the current one or was returned
    /// by [`allot`](Self::allot).
    pub fn is_held(&self, sequence: u64) -> bool {
        core::iter::once(&self.current)
            .chain(&self.allotted)
            .any(|held| held.sequence == sequence)
    }

    /// Client: adds the id of the server's preferred address, which has sequence number 1 (RFC
    /// 9000 §5.1.1).
    pub fn set_preferred(&mut self, id: ConnectionId, token: ResetToken) {
        // [9000 9.6.2 preferred-id]
        if !self.current.id.is_empty() && self.note_seen(1) == Ok(true) {
            self.spare.push(RemoteId {
                sequence: 1,
                id,
                token: Some(token),
            });
        }
    }

    /// Makes this allotted id the current id, and retires the previous id. Returns false if the id
    /// no longer exists.
    pub fn adopt(&mut self, sequence: u64) -> bool {
        if self.current.sequence == sequence {
            return true;
        }
        let Some(at) = self.allotted.iter().position(|a| a.sequence == sequence) else {
            return false;
        };
        let old = core::mem::replace(&mut self.current, self.allotted.swap_remove(at));
        self.queue_retirement(old.sequence);
        true
    }

    /// Retires this allotted id because its path is abandoned. The current id is kept.
    pub fn give_up(&mut self, sequence: u64) {
        if let Some(at) = self.allotted.iter().position(|a| a.sequence == sequence) {
            self.allotted.swap_remove(at);
            self.queue_retirement(sequence);
        }
    }

    /// Returns true if this token, from the end of a datagram that can't be opened, belongs to
    /// an id in use. The peer has then lost the state of the connection (RFC 9000 §10.3.1).
    /// Tokens of unused and retired ids don't count.
    pub fn is_reset(&self, token: &ResetToken) -> bool {
        core::iter::once(&self.current)
            .chain(&self.allotted)
            .fold(false, |found, held| {
                // [9000 10.3.1 tokens-in-use]
                found | held.token.is_some_and(|t| t == *token)
            })
    }

    /// Returns true if [`next_retirement`](Self::next_retirement) returns anything.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the sequence number of the next RETIRE_CONNECTION_ID to send. The caller must
    /// store it with the packet.
    pub fn next_retirement(&mut self) -> Option<u64> {
        self.pending.pop_front()
    }

    /// Schedules this retirement again because its packet was lost, or had no room for it. Has
    /// no effect if another packet with it was acknowledged.
    pub fn on_retirement_lost(&mut self, sequence: u64) {
        if self.retiring.contains(&sequence) && !self.pending.contains(&sequence) {
            self.pending.push_back(sequence);
        }
    }

    /// Records that a packet with this retirement was acknowledged.
    pub fn on_retirement_acked(&mut self, sequence: u64) {
        self.pending.retain(|s| *s != sequence);
        self.retiring.retain(|s| *s != sequence);
    }
}
