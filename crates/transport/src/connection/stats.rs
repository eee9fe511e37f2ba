//! What a connection has counted.

use super::rtt_histogram::RttHistogram;

/// Counters of a connection's life so far, over all its paths.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// UDP datagrams sent.
    pub datagrams_sent: u64,
    /// UDP datagrams received, of which at least one packet opened.
    pub datagrams_received: u64,
    /// Bytes of UDP payload sent, shims included.
    pub bytes_sent: u64,
    /// Bytes of UDP payload received in the datagrams of
    /// [`datagrams_received`](Self::datagrams_received).
    pub bytes_received: u64,
    /// QUIC packets sent.
    pub packets_sent: u64,
    /// QUIC packets received that opened.
    pub packets_received: u64,
    /// Packets that arrived again.
    pub packets_duplicate: u64,
    /// Packets that did not parse or open, or had no keys.
    pub packets_dropped: u64,
    /// 0-RTT packets sent.
    pub early_packets_sent: u64,
    /// 0-RTT packets received that opened.
    pub early_packets_received: u64,
    /// 0-RTT packets received that did not: refused early data, forgeries, or before their keys and
    /// beyond what is kept of such. [`packets_dropped`](Self::packets_dropped) counts them too.
    pub early_packets_dropped: u64,
    /// Acknowledgements that had to wait: they would have taken more than a quarter of the bytes
    /// received.
    pub acks_postponed: u64,
    /// Packets declared lost (probes of the path MTU apart).
    pub packets_lost: u64,
    /// Their bytes.
    pub bytes_lost: u64,
    /// Packets declared lost and acknowledged later.
    pub packets_spurious: u64,
    /// Bytes of stream data sent again.
    pub bytes_retransmitted: u64,
    /// DATAGRAM frames sent (RFC 9221).
    pub datagram_frames_sent: u64,
    /// DATAGRAM frames received.
    pub datagram_frames_received: u64,
    /// Datagrams that were dropped before they were sent: newer ones needed the room, or the path
    /// carried no more as much.
    pub datagram_frames_unsent: u64,
    /// Datagrams that arrived and were dropped before they were read: newer ones needed the room.
    pub datagram_frames_unread: u64,
    /// Probe timeouts that fired.
    pub probe_timeouts: u64,
    /// Times that persistent congestion was established.
    pub persistent_congestions: u64,
    /// Acknowledgements that reported more CE marks.
    pub congestion_experienced: u64,
    /// Datagrams sent with a shim.
    pub shims_sent: u64,
    /// Shims that counted.
    pub shims_received: u64,
    /// Shims whose check failed.
    pub shims_bad: u64,
    /// FEEDBACK frames with news for the controller.
    pub feedback_received: u64,
    /// FEEDBACK frames whose counters cannot be.
    pub feedback_bad: u64,
    /// Key updates, of either side.
    pub key_updates: u64,
    /// Changes of path that were validated.
    pub migrations: u64,
    /// PATH_CHALLENGE frames received.
    pub path_challenges: u64,
    /// NEW_CONNECTION_ID and RETIRE_CONNECTION_ID frames received.
    pub id_frames: u64,
    /// RESET_STREAM and STOP_SENDING frames received.
    pub streams_given_up: u64,
    /// Path MTU probes lost.
    pub mtu_probes_lost: u64,
    /// Times that the path stopped carrying datagrams of the size found before.
    pub mtu_black_holes: u64,
    /// RTT samples.
    pub rtt: RttHistogram,
}
