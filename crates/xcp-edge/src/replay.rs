//! Admission of requests, and protection against replay.
//!
//! A requester proves its address by returning a token that was sent to this address. Issuing a
//! token needs no state. Only requesters with a fresh token get an entry, which contains the
//! highest request number of their run. Another run of the same requester (after a restart) needs a
//! token younger than that of the previous run, so that no message of the old run counts again.
//! Tokens depend on a key of this start, so that messages from before this router's start do not
//! count either.

use core::net::SocketAddr;

use pathmark_cc::{Duration, Instant};

use crate::auth::{Key, Own};
use crate::message::Token;

/// Maximum number of requesters that are stored.
pub(crate) const MOST_PEERS: usize = 64;
/// Validity of a token.
pub(crate) const FRESH: Duration = Duration::from_secs(10);
/// Time without requests after which a requester is forgotten. It is longer than the validity of
/// tokens, so that none of its messages can count as new by then.
const FORGET: Duration = Duration::from_secs(30);

/// A requester that has proven its address.
#[derive(Clone, Debug)]
struct Peer {
    address: SocketAddr,
    run: u64,
    number: u32,
    issued: u64,
    seen: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It can be answered with a train.
    New,
    /// Its sender has no fresh token, and must get one.
    Unproven,
    /// Its number was received before.
    Replayed,
    /// It is proven and new, but there is no room for its sender.
    Full,
}

#[derive(Clone, Debug)]
pub(crate) struct Peers {
    own: Own,
    key: Key,
    started: Instant,
    peers: Vec<Peer>,
}

impl Peers {
    /// Creates an empty table; `key` must only be used for this start.
    pub(crate) fn new(now: Instant, own: Own, key: Key) -> Self {
        Self {
            own,
            key,
            started: now,
            peers: Vec::with_capacity(MOST_PEERS),
        }
    }

    fn clock(&self, now: Instant) -> u64 {
        // Starts at 1, because 0 means that there is no token.
        let millis = (now - self.started).as_millis();
        u64::try_from(millis).unwrap_or(u64::MAX).saturating_add(1)
    }

    fn proof(&self, from: SocketAddr, run: u64, issued: u64) -> u64 {
        let mut bytes = [0; 18];
        for (to, from) in bytes.iter_mut().zip(
            run.to_be_bytes()
                .into_iter()
                .chain(issued.to_be_bytes())
                .chain(from.port().to_be_bytes()),
        ) {
            *to = from;
        }
        let route = self.own.way_from(from.ip());
        let tag = self.key.tag(&route, &bytes);
        tag.first_chunk()
            .map_or(0, |proof: &[u8; 8]| u64::from_be_bytes(*proof))
    }

    pub(crate) fn token(&self, now: Instant, to: SocketAddr, run: u64) -> Token {
        let issued = self.clock(now);
        Token {
            issued,
            proof: self.proof(to, run, issued),
        }
    }

    /// Admits or refuses a request with a correct authenticator.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        from: SocketAddr,
        run: u64,
        number: u32,
        token: &Token,
    ) -> Admission {
        let clock = self.clock(now);
        let proven = token.issued != 0
            && token.issued <= clock
            && self.proof(from, run, token.issued) == token.proof;
        if !proven {
            return Admission::Unproven;
        }
        let age = Duration::from_millis(clock - token.issued);
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.address == from) {
            let later = if peer.run == run {
                number > peer.number
            } else {
                token.issued > peer.issued
            };
            if !later {
                return Admission::Replayed;
            }
            (peer.run, peer.number, peer.seen) = (run, number, now);
            peer.issued = peer.issued.max(token.issued);
            return Admission::New;
        }
        if age > FRESH {
            return Admission::Unproven;
        }
        let peer = Peer {
            address: from,
            run,
            number,
            issued: token.issued,
            seen: now,
        };
        if self.peers.len() < MOST_PEERS {
            self.peers.push(peer);
            return Admission::New;
        }
        let gone = self.peers.iter_mut().find(|peer| now - peer.seen > FORGET);
        match gone {
            Some(place) => {
                *place = peer;
                Admission::New
            }
            None => Admission::Full,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.peers.len()
    }
}
