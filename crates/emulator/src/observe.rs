//! Watching a run: how far it is, and time series.

use std::ops::ControlFlow;

use pathmark_cc::{Duration, FallbackReason, VcpCode};

use crate::scenario::Scenario;

/// Watches a run.
pub trait Observer {
    /// Called once per few thousand events. [`ControlFlow::Break`] ends the run; what was measured
    /// until then is its result.
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        let _ = progress;
        ControlFlow::Continue(())
    }

    /// True if it wants [`sample`](Self::sample) to be called every [`Scenario::sample`] of
    /// simulated time.
    fn wants_samples(&self) -> bool {
        false
    }

    /// What flows and links did since the last sample.
    fn sample(&mut self, scenario: &Scenario, sample: &Sample<'_>) {
        let _ = (scenario, sample);
    }

    /// True if it wants [`packet`](Self::packet) to be called for links with `capture = true`.
    fn wants_packets(&self) -> bool {
        false
    }

    /// A packet has come out of the link of this index at this time: an IPv4 and a UDP header and
    /// the datagram's own bytes.
    fn packet(&mut self, scenario: &Scenario, link: usize, at: Duration, packet: &[u8]) {
        let _ = (scenario, link, at, packet);
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated time that has passed.
    pub simulated: Duration,
    /// Simulated time at which the run ends at the latest.
    pub duration: Duration,
    /// Packets that entered the network.
    pub packets: u64,
    /// Events handled.
    pub events: u64,
    /// Flows with an end that have not reached it.
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

/// A flow at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowPoint {
    /// It is connected, or connecting.
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
    /// Probe timeouts so far.
    pub timeouts: u64,
    /// Why standard congestion control sets its window, if its law uses router feedback; `None`:
    /// feedback sets it.
    pub fallback: Option<FallbackReason>,
}

/// A link at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkPoint {
    /// Rate in bits per second.
    pub rate_bps: Option<f64>,
    /// Utilization since the last sample.
    pub utilization: Option<f64>,
    /// Packets that wait.
    pub queue_packets: u64,
    /// Bytes that wait.
    pub queue_bytes: u64,
    /// Packets that the queue dropped since the last sample.
    pub drops: u64,
    /// Packets lost on the wire since the last sample.
    pub losses: u64,
    /// State of its control law.
    pub law: Option<LawPoint>,
}

/// A control law at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LawPoint {
    /// Load of the last interval.
    pub load: f64,
    /// The code that follows from it.
    pub code: VcpCode,
    /// BISE's r.
    pub r: Option<f64>,
    /// Packets that left with each code since the last sample: none, LOW, HIGH, OVER.
    pub marked: [u64; 4],
}
