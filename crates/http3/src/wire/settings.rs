//! Extended CONNECT, as requests and SETTINGS announce it.

/// The `:protocol` of an extended CONNECT, as an extension of a request that arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(pub String);

/// The extensions that the SETTINGS of a peer allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Extended CONNECT.
    pub connect_protocol: bool,
    /// HTTP datagrams.
    pub datagrams: bool,
}
