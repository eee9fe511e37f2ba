//! Mapping from datagrams to connections, those that their peers have closed among them.

use core::hash::{BuildHasher, Hash};
use core::net::SocketAddr;
use std::collections::{HashMap, VecDeque};

use rustc_hash::{FxHashMap, FxSeededState};

use super::ConnectionHandle;
use crate::Instant;
use crate::cid::LOCAL_ID_LEN;
use crate::crypto::{EndpointKey, Random, ResetToken};
use crate::wire::ConnectionId;

/// A keyed hash of a reset token, so that the time of a lookup reveals nothing about the tokens
/// (RFC 9000 §10.3.1).
type TokenHash = [u8; 16];

/// Capacity that a table always keeps.
const KEPT: usize = 1024;

/// Marks the entries of connections that have [left](Demux::leave).
pub(super) const GONE: ConnectionHandle = ConnectionHandle(usize::MAX);

/// The table entries to remove when a connection ends.
#[derive(Debug, Default)]
pub(super) struct Known {
    ids: Vec<u64>,
    initial: Option<(ConnectionId, SocketAddr)>,
    tokens: Vec<TokenHash>,
}

/// Tables from connection ids, first packets and reset tokens to connections. Every entry
/// belongs to a connection, so the limit on connections bounds the tables as well.
#[derive(Debug)]
pub(super) struct Demux {
    /// Ids issued by this endpoint. They are random and attackers don't know them, so a plain
    /// hash suffices.
    ids: FxHashMap<u64, ConnectionHandle>,
    /// Destination ids of clients' first packets, with the source address. The hash is seeded
    /// because attackers choose the ids.
    initial: HashMap<(ConnectionId, SocketAddr), ConnectionHandle, FxSeededState>,
    tokens: FxHashMap<TokenHash, ConnectionHandle>,
    known: FxHashMap<ConnectionHandle, Known>,
}

impl Demux {
    pub(super) fn new(random: &mut Random) -> Self {
        let seed = usize::try_from(random.next_u64() & u64::from(u32::MAX)).unwrap_or(0);
        Self {
            ids: FxHashMap::default(),
            initial: HashMap::with_hasher(FxSeededState::with_seed(seed)),
            tokens: FxHashMap::default(),
            known: FxHashMap::default(),
        }
    }

    pub(super) fn by_id(&self, id: &[u8; LOCAL_ID_LEN]) -> Option<ConnectionHandle> {
        self.ids.get(&u64::from_ne_bytes(*id)).copied()
    }

    /// Returns the connection that began with a packet to `id` from `remote`.
    pub(super) fn by_initial(
        &self,
        id: &ConnectionId,
        remote: SocketAddr,
    ) -> Option<ConnectionHandle> {
        self.initial.get(&(*id, remote)).copied()
    }

    /// Returns the connection whose peer would send this reset token.
    pub(super) fn by_token(
        &self,
        key: &dyn EndpointKey,
        remote: SocketAddr,
        token: &ResetToken,
    ) -> Option<ConnectionHandle> {
        if self.tokens.is_empty() {
            return None;
        }
        self.tokens.get(&hash(key, remote, token)).copied()
    }

    /// Routes a local id to `handle`. If the id is already in use, nothing changes: a collision
    /// of two random 8-byte ids is less likely than any other failure.
    pub(super) fn add_id(&mut self, handle: ConnectionHandle, id: &ConnectionId) {
        let Some(key) = key_of(id) else { return };
        if let std::collections::hash_map::Entry::Vacant(entry) = self.ids.entry(key) {
            entry.insert(handle);
            self.known.entry(handle).or_default().ids.push(key);
        }
    }

    pub(super) fn remove_id(&mut self, handle: ConnectionHandle, id: &ConnectionId) {
        let Some(key) = key_of(id) else { return };
        if let Some(known) = self.known.get_mut(&handle)
            && let Some(at) = known.ids.iter().position(|k| *k == key)
        {
            known.ids.swap_remove(at);
            self.ids.remove(&key);
        }
    }

    pub(super) fn add_initial(
        &mut self,
        handle: ConnectionHandle,
        id: ConnectionId,
        remote: SocketAddr,
    ) {
        self.initial.insert((id, remote), handle);
        self.known.entry(handle).or_default().initial = Some((id, remote));
    }

    /// Replaces the reset tokens of `handle` and the addresses for which they are valid.
    pub(super) fn set_tokens(
        &mut self,
        key: &dyn EndpointKey,
        handle: ConnectionHandle,
        tokens: impl Iterator<Item = (SocketAddr, ResetToken)>,
    ) {
        let known = self.known.entry(handle).or_default();
        for old in known.tokens.drain(..) {
            self.tokens.remove(&old);
        }
        for (remote, token) in tokens {
            let hash = hash(key, remote, &token);
            known.tokens.push(hash);
            self.tokens.insert(hash, handle);
        }
    }

    /// Redirects the entries of a connection that has ended to [`GONE`]. They remain until they
    /// are [forgotten](Self::forget).
    pub(super) fn leave(&mut self, handle: ConnectionHandle) -> Known {
        let known = self.known.remove(&handle).unwrap_or_default();
        for id in &known.ids {
            self.ids.insert(*id, GONE);
        }
        if let Some(initial) = known.initial {
            self.initial.insert(initial, GONE);
        }
        for token in &known.tokens {
            self.tokens.insert(*token, GONE);
        }
        known
    }

    pub(super) fn remove(&mut self, handle: ConnectionHandle) {
        if let Some(known) = self.known.remove(&handle) {
            self.forget(known);
        }
    }

    /// Removes the entries of a connection that has left.
    pub(super) fn forget(&mut self, known: Known) {
        for id in known.ids {
            self.ids.remove(&id);
        }
        if let Some(initial) = known.initial {
            self.initial.remove(&initial);
        }
        for token in known.tokens {
            self.tokens.remove(&token);
        }
        give_back(&mut self.ids);
        give_back(&mut self.initial);
        give_back(&mut self.tokens);
        give_back(&mut self.known);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ids.len() + self.initial.len() + self.tokens.len() + self.known.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        let (ids, initial) = (self.ids.capacity(), self.initial.capacity());
        ids + initial + self.tokens.capacity() + self.known.capacity()
    }
}

/// Shrinks a table once at most an eighth is in use, so that a short peak of connections
/// doesn't occupy memory forever. The cost is amortized over the removed entries.
fn give_back<K: Eq + Hash, V, S: BuildHasher>(table: &mut HashMap<K, V, S>) {
    if table.capacity() > KEPT && table.len() < table.capacity() / 8 {
        table.shrink_to(table.len() * 2);
    }
}

fn key_of(id: &ConnectionId) -> Option<u64> {
    id.as_slice().try_into().ok().map(u64::from_ne_bytes)
}

fn hash(key: &dyn EndpointKey, remote: SocketAddr, token: &ResetToken) -> TokenHash {
    let mut input = Vec::with_capacity(48);
    input.extend_from_slice(b"known reset:");
    match remote.ip().to_canonical() {
        core::net::IpAddr::V4(ip) => input.extend_from_slice(&ip.octets()),
        core::net::IpAddr::V6(ip) => input.extend_from_slice(&ip.octets()),
    }
    input.extend_from_slice(&remote.port().to_be_bytes());
    input.extend_from_slice(token.as_bytes());
    key.mac(&input).first_chunk().copied().unwrap_or_default()
}

/// Maximum number of connections whose ids are kept. The oldest are forgotten first.
const MOST: usize = 4096;

/// Number of connections for whose ids capacity is always kept.
const KEPT_DRAINED: usize = 64;

/// The ids of connections that their peers have closed (RFC 9000 §10.2.2).
///
/// Since nothing is sent for such a connection anymore, it is dropped immediately, which frees
/// nearly all of its memory. Only its ids are kept, for three probe timeouts, to recognize and drop
/// late packets. Otherwise, these would cause stateless resets, and a duplicate of a client's first
/// packet would begin a new connection.
#[derive(Debug, Default)]
pub(super) struct Drained {
    /// Expiry times and ids, in the order in which the connections were closed.
    ids: VecDeque<(Instant, Known)>,
}

impl Drained {
    /// Keeps the ids of a connection until this time, unless too many others follow.
    pub(super) fn add(&mut self, until: Instant, known: Known, demux: &mut Demux) {
        if self.ids.len() >= MOST
            && let Some((_, oldest)) = self.ids.pop_front()
        {
            demux.forget(oldest);
        }
        self.ids.push_back((until, known));
    }

    /// Forgets expired ids. Ids behind some that expire later are only forgotten after these.
    /// This is cheap enough to be called often.
    pub(super) fn forget_old(&mut self, now: Instant, demux: &mut Demux) {
        while let Some((until, _)) = self.ids.front()
            && *until <= now
            && let Some((_, known)) = self.ids.pop_front()
        {
            demux.forget(known);
            if self.ids.is_empty() {
                self.ids.shrink_to(KEPT_DRAINED);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Random;
    use crate::endpoint::ConnectionHandle;
    use crate::wire::ConnectionId;

    #[test]
    fn no_more_are_kept_than_may_be() {
        let mut demux = Demux::new(&mut Random::from_u64(1));
        let mut drained = Drained::default();
        let until = Instant::from_millis(5);
        for n in 0..2 * MOST as u64 {
            let id = ConnectionId::new(&n.to_be_bytes()).unwrap();
            demux.add_id(ConnectionHandle(7), &id);
            let known = demux.leave(ConnectionHandle(7));
            drained.add(until, known, &mut demux);
        }
        assert_eq!((drained.len(), demux.len()), (MOST, MOST));
        assert!(demux.capacity() >= MOST && drained.ids.capacity() >= MOST);
        drained.forget_old(Instant::from_millis(4), &mut demux);
        assert_eq!(drained.len(), MOST);
        drained.forget_old(until, &mut demux);
        assert_eq!((drained.len(), demux.len()), (0, 0));
        // Their memory is released as well.
        assert!(demux.capacity() <= 4 * 2048, "{}", demux.capacity());
        assert!(drained.ids.capacity() <= KEPT_DRAINED);
    }
}
