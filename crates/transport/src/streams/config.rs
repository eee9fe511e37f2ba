//! What this side promises and what the peer did.

use super::ReceiveMemory;

/// Limits that this side sets. The first five go into its transport parameters as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamsConfig {
    /// `initial_max_data`: bytes on all streams together that the peer may send at first. Streams
    /// share the window: data that is not read on some of them leaves less for the others, whose
    /// reader waits while none is left.
    pub initial_connection_window: u64,
    /// `initial_max_stream_data_*`: bytes on each stream that the peer may send at first.
    pub initial_stream_window: u64,
    /// `initial_max_streams_bidi`: bidirectional streams that the peer may have open at once.
    pub max_bidi_streams: u64,
    /// `initial_max_streams_uni`: unidirectional streams that the peer may have open at once.
    pub max_uni_streams: u64,
    /// Bytes up to which a window grows by itself, of the connection and of each stream.
    pub max_window: u64,
    /// Bytes up to which the send buffer of all streams together grows by itself.
    pub max_send_buffer: u64,
}

impl StreamsConfig {
    /// With as much room at first as a sender may use that routers grant a rate within its first
    /// round trip: 0.4 of a bandwidth-delay product of 2.5 Gbit/s and 130 ms. A sender asks its
    /// routers for no more than its receiver has promised.
    #[must_use]
    pub const fn with_room_for_grants(mut self) -> Self {
        self.initial_connection_window = 24 << 20;
        self.initial_stream_window = 16 << 20;
        self
    }

    /// No more promised at first than `memory` has for a new connection. A stream is promised three
    /// quarters of that, so that one that is not read leaves some for others.
    #[must_use]
    pub fn within(mut self, memory: &ReceiveMemory) -> Self {
        let connection = memory.first_promise(self.initial_connection_window);
        if connection < self.initial_connection_window {
            self.initial_connection_window = connection;
            self.initial_stream_window = self.initial_stream_window.min(connection / 4 * 3);
        }
        self
    }
}

impl Default for StreamsConfig {
    /// Small at rest; 10 Gbit/s over 720 ms (900 MB on the way) are not held up: five of that are
    /// 4.5 GB.
    fn default() -> Self {
        Self {
            initial_connection_window: 1536 * 1024,
            initial_stream_window: 1024 * 1024,
            max_bidi_streams: 128,
            max_uni_streams: 128,
            max_window: 5 << 30,
            max_send_buffer: 5 << 30,
        }
    }
}

/// The peer's limits, from its transport parameters (RFC 9000 §18.2). Local and remote are the
/// peer's words: a "local" stream is one that the peer opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerLimits {
    /// `initial_max_data`, bytes.
    pub max_data: u64,
    /// `initial_max_stream_data_bidi_local`, bytes.
    pub max_stream_data_bidi_local: u64,
    /// `initial_max_stream_data_bidi_remote`, bytes.
    pub max_stream_data_bidi_remote: u64,
    /// `initial_max_stream_data_uni`, bytes.
    pub max_stream_data_uni: u64,
    /// `initial_max_streams_bidi`.
    pub max_streams_bidi: u64,
    /// `initial_max_streams_uni`.
    pub max_streams_uni: u64,
}
