//! Extended CONNECT in requests and SETTINGS.

/// The `:protocol` of an extended CONNECT, stored as an extension of the incoming request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(pub String);

/// The extensions that a peer's SETTINGS allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Whether extended CONNECT is allowed.
    pub connect_protocol: bool,
    /// Whether HTTP datagrams are allowed.
    pub datagrams: bool,
}
