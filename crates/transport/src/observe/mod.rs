//! What applications and logs see of a connection: reports about its path, its counters, why it
//! ended, and its events.

use core::fmt;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use pathmark_cc::{ControllerShares, Feedback, Limit, Metrics};

#[cfg(feature = "serde")]
mod report;
mod rtt_histogram;
mod trace;

#[cfg(feature = "serde")]
pub use report::{ControllerPart, ControllerTurn, Controllers, Distribution};
pub use rtt_histogram::RttHistogram;
pub(crate) use trace::Tracing;
pub use trace::{Trace, TraceEvent, TraceFactory, TracedPacket, TracedRecovery};

use crate::path::{Disbelieved, EcnState};
use crate::wire::TransportError;
use crate::{Duration, Instant, VarInt};

/// Why the peer's application closed a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationClose {
    /// Error code of the application.
    pub error_code: VarInt,
    /// Human-readable reason, exactly as the peer sent it.
    pub reason: Bytes,
}

impl fmt::Display for ApplicationClose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code {}{}", self.error_code, reason_text(&self.reason))
    }
}

/// Reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer violated the protocol, or the handshake failed on this side. The close sent by this
    /// side contains the reason.
    #[error("{0}")]
    TransportError(TransportError),
    /// The peer's transport closed the connection (CONNECTION_CLOSE of type 0x1c).
    #[error("closed by the peer: {0}")]
    ConnectionClosed(TransportError),
    /// The peer's application closed the connection (CONNECTION_CLOSE of type 0x1d).
    #[error("closed by the peer's application with {0}")]
    ApplicationClosed(ApplicationClose),
    /// This side's application closed the connection.
    #[error("closed by this side's application")]
    LocallyClosed,
    /// The tokio runtime of this side's connection or endpoint has ended.
    #[error("the runtime of this side's connection has ended")]
    RuntimeEnded,
    /// This side's connection panicked, possibly in its congestion controller. The peer was sent a
    /// CONNECTION_CLOSE with INTERNAL_ERROR.
    #[error("this side's connection panicked, in its congestion controller perhaps")]
    Panicked,
    /// The peer no longer knows the connection (RFC 9000 §10.3).
    #[error("reset by the peer")]
    Reset,
    /// No packet arrived from the peer within the idle timeout.
    #[error("timed out: no packet from the peer")]
    TimedOut,
    /// The handshake didn't complete in time.
    #[error("timed out: the handshake did not complete in time")]
    HandshakeTimedOut,
    /// The socket failed and can't be used anymore.
    #[error("the socket failed: {0}")]
    Socket(std::io::ErrorKind),
    /// Client: a router or the server's host answered the handshake's first packets by ICMP.
    /// `ConnectionRefused` means that no socket is bound to the port.
    #[error("{}", unreachable_text(*.0))]
    Unreachable(std::io::ErrorKind),
    /// Client: the interface to the server, or a link behind a router that reports this by ICMP,
    /// can't carry datagrams of this many bytes, which the handshake requires (RFC 9000 §14.1).
    #[error(
        "a link on the path to the server carries no datagrams of {0} bytes: set a smaller \
         `initial_mtu` at both ends"
    )]
    PathTooNarrow(u16),
    /// The server doesn't support any version that this side supports.
    #[error("the server does not speak QUIC version 1")]
    VersionMismatch,
    /// The server's Retry token has this many bytes. Because each Initial packet must carry it (RFC
    /// 9000 §8.1.2), there would be no room for the handshake.
    #[error("the server's Retry token has {0} bytes: no room is left for the handshake")]
    TokenTooLong(usize),
}

impl From<ConnectionError> for std::io::Error {
    fn from(error: ConnectionError) -> Self {
        use std::io::ErrorKind;
        let kind = match &error {
            ConnectionError::TimedOut | ConnectionError::HandshakeTimedOut => ErrorKind::TimedOut,
            ConnectionError::Reset => ErrorKind::ConnectionReset,
            ConnectionError::ApplicationClosed { .. } | ConnectionError::ConnectionClosed(_) => {
                ErrorKind::ConnectionAborted
            }
            ConnectionError::Socket(kind) | ConnectionError::Unreachable(kind) => *kind,
            _ => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

fn unreachable_text(kind: std::io::ErrorKind) -> String {
    match kind {
        std::io::ErrorKind::ConnectionRefused => {
            "the host refuses: no server listens on this UDP port (ICMP)".to_owned()
        }
        kind => format!("out of reach: {kind} (ICMP)"),
    }
}

fn reason_text(reason: &Bytes) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(" ({})", String::from_utf8_lossy(reason))
    }
}

/// State of the current path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathReport {
    /// The peer's address.
    pub remote: SocketAddr,
    /// The local address, if the driver provides it.
    pub local: Option<IpAddr>,
    /// State of the control law.
    pub controller: Metrics,
    /// Control laws that have controlled the connection's window so far, with their times, bytes
    /// and changes.
    pub controllers: ControllerShares,
    /// Pacing rate in bytes per second, if one exists yet.
    pub pace: Option<u64>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Latest RTT sample.
    pub latest_rtt: Option<Duration>,
    /// Smoothed RTT.
    pub smoothed_rtt: Option<Duration>,
    /// RTT variation.
    pub rtt_variation: Option<Duration>,
    /// Minimum RTT.
    pub min_rtt: Option<Duration>,
    /// Largest datagram, in bytes of UDP payload including the shim.
    pub mtu: u16,
    /// Kind of the signal that precedes outgoing data, if both sides advertised one.
    pub signal: Option<u8>,
    /// False once the path was found to drop datagrams with a shim.
    pub passes_shims: bool,
    /// Latest feedback from routers that the peer has returned.
    pub feedback: Option<Feedback>,
    /// Identity of the router that currently limits the flow according to this feedback: the one
    /// with the highest load (VCP), or the last that lowered the requested value (XCP).
    pub router: Option<u16>,
    /// FEEDBACK frames that were disbelieved, by reason.
    pub disbelieved: Disbelieved,
    /// Detected steps of the peer's clock. Queueing delays toward the peer can't be measured across
    /// a step.
    pub clock_steps: u64,
    /// False once this clock has stepped too often to be usable. Any increase of the RTT is then
    /// attributed to a queue toward the peer.
    pub clock_used: bool,
    /// Bytes that the peer may currently have in flight to this side.
    pub receive_window: u64,
    /// True if this window is smaller than the application's reading rate requires, because
    /// `max_window` or the endpoint's memory limits it.
    pub receive_limited: bool,
    /// State of ECN validation.
    pub ecn: EcnState,
    /// Limits of the sender, as shares of the connection's time.
    pub bounded_by: BoundShares,
    /// True if the path is validated.
    pub validated: bool,
    /// True if routers were asked for a previously known rate of this path before the handshake was
    /// complete.
    pub known_path: bool,
}

/// Says on one line who controls the window, its size, the path's times, and what holds the sender
/// back, such as `xcp: window 61.3 kB, 60.0 kB in flight, 1.20 Mbit/s, round trip 401.2 ms (least
/// 400.1 ms), router 1; bounded by router 89 %`.
impl fmt::Display for PathReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.controller.ruling)?;
        if let Some(reason) = self.controller.fallback {
            write!(f, " ({reason})")?;
        }
        let kilobytes = |bytes: u64| bytes as f64 / 1e3;
        write!(f, ": window {:.1} kB", kilobytes(self.controller.window))?;
        write!(f, ", {:.1} kB in flight", kilobytes(self.in_flight))?;
        if let Some(pace) = self.pace {
            write!(f, ", {:.2} Mbit/s", pace as f64 * 8e-6)?;
        }
        let milliseconds = |time: Duration| time.as_nanos() as f64 / 1e6;
        if let Some((smoothed, least)) = self.smoothed_rtt.zip(self.min_rtt) {
            let (smoothed, least) = (milliseconds(smoothed), milliseconds(least));
            write!(f, ", round trip {smoothed:.1} ms (least {least:.1} ms)")?;
        }
        if let Some(router) = self.router {
            write!(f, ", router {router}")?;
        }
        let bounds = self.bounded_by.to_string();
        if !bounds.is_empty() {
            write!(f, "; bounded by {bounds}")?;
        }
        Ok(())
    }
}

/// Shares of time in which each limit held the sender back, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct BoundShares {
    /// The application had nothing to send.
    pub application: f64,
    /// The peer's flow control (MAX_DATA, MAX_STREAM_DATA).
    pub peer: f64,
    /// The peer's limit on streams (MAX_STREAMS): the application waited to open one, and had
    /// nothing else to send.
    pub streams: f64,
    /// This side's send buffer.
    pub buffers: f64,
    /// The congestion window or its pacer, controlled only by loss or delay.
    pub window: f64,
    /// The congestion window, controlled by a router's answers.
    pub router: f64,
}

/// Lists limits that applied for at least 1 % of the time, longest first, such as `router 89 %,
/// application 11 %`.
impl BoundShares {
    /// Returns the shares with the names of their fields in descending order.
    pub fn sorted(&self) -> [(f64, &'static str); 6] {
        let mut shares = [
            (self.application, "application"),
            (self.peer, "peer"),
            (self.streams, "streams"),
            (self.buffers, "buffers"),
            (self.window, "window"),
            (self.router, "router"),
        ];
        shares.sort_by(|a, b| b.0.total_cmp(&a.0));
        shares
    }

    /// Returns the limit with the largest share, or `None` before anything was sent.
    pub fn largest(&self) -> Option<&'static str> {
        let [(share, name), ..] = self.sorted();
        (share > 0.0).then_some(name)
    }
}

impl fmt::Display for BoundShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.sorted();
        let known = shares.iter().filter(|(share, _)| *share >= 0.01);
        for (index, (share, name)) in known.enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{name} {:.0} %", share * 100.0)?;
        }
        Ok(())
    }
}

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

/// The current limit of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Application,
    Peer,
    Streams,
    Buffers,
    Window,
    Router,
}

impl Bound {
    /// Maps a controller's limit to the reported one: the window counts as the routers' while they
    /// control it. `opening` is true if the application is waiting to open a stream.
    pub(crate) const fn new(limit: Limit, explicit: bool, opening: bool) -> Self {
        match limit {
            Limit::Application if opening => Self::Streams,
            Limit::Application => Self::Application,
            Limit::Peer => Self::Peer,
            Limit::Buffer => Self::Buffers,
            Limit::Window if explicit => Self::Router,
            Limit::Window => Self::Window,
        }
    }
}

fn nanos(now: Instant, since: Instant) -> u64 {
    now.as_nanos().saturating_sub(since.as_nanos())
}

/// Sums the time under each limit.
#[derive(Debug)]
pub(crate) struct Bounds {
    current: Bound,
    since: Instant,
    /// In nanoseconds.
    spent: [u64; 6],
}

impl Bounds {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            current: Bound::Application,
            since: now,
            spent: [0; 6],
        }
    }

    /// Sets the limit that applies from `now` on.
    pub(crate) fn set(&mut self, now: Instant, bound: Bound) {
        if bound != self.current {
            self.settle(now);
            self.current = bound;
        }
    }

    fn settle(&mut self, now: Instant) {
        if let Some(spent) = self.spent.get_mut(self.current as usize) {
            *spent = spent.saturating_add(nanos(now, self.since));
        }
        self.since = now;
    }

    /// Returns the shares of the time up to `now`, which are all zero before any time has passed.
    pub(crate) fn shares(&self, now: Instant) -> BoundShares {
        let time = |bound: Bound| {
            let mut spent = self.spent.get(bound as usize).copied().unwrap_or_default();
            if bound == self.current {
                spent = spent.saturating_add(nanos(now, self.since));
            }
            spent as f64
        };
        let all = [
            time(Bound::Application),
            time(Bound::Peer),
            time(Bound::Streams),
            time(Bound::Buffers),
            time(Bound::Window),
            time(Bound::Router),
        ];
        let total: f64 = all.iter().sum();
        if total <= 0.0 {
            return BoundShares::default();
        }
        let [application, peer, streams, buffers, window, router] = all.map(|t| t / total);
        BoundShares {
            application,
            peer,
            streams,
            buffers,
            window,
            router,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bound_comes_first() {
        let bounds = BoundShares {
            application: 0.104,
            router: 0.892,
            peer: 0.004,
            ..BoundShares::default()
        };
        assert_eq!(bounds.to_string(), "router 89 %, application 10 %");
        assert_eq!(BoundShares::default().to_string(), "");
    }

    #[test]
    fn shares_add_up_to_the_time_spent_under_each_bound() {
        let at = Instant::from_millis;
        let mut bounds = Bounds::new(at(0));
        assert_eq!(bounds.shares(at(0)), BoundShares::default());
        bounds.set(at(100), Bound::new(Limit::Window, false, false));
        bounds.set(at(300), Bound::new(Limit::Window, true, true));
        bounds.set(at(350), Bound::new(Limit::Window, true, false));
        bounds.set(at(400), Bound::new(Limit::Peer, true, true));
        bounds.set(at(700), Bound::new(Limit::Application, true, true));
        let shares = bounds.shares(at(1000));
        assert!((shares.application - 0.1).abs() < 1e-9);
        assert!((shares.window - 0.2).abs() < 1e-9);
        assert!((shares.router - 0.1).abs() < 1e-9);
        assert!((shares.peer - 0.3).abs() < 1e-9);
        assert!((shares.streams - 0.3).abs() < 1e-9);
    }
}
