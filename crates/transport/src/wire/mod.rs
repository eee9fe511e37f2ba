//! Bytes of QUIC v1 (RFC 9000): varints, packet headers, frames, transport parameters.
