//! A common interface to clients, servers and connections of either implementation.

mod connection;
mod endpoints;
mod identity;
pub(crate) mod options;
mod pair;
mod returning;

use std::net::SocketAddr;

pub(crate) use connection::{Connection, End};
pub(crate) use endpoints::{Client, Server};
pub(crate) use identity::Identity;
pub(crate) use options::Options;
pub(crate) use pair::Pair;
pub(crate) use returning::Returning;

/// The application protocol of the tests.
pub(crate) const ALPN: &[u8] = b"interop";
/// The name in the servers' certificates.
pub(crate) const NAME: &str = "server.test";

/// An implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Ours,
    Quinn,
}

impl Stack {
    /// Returns true if its servers end connections whose first packet was damaged
    /// (PROTOCOL_VIOLATION).
    pub(crate) fn ends_what_begins_damaged(self) -> bool {
        self == Self::Quinn
    }

    /// Returns true if its clients acknowledge packets without counting their ECN marks.
    #[expect(clippy::unused_self, reason = "of other stacks some do")]
    pub(crate) const fn misses_marks(self) -> bool {
        false
    }
}

/// (client, server) of different implementations.
pub(crate) const STRANGERS: [(Stack, Stack); 2] =
    [(Stack::Ours, Stack::Quinn), (Stack::Quinn, Stack::Ours)];

/// The same, and our client with our server.
pub(crate) const PAIRINGS: [(Stack, Stack); 3] = [
    (Stack::Ours, Stack::Quinn),
    (Stack::Quinn, Stack::Ours),
    (Stack::Ours, Stack::Ours),
];

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}
