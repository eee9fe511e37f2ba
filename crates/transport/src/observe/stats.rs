//! Counters of a connection.

use super::rtt_histogram::RttHistogram;

/// Counters over a connection's lifetime so far, including all its paths.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// UDP datagrams sent.
    pub datagrams_sent: u64,
    /// UDP datagrams received with at least one packet that could be opened.
    pub datagrams_received: u64,
    /// Bytes of UDP payload sent, including shims.
    pub bytes_sent: u64,
    /// Bytes of UDP payload received in [`datagrams_received`](Self::datagrams_received).
    pub bytes_received: u64,
    /// QUIC packets sent.
    pub packets_sent: u64,
    /// QUIC packets received and successfully opened.
    pub packets_received: u64,
    /// Packets received more than once.
    pub packets_duplicate: u64,
    /// Packets that couldn't be parsed or opened, or for which there were no keys.
    pub packets_dropped: u64,
    /// 0-RTT packets sent.
    pub early_packets_sent: u64,
    /// 0-RTT packets received and successfully opened.
    pub early_packets_received: u64,
    /// 0-RTT packets received but not opened: early data was refused, the packet was forged, or too
    /// many arrived before their keys. [`packets_dropped`](Self::packets_dropped) includes these.
    pub early_packets_dropped: u64,
    /// Acknowledgements postponed because they would have exceeded a quarter of the bytes received.
    pub acks_postponed: u64,
    /// Packets declared lost, excluding probes of the path MTU.
    pub packets_lost: u64,
    /// Bytes of these lost packets.
    pub bytes_lost: u64,
    /// Packets declared lost but acknowledged later.
    pub packets_spurious: u64,
    /// Bytes of stream data sent again.
    pub bytes_retransmitted: u64,
    /// DATAGRAM frames sent (RFC 9221).
    pub datagram_frames_sent: u64,
    /// DATAGRAM frames received.
    pub datagram_frames_received: u64,
    /// Datagrams dropped before sending, because newer datagrams needed the room, they waited
    /// too long in a flow, or the path could no longer carry this size.
    pub datagram_frames_unsent: u64,
    /// Datagrams received but dropped before being read, because newer datagrams needed the room or
    /// the endpoint's memory was scarce.
    pub datagram_frames_unread: u64,
    /// Probe timeouts that expired.
    pub probe_timeouts: u64,
    /// How often persistent congestion was established.
    pub persistent_congestions: u64,
    /// Acknowledgements that reported additional CE marks.
    pub congestion_experienced: u64,
    /// Datagrams sent with a shim.
    pub shims_sent: u64,
    /// Shims received and counted.
    pub shims_received: u64,
    /// Shims whose check failed.
    pub shims_bad: u64,
    /// FEEDBACK frames that contained news for the controller.
    pub feedback_received: u64,
    /// FEEDBACK frames with impossible counters.
    pub feedback_bad: u64,
    /// Key updates initiated by either side.
    pub key_updates: u64,
    /// Path changes that were successfully validated.
    pub migrations: u64,
    /// PATH_CHALLENGE frames received.
    pub path_challenges: u64,
    /// NEW_CONNECTION_ID and RETIRE_CONNECTION_ID frames received.
    pub id_frames: u64,
    /// RESET_STREAM and STOP_SENDING frames received.
    pub streams_given_up: u64,
    /// Path MTU probes lost.
    pub mtu_probes_lost: u64,
    /// How often the path stopped carrying datagrams of the size found before.
    pub mtu_black_holes: u64,
    /// Distribution of RTT samples.
    pub rtt: RttHistogram,
}
