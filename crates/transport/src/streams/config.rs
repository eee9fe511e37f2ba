//! Limits set by this side.

use super::ReceiveMemory;

/// Limits that this side sets. The first five are sent in its transport parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamsConfig {
    /// `initial_max_data`: bytes that the peer can initially send on all streams together. All
    /// streams share this window, so unread data on some leaves less for the others, and their
    /// readers must wait when it is exhausted.
    pub initial_connection_window: u64,
    /// `initial_max_stream_data_*`: bytes that the peer can initially send on each stream.
    pub initial_stream_window: u64,
    /// `initial_max_streams_bidi`: bidirectional streams that the peer can have open at once.
    pub max_bidi_streams: u64,
    /// `initial_max_streams_uni`: unidirectional streams that the peer can have open at once.
    pub max_uni_streams: u64,
    /// Maximum size to which the window of the connection and of each stream grows automatically,
    /// in bytes.
    pub max_window: u64,
    /// Maximum size to which the send buffer of all streams together grows automatically, in bytes.
    pub max_send_buffer: u64,
}

impl StreamsConfig {
    /// Raises the initial windows for senders that routers grant a rate within the first round
    /// trip: to 0.4 of a bandwidth-delay product of 2.5 Gbit/s and 130 ms per stream. This matters
    /// because a sender never asks its routers for more than its receiver has promised.
    #[must_use]
    pub const fn with_room_for_grants(mut self) -> Self {
        self.initial_connection_window = 24 << 20;
        self.initial_stream_window = 16 << 20;
        self
    }

    /// Lowers the initial windows to the share of `memory` for a new connection. In this case,
    /// each stream gets at most three quarters of the connection's window, so that an unread
    /// stream leaves some for others.
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
    /// Windows are initially small, but can grow enough for 10 Gbit/s over 720 ms (900 MB in
    /// flight): five times that is 4.5 GB.
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
