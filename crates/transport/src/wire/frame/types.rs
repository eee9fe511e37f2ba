//! Frame type numbers.

/// A frame type as a number, for example in errors.
pub type FrameType = u64;

/// PADDING.
pub const PADDING: FrameType = 0x00;
/// PING.
pub const PING: FrameType = 0x01;
/// ACK without ECN counts.
pub const ACK: FrameType = 0x02;
/// ACK with ECN counts.
pub const ACK_ECN: FrameType = 0x03;
/// RESET_STREAM.
pub const RESET_STREAM: FrameType = 0x04;
/// STOP_SENDING.
pub const STOP_SENDING: FrameType = 0x05;
/// CRYPTO.
pub const CRYPTO: FrameType = 0x06;
/// NEW_TOKEN.
pub const NEW_TOKEN: FrameType = 0x07;
/// STREAM without its three bits.
pub const STREAM: FrameType = 0x08;
/// STREAM with all of its bits.
pub const STREAM_LAST: FrameType = 0x0f;
/// Bit of STREAM: the stream ends with this frame.
pub const STREAM_FIN: FrameType = 0x01;
/// Bit of STREAM: the frame contains a length.
pub const STREAM_LEN: FrameType = 0x02;
/// Bit of STREAM: the frame contains an offset.
pub const STREAM_OFF: FrameType = 0x04;
/// MAX_DATA.
pub const MAX_DATA: FrameType = 0x10;
/// MAX_STREAM_DATA.
pub const MAX_STREAM_DATA: FrameType = 0x11;
/// MAX_STREAMS, bidirectional.
pub const MAX_STREAMS_BIDI: FrameType = 0x12;
/// MAX_STREAMS, unidirectional.
pub const MAX_STREAMS_UNI: FrameType = 0x13;
/// DATA_BLOCKED.
pub const DATA_BLOCKED: FrameType = 0x14;
/// STREAM_DATA_BLOCKED.
pub const STREAM_DATA_BLOCKED: FrameType = 0x15;
/// STREAMS_BLOCKED, bidirectional.
pub const STREAMS_BLOCKED_BIDI: FrameType = 0x16;
/// STREAMS_BLOCKED, unidirectional.
pub const STREAMS_BLOCKED_UNI: FrameType = 0x17;
/// NEW_CONNECTION_ID.
pub const NEW_CONNECTION_ID: FrameType = 0x18;
/// RETIRE_CONNECTION_ID.
pub const RETIRE_CONNECTION_ID: FrameType = 0x19;
/// PATH_CHALLENGE.
pub const PATH_CHALLENGE: FrameType = 0x1a;
/// PATH_RESPONSE.
pub const PATH_RESPONSE: FrameType = 0x1b;
/// CONNECTION_CLOSE by the transport.
pub const CONNECTION_CLOSE: FrameType = 0x1c;
/// CONNECTION_CLOSE by the application.
pub const APPLICATION_CLOSE: FrameType = 0x1d;
/// HANDSHAKE_DONE.
pub const HANDSHAKE_DONE: FrameType = 0x1e;
/// IMMEDIATE_ACK (draft-ietf-quic-ack-frequency §5).
pub const IMMEDIATE_ACK: FrameType = 0x1f;
/// DATAGRAM that ends with its packet (RFC 9221 §4).
pub const DATAGRAM: FrameType = 0x30;
/// DATAGRAM with a length.
pub const DATAGRAM_LEN: FrameType = 0x31;
/// ACK_FREQUENCY (draft-ietf-quic-ack-frequency §4).
pub const ACK_FREQUENCY: FrameType = 0xaf;
/// FEEDBACK: 4 bytes as a varint.
pub const FEEDBACK: FrameType = 0x66_6564;
