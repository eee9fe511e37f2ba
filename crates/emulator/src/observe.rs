//! Observing a run: its progress, and time series.

use std::ops::ControlFlow;
use std::sync::Arc;

use pathmark_cc::{Duration, FallbackReason, VcpCode};
pub use pathmark_transport::observe::TraceFactory;

use crate::scenario::Scenario;

/// Observes a run.
pub trait Observer {
    /// Called every few thousand events. [`ControlFlow::Break`] ends the run, whose result then
    /// contains the measurements up to this time.
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        let _ = progress;
        ControlFlow::Continue(())
    }

    /// Returns true if [`sample`](Self::sample) should be called every [`Scenario::sample`] of
    /// simulated time.
    fn wants_samples(&self) -> bool {
        false
    }

    /// Called with the changes of flows and links since the last sample.
    fn sample(&mut self, scenario: &Scenario, sample: &Sample<'_>) {
        let _ = (scenario, sample);
    }

    /// Returns what creates a log of each connection of this flow, in simulated time.
    fn trace(&self, flow: &str) -> Option<Arc<dyn TraceFactory>> {
        let _ = flow;
        None
    }

    /// Returns true if [`packet`](Self::packet) should be called for links with `capture = true`.
    fn wants_packets(&self) -> bool {
        false
    }

    /// Called when a packet leaves the link with this index. `packet` consists of an IPv4
    /// header, a UDP header, and the datagram's bytes.
    fn packet(&mut self, scenario: &Scenario, link: usize, at: Duration, packet: &[u8]) {
        let _ = (scenario, link, at, packet);
    }
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated time so far.
    pub simulated: Duration,
    /// Maximum simulated time of the run.
    pub duration: Duration,
    /// Packets that entered the network.
    pub packets: u64,
    /// Events handled.
    pub events: u64,
    /// Finite flows that are not complete.
    pub unfinished: u32,
}

/// A point of all time series.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Simulated time.
    pub at: Duration,
    /// Flows, in the order of the scenario.
    pub flows: &'a [FlowPoint],
    /// Links, in the order of the scenario.
    pub links: &'a [LinkPoint],
}

/// A flow at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowPoint {
    /// True if it is connected or connecting.
    pub active: bool,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// Bits per second delivered since the last sample.
    pub goodput_bps: f64,
    /// Packets declared lost so far.
    pub lost: u64,
    /// Packets per second declared lost since the last sample.
    pub losses_per_s: f64,
    /// Probe timeouts so far; for a paper's sender or a TCP, retransmission timeouts.
    pub timeouts: u64,
    /// Why standard congestion control determines its window, if its law uses router feedback;
    /// `None`: feedback determines it.
    pub fallback: Option<FallbackReason>,
}

/// A link at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkPoint {
    /// Rate in bits per second.
    pub rate_bps: Option<f64>,
    /// Utilization since the last sample.
    pub utilization: Option<f64>,
    /// Queued packets.
    pub queue_packets: u64,
    /// Queued bytes.
    pub queue_bytes: u64,
    /// Packets that the queue dropped since the last sample.
    pub drops: u64,
    /// Packets lost on the wire since the last sample.
    pub losses: u64,
    /// State of its control law.
    pub law: Option<LawPoint>,
}

/// A control law at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LawPoint {
    /// Load of the last interval.
    pub load: f64,
    /// The resulting code.
    pub code: VcpCode,
    /// BISE's r.
    pub r: Option<f64>,
    /// Packets that left with each code since the last sample: none, LOW, HIGH, OVER.
    pub marked: [u64; 4],
}
