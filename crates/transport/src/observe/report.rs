//! Reports about a connection's path, for people and logs.

use core::fmt;
use std::net::{IpAddr, SocketAddr};

use pathmark_cc::{ControllerShares, Feedback, Metrics};

use crate::Duration;
use crate::path::{Disbelieved, EcnState};

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
impl fmt::Display for BoundShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shares = [
            (self.application, "application"),
            (self.peer, "peer"),
            (self.streams, "streams"),
            (self.buffers, "buffers"),
            (self.window, "window"),
            (self.router, "router"),
        ];
        shares.sort_by(|a, b| b.0.total_cmp(&a.0));
        let known = shares.iter().filter(|(share, _)| *share >= 0.01);
        for (index, (share, name)) in known.enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{name} {:.0} %", share * 100.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::BoundShares;

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
}
