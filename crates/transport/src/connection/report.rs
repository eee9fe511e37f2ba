//! Reports about a connection's path, for people and logs.

use std::net::{IpAddr, SocketAddr};

use pathmark_cc::{ControllerShares, Feedback, Metrics};

use super::bounds::BoundShares;
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
