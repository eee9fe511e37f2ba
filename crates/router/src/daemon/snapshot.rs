//! The router's state at one moment, as `show --json` prints it.

use std::collections::BTreeMap;

use pathmark_cc::Instant;
use serde::Serialize;

use crate::core::{DropCause, Summary};
use crate::forward::{Router, RouterPort};
use crate::law_view::LawView;

/// Everything there is to see.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Identity in shims.
    pub id: u16,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// The ports' links.
    pub links: Vec<LinkView>,
    /// The router's own counters.
    pub counters: BTreeMap<&'static str, u64>,
    /// Bytes of packet buffers.
    pub memory_bytes: usize,
}

/// A link. The first eight keys are those of a result's links.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkView {
    /// The port's name.
    pub name: String,
    /// Rate in bits per second; `None`: unlimited.
    pub rate_bps: Option<f64>,
    /// IP bytes sent over the rate integrated over time, since the port came up.
    pub utilization: Option<f64>,
    /// Always `None`: a router does not know its flows' round-trip time.
    pub time_to_80_s: Option<f64>,
    /// The queue in packets, weighted by time.
    pub queue_packets: QueueView,
    /// The queue as the time that it takes to drain, in milliseconds, weighted by time.
    pub queue_ms: QueueView,
    /// Packets that the queue dropped.
    pub drops: u64,
    /// Packets lost at random on the wire.
    pub random_losses: u64,
    /// The control law's state; empty without one.
    pub controller: LawView,
    /// Drops by cause.
    pub drops_by_cause: BTreeMap<&'static str, u64>,
    /// Packets that arrived.
    pub arrived_packets: u64,
    /// IP bytes that arrived.
    pub arrived_bytes: u64,
    /// Packets that left for the wire.
    pub sent_packets: u64,
    /// IP bytes that left for the wire.
    pub sent_bytes: u64,
    /// Packets under way on the wire.
    pub in_flight: usize,
    /// Bytes that wait.
    pub queue_bytes: u64,
    /// The interface's name when it was opened.
    pub interface: String,
}

/// A queue over time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct QueueView {
    /// Right now.
    pub now: f64,
    /// Mean over all the time.
    pub mean: f64,
    /// Mean over the time in which it was not empty.
    pub mean_nonempty: f64,
    /// Not exceeded in 99 % of the time.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Snapshot {
    /// The state at `now`. `laws` and `interfaces` name what the router itself does not know, port by port.
    #[must_use]
    pub fn take(
        router: &Router,
        id: u16,
        now: Instant,
        laws: &[Option<String>],
        interfaces: &[String],
    ) -> Self {
        let links = router.ports().iter().enumerate().map(|(index, port)| {
            let law = laws.get(index).cloned().flatten();
            let interface = interfaces.get(index).cloned().unwrap_or_default();
            LinkView::take(port, now, law, interface)
        });
        Self {
            id,
            uptime_s: seconds(now),
            links: links.collect(),
            counters: router.counters().entries().into_iter().collect(),
            memory_bytes: router.memory(),
        }
    }
}

impl LinkView {
    fn take(
        router_port: &RouterPort,
        now: Instant,
        law: Option<String>,
        interface: String,
    ) -> Self {
        let port = router_port.link.port();
        let stats = port.stats();
        let drops = stats.drops();
        let capacity = stats.capacity_bytes(now);
        let causes = DropCause::ALL.map(|cause| (cause.name(), drops.of(cause)));
        Self {
            name: router_port.settings.name.clone(),
            rate_bps: port.rate().map(|rate| rate as f64 * 8.0),
            utilization: (capacity > 0).then(|| stats.sent_bytes() as f64 / capacity as f64),
            time_to_80_s: None,
            queue_packets: QueueView::new(stats.queue_packets(now), 1.0),
            queue_ms: QueueView::new(stats.queue_micros(now), 1e-3),
            drops: drops.by_queue(),
            random_losses: drops.of(DropCause::RandomLoss),
            controller: port
                .metrics()
                .map_or_else(LawView::default, |metrics| LawView::new(law, &metrics)),
            drops_by_cause: causes.into_iter().collect(),
            arrived_packets: stats.arrived_packets(),
            arrived_bytes: stats.arrived_bytes(),
            sent_packets: stats.sent_packets(),
            sent_bytes: stats.sent_bytes(),
            in_flight: router_port.link.wire().in_flight(),
            queue_bytes: port.depth().bytes,
            interface,
        }
    }
}

impl QueueView {
    fn new(summary: Summary, scale: f64) -> Self {
        Self {
            now: summary.now as f64 * scale,
            mean: summary.mean_milli as f64 / 1000.0 * scale,
            mean_nonempty: summary.mean_nonempty_milli as f64 / 1000.0 * scale,
            p99: summary.p99 as f64 * scale,
            max: summary.max as f64 * scale,
        }
    }
}

/// Seconds since the driver's epoch.
pub(super) fn seconds(now: Instant) -> f64 {
    now.as_nanos() as f64 / 1e9
}
