//! What a connection tells of its path, for people and for logs.

use std::net::{IpAddr, SocketAddr};

use pathmark_cc::{ControllerShares, Feedback, Metrics};

use super::bounds::BoundShares;
use crate::Duration;
use crate::path::{Disbelieved, EcnState};

/// The state of the current path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathReport {
    /// The peer's address.
    pub remote: SocketAddr,
    /// Ours, where the driver tells it.
    pub local: Option<IpAddr>,
    /// The control law's state.
    pub controller: Metrics,
    /// The laws that had the connection's window so far: their times, their bytes, the changes.
    pub controllers: ControllerShares,
    /// Pace in bytes per second, once there is one.
    pub pace: Option<u64>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Latest RTT sample.
    pub latest_rtt: Option<Duration>,
    /// Smoothed RTT.
    pub smoothed_rtt: Option<Duration>,
    /// RTT variation.
    pub rtt_variation: Option<Duration>,
    /// Least RTT.
    pub min_rtt: Option<Duration>,
    /// Largest datagram, bytes of UDP payload, shim included.
    pub mtu: u16,
    /// Kind of the signal in front of our data, if both sides advertised one.
    pub signal: Option<u8>,
    /// False once the path was found to drop datagrams with a shim.
    pub passes_shims: bool,
    /// The latest feedback of routers, as far as the peer has returned it.
    pub feedback: Option<Feedback>,
    /// Identity of the router that bounds the flow by that feedback: the one with the highest load
    /// (VCP), the last one that lowered what was asked (XCP).
    pub router: Option<u16>,
    /// FEEDBACK frames that were not believed, and why.
    pub disbelieved: Disbelieved,
    /// Steps of the peer's clock: how long packets queue on their way there is not known across
    /// them.
    pub clock_steps: u64,
    /// False once that clock stepped too often to be used: all that the RTT grows by then counts as
    /// a queue on the way there.
    pub clock_used: bool,
    /// Bytes that the peer may have on its way to this side.
    pub receive_window: u64,
    /// That is less than the rate at which the application reads asks for: `max_window` or the
    /// endpoint's memory bounds it.
    pub receive_limited: bool,
    /// State of ECN validation.
    pub ecn: EcnState,
    /// What bounded the sender, as shares of the connection's time.
    pub bounded_by: BoundShares,
    /// The path is validated.
    pub validated: bool,
    /// Routers were asked for a rate that was known of this path before the handshake was complete.
    pub known_path: bool,
}
