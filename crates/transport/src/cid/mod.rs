//! Connection ids issued by this endpoint and by the peer (RFC 9000 §5.1).
//!
//! The peer's packets are addressed with [`LocalIds`], and this side's with [`RemoteIds`]. Both
//! types also store the frames about these ids that must be sent. Their memory is bounded
//! regardless of the peer's behavior.

use std::collections::VecDeque;

mod remote;

#[cfg(test)]
mod local_tests;
#[cfg(test)]
mod remote_tests;

pub use remote::{RemoteId, RemoteIds};

use crate::crypto::{EndpointKey, Random, ResetToken};
use crate::wire::{ConnectionId, TransportError};

/// Length of the connection ids that this endpoint issues, bytes. Eight bytes make guessing an
/// id infeasible, and prevent collisions between endpoints behind one address.
pub const LOCAL_ID_LEN: usize = 8;

/// Maximum number of ids that a peer may hold at a time, regardless of its
/// `active_connection_id_limit`.
pub const MAX_LOCAL: usize = 8;

/// Bytes that the peer must send for each id that replaces a retired one. A migration uses two, for
/// the new path and for challenging the old one, and each path needs datagrams of 1200 bytes (RFC
/// 9000 §8.2.1).
const BYTES_PER_ID: u64 = 400;

/// An id to issue in a NEW_CONNECTION_ID frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Its sequence number.
    pub sequence: u64,
    /// The peer must retire all ids with lower sequence numbers.
    pub retire_prior_to: u64,
    /// The id.
    pub id: ConnectionId,
    /// Its stateless reset token.
    pub token: ResetToken,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    sequence: u64,
    id: ConnectionId,
}

/// The ids with which the peer can address this side.
#[derive(Debug)]
pub struct LocalIds {
    /// Not retired, by ascending sequence number.
    entries: Vec<Entry>,
    next_sequence: u64,
    /// Ids with lower sequence numbers have been sent.
    sent: u64,
    retire_prior_to: u64,
    /// Maximum number of ids that the peer accepts; 1 until its transport parameters are known.
    limit: usize,
    /// Sequence numbers of ids whose frame must be sent (again).
    pending: VecDeque<u64>,
}

impl LocalIds {
    /// Starts with the id of the handshake, sequence number 0. If it is empty, no others are
    /// issued.
    pub fn new(first: ConnectionId) -> Self {
        Self {
            entries: vec![Entry {
                sequence: 0,
                id: first,
            }],
            next_sequence: 1,
            sent: 1,
            retire_prior_to: 0,
            limit: 1,
            pending: VecDeque::new(),
        }
    }

    /// Sets the peer's `active_connection_id_limit`.
    pub fn on_peer_limit(&mut self, limit: u64) {
        self.limit = usize::try_from(limit).unwrap_or(MAX_LOCAL).min(MAX_LOCAL);
    }

    /// Returns true if the peer accepts more ids than it has left of those that were issued.
    pub fn is_short(&self) -> bool {
        self.next_sequence > 1 && self.entries.len() < self.limit
    }

    /// Creates the next id, or returns `None` if the peer accepts no more. The endpoint must
    /// route the id to this connection before its frame is sent.
    ///
    /// An id that replaces a retired one must have been earned by the `received` bytes. Otherwise,
    /// retiring ids would make this side send several times as much as the peer.
    pub fn issue(&mut self, random: &mut Random, received: u64) -> Option<ConnectionId> {
        let earned = self.limit as u64 + received / BYTES_PER_ID;
        let zero_length = self.entries.iter().any(|e| e.id.is_empty());
        // Ids that the peer was asked to retire don't count (RFC 9000 §5.1.1).
        let asked_back = self
            .entries
            .iter()
            .filter(|e| e.sequence < self.retire_prior_to)
            .count();
        if zero_length
            // [9000 5.1.1 no-more-than-limit]
            || self.entries.len() - asked_back >= self.limit
            || self.entries.len() >= 2 * MAX_LOCAL
            || self.next_sequence >= earned
        {
            return None;
        }
        let id = fresh_id(random);
        // [9000 5.1.1 sequence]
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.entries.push(Entry { sequence, id });
        self.pending.push_back(sequence);
        Some(id)
    }

    /// Requests that the peer retire all its ids. [`issue`](Self::issue) can then create new
    /// ids, whose frames contain the request. This makes long-lived connections unlinkable.
    pub fn rotate(&mut self) {
        self.retire_prior_to = self.next_sequence;
    }

    /// Returns true if [`next_frame`](Self::next_frame) may return a frame.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the next NEW_CONNECTION_ID frame to send. The caller must store its sequence
    /// number with the packet.
    pub fn next_frame(&mut self, key: &dyn EndpointKey) -> Option<Issued> {
        while let Some(sequence) = self.pending.pop_front() {
            if let Some(entry) = self.entries.iter().find(|e| e.sequence == sequence) {
                self.sent = self.sent.max(sequence + 1);
                return Some(Issued {
                    sequence,
                    // A frame must not retire the id that it issues (RFC 9000 §19.15).
                    // [9000 19.15 retires-itself]
                    retire_prior_to: self.retire_prior_to.min(sequence),
                    id: entry.id,
                    token: ResetToken::derive(key, entry.id.as_slice()),
                });
            }
        }
        None
    }

    /// Schedules the frame of this id again because its packet was lost, or had no room for it.
    pub fn on_lost(&mut self, sequence: u64) {
        let known = self.entries.iter().any(|e| e.sequence == sequence);
        if known && !self.pending.contains(&sequence) {
            self.pending.push_back(sequence);
        }
    }

    /// Processes RETIRE_CONNECTION_ID in a packet addressed to `dcid`. Returns the id that
    /// should no longer be routed here, or `None` if it was already retired.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for an id that was never sent, or to which the packet itself was
    /// addressed (RFC 9000 §19.16).
    pub fn on_retire(
        &mut self,
        sequence: u64,
        dcid: &ConnectionId,
    ) -> Result<Option<ConnectionId>, TransportError> {
        let violation = |reason| Err(TransportError::violation(reason));
        // Otherwise, a packet could retire hundreds of ids, each as soon as it is issued to replace
        // the previous one.
        // [9000 19.16 never-sent]
        if sequence >= self.sent {
            return violation("retired a connection id that was never sent");
        }
        let Some(at) = self.entries.iter().position(|e| e.sequence == sequence) else {
            return Ok(None);
        };
        match self.entries.get(at) {
            // [9000 19.16 zero-length]
            Some(entry) if entry.id.is_empty() => {
                violation("retired a connection id of length zero")
            }
            // [9000 19.16 own-destination]
            Some(entry) if entry.id == *dcid => {
                violation("retired the connection id that the packet was addressed to")
            }
            // [9000 5.1.1 accepted]
            _ => Ok(Some(self.entries.remove(at).id)),
        }
    }

    /// Returns all ids that must be routed to this connection.
    pub fn iter(&self) -> impl Iterator<Item = &ConnectionId> {
        self.entries.iter().map(|e| &e.id)
    }
}

/// Returns a random id of [`LOCAL_ID_LEN`] bytes.
pub(crate) fn fresh_id(random: &mut Random) -> ConnectionId {
    // [9000 5.1 unlinkable] [9000 5.1 issued-once] [9000 10.3.2 one-length] [9000 7.2 eight-bytes]
    let bytes: [u8; LOCAL_ID_LEN] = random.bytes();
    ConnectionId::new(&bytes).unwrap_or(ConnectionId::EMPTY)
}
