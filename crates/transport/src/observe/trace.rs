//! Events of a connection for logs of it, such as qlog.
//!
//! [`TransportConfig::trace`](crate::TransportConfig::trace) creates a [`Trace`] for each
//! connection, which gets each [`TraceEvent`] when it happens. A connection without one only pays
//! for a branch per packet.

use core::fmt;
use std::sync::Arc;

use pathmark_cc::Feedback;

use super::{ConnectionError, PathReport, Stats};
use crate::crypto::Side;
use crate::wire::{ConnectionId, PacketType};
use crate::{Duration, Instant};

/// Time between two [reports](TraceEvent::Report).
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Creates logs of connections.
pub trait TraceFactory: Send + Sync {
    /// Creates the log of a connection that begins at `now`, or returns `None` if it shouldn't have
    /// one. `id` is the destination connection ID of the client's first packet, which both ends
    /// know.
    fn start(&self, now: Instant, side: Side, id: ConnectionId) -> Option<Box<dyn Trace>>;
}

/// The log of a connection. It is dropped when the connection is.
pub trait Trace: Send {
    /// Records an event. Because this is called for each packet, it should neither block nor
    /// allocate.
    fn on_event(&mut self, now: Instant, event: &TraceEvent<'_>);
}

/// An event of a connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// A packet was built.
    Sent(TracedPacket),
    /// A packet was decrypted.
    Received(TracedPacket),
    /// A packet was declared lost.
    Lost(TracedPacket),
    /// An ACK frame or a timeout may have changed the window.
    Recovery(TracedRecovery),
    /// The peer returned what routers wrote into the packets since the last such event.
    Feedback(Feedback),
    /// The state of the path and all counters: every second, and when the connection ends or is
    /// dropped.
    Report(&'a PathReport, &'a Stats),
    /// The connection ended.
    Closed(&'a ConnectionError),
}

/// A packet of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedPacket {
    /// Its type, which also says its packet number space.
    pub ty: PacketType,
    /// Its number.
    pub number: u64,
    /// Its bytes, including the shim if there is one.
    pub bytes: u64,
    /// Whether a shim precedes it. Always false for received packets.
    pub shim: bool,
    /// Whether it searches for a larger MTU.
    pub mtu_probe: bool,
    /// Whether the peer needn't acknowledge it. Always false for received packets.
    pub ack_only: bool,
}

/// State of loss recovery and of the congestion controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRecovery {
    /// Smoothed RTT.
    pub smoothed_rtt: Option<Duration>,
    /// Minimum RTT.
    pub min_rtt: Option<Duration>,
    /// Latest RTT sample.
    pub latest_rtt: Option<Duration>,
    /// RTT variation.
    pub rtt_variation: Option<Duration>,
    /// Number of probe timeouts in a row.
    pub probe_timeouts: u32,
    /// Congestion window in bytes.
    pub window: u64,
    /// Slow-start threshold in bytes, if the law has one.
    pub ssthresh: Option<u64>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Pacing rate in bytes per second, if one exists yet.
    pub pace: Option<u64>,
    /// Name of the law that controls the window.
    pub law: &'static str,
    /// Reason why routers don't control the window although the law asks them.
    pub fallback: Option<&'static str>,
}

/// The log of one connection, if it has one.
pub(crate) struct Tracing {
    log: Option<Box<dyn Trace>>,
    next_report: Instant,
    /// Time of the last event.
    last: Instant,
    ended: bool,
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing")
            .field("on", &self.log.is_some())
            .finish_non_exhaustive()
    }
}

impl Tracing {
    pub(crate) fn new(
        factory: Option<&Arc<dyn TraceFactory>>,
        now: Instant,
        side: Side,
        id: ConnectionId,
    ) -> Self {
        Self {
            log: factory.and_then(|factory| factory.start(now, side, id)),
            next_report: now + REPORT_EVERY,
            last: now,
            ended: false,
        }
    }

    /// Records the event that `event` creates, which is only called if there is a log.
    pub(crate) fn record(&mut self, now: Instant, event: impl FnOnce() -> TraceEvent<'static>) {
        if let Some(log) = &mut self.log {
            self.last = now;
            log.on_event(now, &event());
        }
    }

    /// Ends the log without a last report.
    pub(crate) fn stop(&mut self) {
        self.log = None;
    }

    /// Returns the time of the last event, if there is a log whose connection neither ended nor
    /// panicked.
    pub(crate) fn unended(&self) -> Option<Instant> {
        let unended = self.log.is_some() && !self.ended && !std::thread::panicking();
        unended.then_some(self.last)
    }

    /// Returns true if a report is due: regularly, and once when the connection has ended.
    pub(crate) fn is_due(&self, now: Instant, has_ended: bool) -> bool {
        self.log.is_some() && (now >= self.next_report || has_ended) && !self.ended
    }

    /// Records a report.
    pub(crate) fn report(&mut self, now: Instant, report: &PathReport, stats: &Stats) {
        self.next_report = now + REPORT_EVERY;
        if let Some(log) = &mut self.log {
            log.on_event(now, &TraceEvent::Report(report, stats));
        }
    }

    /// Records why the connection ended, if it did.
    pub(crate) fn end(&mut self, now: Instant, error: Option<&ConnectionError>) {
        if let Some((log, error)) = self.log.as_mut().zip(error) {
            self.ended = true;
            log.on_event(now, &TraceEvent::Closed(error));
        }
    }
}
