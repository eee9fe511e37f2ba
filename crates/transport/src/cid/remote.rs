//! Connection ids that the peer issued.

use std::collections::VecDeque;

use crate::crypto::ResetToken;
use crate::wire::{ConnectionId, TransportError, TransportErrorCode};

/// Sequence numbers that may be known above the lowest unknown one.
const WINDOW: u64 = 64;

/// An id of the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteId {
    /// Its sequence number.
    pub sequence: u64,
    /// The id.
    pub id: ConnectionId,
    /// What ends the connection when it ends a datagram. The first id has one only if the transport
    /// parameters brought it.
    pub token: Option<ResetToken>,
}

/// The ids by which this side may address the peer: one in use, some in use on paths being probed,
/// and spare ones.
#[derive(Debug)]
pub struct RemoteIds {
    current: RemoteId,
    /// In use on other paths.
    allotted: Vec<RemoteId>,
    /// Not used yet, ascending in sequence.
    spare: Vec<RemoteId>,
    /// The `active_connection_id_limit` that this side advertised.
    limit: usize,
    retire_prior_to: u64,
    /// Every sequence number below has been seen.
    floor: u64,
    /// Bit n: `floor` + n has been seen.
    seen: u64,
    /// RETIRE_CONNECTION_ID frames to send (again).
    pending: VecDeque<u64>,
    /// Retired ids whose frames are unsent or unacknowledged, by sequence number. A frame may be
    /// under way more than once.
    retiring: Vec<u64>,
}

impl RemoteIds {
    /// Begins with the id of the handshake, sequence number 0. `limit` is this side's
    /// `active_connection_id_limit`, 2 to 64.
    #[must_use]
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

    /// At a client: the server chose its own id (in its first packet, or in a Retry).
    pub fn set_first(&mut self, id: ConnectionId) {
        // [9000 7.2 first-id-stays] [9000 7.2 one-change]
        if self.current.sequence == 0 {
            self.current.id = id;
        }
    }

    /// At a client: the `stateless_reset_token` transport parameter.
    pub fn set_first_token(&mut self, token: ResetToken) {
        if self.current.sequence == 0 {
            self.current.token = Some(token);
        }
    }

    /// The id to send to on the current path.
    #[inline]
    #[must_use]
    pub fn current(&self) -> &RemoteId {
        &self.current
    }

    /// NEW_CONNECTION_ID arrived. True if [`current`](Self::current) changed because the peer asked
    /// for it back; ids given out by [`allot`](Self::allot) may be gone then too.
    ///
    /// # Errors
    /// As RFC 9000 §19.15 and §5.1.1 say: PROTOCOL_VIOLATION, FRAME_ENCODING_ERROR or
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
        // RFC 9000 §5.1.2: a bound on ids that wait for their retirement's acknowledgement.
        // [9000 5.1.2 none-forgotten]
        if self.retiring.len() > 4 * self.limit {
            return error(
                TransportErrorCode::CONNECTION_ID_LIMIT_ERROR,
                "too many connection ids to retire at once",
            );
        }
        Ok(switched)
    }

    /// True if `sequence` had not been seen.
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
        // Also what an earlier frame asked back when there was no other id to use.
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
        // Without a spare one, the current path shares the id of one being probed: better than one
        // asked back.
        let probed = self.allotted.first().map(|allotted| allotted.sequence);
        self.switch() || probed.is_some_and(|sequence| self.adopt(sequence))
    }

    fn queue_retirement(&mut self, sequence: u64) {
        self.pending.push_back(sequence);
        self.retiring.push(sequence);
    }

    /// Retires the current id and uses the next spare one. False (and nothing changed) if there is
    /// none.
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

    /// True if a path could be probed under an id of its own.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Takes a spare id for another path. With a peer that uses no ids (length zero) it is the
    /// current one.
    pub fn allot(&mut self) -> Option<RemoteId> {
        if self.current.id.is_empty() {
            return Some(self.current);
        }
        let id = self.take_spare()?;
        self.allotted.push(id);
        Some(id)
    }

    /// True if the id is still there to be used: the current one, or one given out by
    /// [`allot`](Self::allot).
    #[must_use]
    pub fn is_held(&self, sequence: u64) -> bool {
        core::iter::once(&self.current)
            .chain(&self.allotted)
            .any(|held| held.sequence == sequence)
    }

    /// At a client: the id that came with the server's preferred address has sequence number 1 (RFC
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

    /// The path with this allotted id becomes the current one; the former id is retired. False if
    /// the id is not there any more.
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

    /// The path with this allotted id is given up. The current id stays.
    pub fn give_up(&mut self, sequence: u64) {
        if let Some(at) = self.allotted.iter().position(|a| a.sequence == sequence) {
            self.allotted.swap_remove(at);
            self.queue_retirement(sequence);
        }
    }

    /// True if this token, from the end of a datagram that does not open, belongs to an id in use:
    /// the peer has forgotten the connection (RFC 9000 §10.3.1). Unused and retired ids do not
    /// count.
    #[must_use]
    pub fn is_reset(&self, token: &ResetToken) -> bool {
        core::iter::once(&self.current)
            .chain(&self.allotted)
            .fold(false, |found, held| {
                // [9000 10.3.1 tokens-in-use]
                found | held.token.is_some_and(|t| t == *token)
            })
    }

    /// True if [`next_retirement`](Self::next_retirement) has something.
    #[inline]
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The next RETIRE_CONNECTION_ID to send: a sequence number, which the caller remembers with
    /// the packet.
    pub fn next_retirement(&mut self) -> Option<u64> {
        self.pending.pop_front()
    }

    /// The packet with this retirement was lost, or had no room for it. Nothing to do if another
    /// packet with it was acknowledged.
    pub fn on_retirement_lost(&mut self, sequence: u64) {
        if self.retiring.contains(&sequence) && !self.pending.contains(&sequence) {
            self.pending.push_back(sequence);
        }
    }

    /// A packet with this retirement was acknowledged.
    pub fn on_retirement_acked(&mut self, sequence: u64) {
        self.pending.retain(|s| *s != sequence);
        self.retiring.retain(|s| *s != sequence);
    }
}
