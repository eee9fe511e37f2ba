//! The authenticator of messages: HMAC-SHA-256 (RFC 2104), truncated to 128 bits as in RFC 4868.
//!
//! It covers the addresses of sender and receiver, so that a message is only valid between them,
//! and all bytes before it.
//!
//! Admission of requests, and protection against replay.
//!
//! A requester proves its address by returning a token that was sent to this address. Issuing a
//! token needs no state. Only requesters with a fresh token get an entry, which contains the
//! highest request number of their run. Another run of the same requester (after a restart) needs a
//! token younger than that of the previous run, so that no message of the old run counts again.
//! Tokens depend on a key of this start, so that messages from before this router's start do not
//! count either.
//!
//! HMAC-SHA-256 (RFC 2104) from the library that the features select: aws-lc in programs that
//! contain it anyway, such as those with the transport, and RustCrypto in others, such as the
//! router.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

#[cfg(feature = "aws-lc-rs")]
pub(crate) use aws::Mac;
#[cfg(all(feature = "rust-crypto", not(feature = "aws-lc-rs")))]
pub(crate) use rust::Mac;

use super::message::Token;
use pathmark_cc::{Duration, Instant};

/// Length of an authenticator, which ends each message.
pub(crate) const TAG: usize = 16;
/// Minimum length of a secret in bytes.
pub const LEAST_SECRET: usize = 16;

/// The error for a secret that is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret needs at least {LEAST_SECRET} bytes")]
pub struct ShortSecret;

/// The secret shared by the edge routers of a network.
#[derive(Clone)]
pub struct Key(Mac);

impl core::fmt::Debug for Key {
    /// Does not show the secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key")
    }
}

/// The sender and the receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The sender's address.
    pub from: IpAddr,
    /// The receiver's address.
    pub to: IpAddr,
}

/// A router's addresses for messages, one per IP version; unspecified if it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
}

impl From<IpAddr> for Own {
    /// Creates a pair with an address of only one version.
    fn from(address: IpAddr) -> Self {
        let (v4, v6) = match address {
            IpAddr::V4(v4) => (v4, Ipv6Addr::UNSPECIFIED),
            IpAddr::V6(v6) => (Ipv4Addr::UNSPECIFIED, v6),
        };
        Self { v4, v6 }
    }
}

impl Own {
    /// Returns its address of the same version as `other`; unspecified if it has none.
    pub const fn facing(&self, other: IpAddr) -> IpAddr {
        match other {
            IpAddr::V4(_) => IpAddr::V4(self.v4),
            IpAddr::V6(_) => IpAddr::V6(self.v6),
        }
    }

    /// The route from `other` to this router.
    pub(crate) const fn way_from(&self, other: IpAddr) -> Route {
        Route {
            from: other,
            to: self.facing(other),
        }
    }

    /// The route from this router to `other`.
    pub(crate) const fn way_to(&self, other: IpAddr) -> Route {
        Route {
            from: self.facing(other),
            to: other,
        }
    }

    /// Returns true if messages can be sent to `other`, because it can be another host's
    /// address, and this router has an address of its version. Link-local addresses do not
    /// identify a host here.
    pub fn reaches(&self, other: IpAddr) -> bool {
        let reserved = match other {
            IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
        };
        let own = self.facing(other);
        let reserved = reserved || other.is_unspecified() || other.is_multicast();
        !reserved && !other.is_loopback() && !own.is_unspecified() && other != own
    }
}

impl Key {
    /// Creates a key from a shared secret.
    ///
    /// # Errors
    /// [`ShortSecret`] for less than [`LEAST_SECRET`] bytes.
    pub fn new(secret: &[u8]) -> Result<Self, ShortSecret> {
        if secret.len() < LEAST_SECRET {
            return Err(ShortSecret);
        }
        Mac::new(secret).map(Self).ok_or(ShortSecret)
    }

    fn begin(&self, route: &Route) -> Mac {
        let mut mac = self.0.clone();
        mac.update(b"pathmark xcp-i 1");
        for address in [route.from, route.to] {
            mac.update(&six(address));
        }
        mac
    }

    /// Writes the authenticator at the end of a message.
    pub(crate) fn seal(&self, route: &Route, message: &mut [u8]) {
        if let Some((covered, tag)) = message.split_last_chunk_mut::<TAG>() {
            *tag = self.tag(route, covered);
        }
    }

    /// Whether the message is complete and its authenticator was created with the secret. Takes
    /// the same time for every wrong authenticator.
    pub(crate) fn opens(&self, route: &Route, message: &[u8]) -> bool {
        let Some((covered, tag)) = message.split_last_chunk::<TAG>() else {
            return false;
        };
        let mut mac = self.begin(route);
        mac.update(covered);
        mac.begins_with(tag)
    }

    pub(crate) fn tag(&self, route: &Route, bytes: &[u8]) -> [u8; TAG] {
        let mut mac = self.begin(route);
        mac.update(bytes);
        let mut tag = [0; TAG];
        for (to, from) in tag.iter_mut().zip(mac.finish()) {
            *to = from;
        }
        tag
    }
}

/// An address in 16 bytes; IPv4 addresses are IPv4-mapped (RFC 4291, section 2.5.5.2).
fn six(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

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

#[cfg(not(any(feature = "aws-lc-rs", feature = "rust-crypto")))]
compile_error!("xcp-edge needs feature `aws-lc-rs` or `rust-crypto`");

/// Length of an HMAC-SHA-256 in bytes.
const LEN: usize = 32;

#[cfg(feature = "aws-lc-rs")]
mod aws {
    use aws_lc_rs::constant_time::verify_slices_are_equal;
    use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};

    use super::LEN;

    /// Computes the authenticator of bytes that are passed in parts.
    #[derive(Clone)]
    pub(crate) struct Mac(Context);

    impl Mac {
        /// Starts without any bytes. `None`: the secret cannot be a key.
        pub(crate) fn new(secret: &[u8]) -> Option<Self> {
            Some(Self(Context::with_key(&Key::new(HMAC_SHA256, secret))))
        }

        pub(crate) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        pub(crate) fn finish(self) -> [u8; LEN] {
            let mut all = [0; LEN];
            for (to, from) in all.iter_mut().zip(self.0.sign().as_ref()) {
                *to = *from;
            }
            all
        }

        /// Whether it starts with `tag`. Takes the same time for every wrong one.
        pub(crate) fn begins_with(self, tag: &[u8]) -> bool {
            let all = self.finish();
            let own = all.get(..tag.len());
            own.is_some_and(|own| verify_slices_are_equal(own, tag).is_ok())
        }
    }
}

#[cfg(all(feature = "rust-crypto", not(feature = "aws-lc-rs")))]
mod rust {
    use hmac::{Hmac, KeyInit, Mac as _};
    use sha2::Sha256;

    use super::LEN;

    /// Computes the authenticator of bytes that are passed in parts.
    #[derive(Clone)]
    pub(crate) struct Mac(Hmac<Sha256>);

    impl Mac {
        /// Starts without any bytes. `None`: the secret cannot be a key.
        pub(crate) fn new(secret: &[u8]) -> Option<Self> {
            Hmac::new_from_slice(secret).map(Self).ok()
        }

        pub(crate) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        pub(crate) fn finish(self) -> [u8; LEN] {
            self.0.finalize().into_bytes().into()
        }

        /// Whether it starts with `tag`. Takes the same time for every wrong one.
        pub(crate) fn begins_with(self, tag: &[u8]) -> bool {
            self.0.verify_truncated_left(tag).is_ok()
        }
    }
}
