//! The authenticator of messages: HMAC-SHA-256 (RFC 2104), truncated to 128 bits as in RFC 4868.
//!
//! It covers the addresses of sender and receiver, so that a message is only valid between them,
//! and all bytes before it. The features select the library: aws-lc in programs that contain it
//! anyway, such as those with the transport, and RustCrypto in others, such as the router.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[cfg(feature = "aws-lc-rs")]
pub(crate) use aws::Mac;
#[cfg(all(feature = "rust-crypto", not(feature = "aws-lc-rs")))]
pub(crate) use rust::Mac;

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

#[cfg(not(any(feature = "aws-lc-rs", feature = "rust-crypto")))]
compile_error!("xcp-edge needs feature `aws-lc-rs` or `rust-crypto`");

/// Length of an HMAC-SHA-256 in bytes.
pub(crate) const LEN: usize = 32;

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
