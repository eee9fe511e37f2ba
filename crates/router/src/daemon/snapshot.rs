//! The router's state at one time, as `show --json` prints it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use pathmark_cc::{Duration, Instant};
use pathmark_link::law_view::LawView;
use pathmark_link::{Delays, DropCause, Summary};
use serde::Serialize;

use super::clouds::MeterView;
use super::measure::{Measurements, Report, Reports};
use super::rates::{History, Rates};
use super::steering::{Looks, States, SteeringState, Watches};
use crate::forward::{Refused, Router, RouterPort, TunnelTally};
use crate::tun::{Device, Watch, sys};

/// The complete state.
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
    /// Measurements of clouds, if configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xcp_i: Option<MeterView>,
    /// Bytes of packet buffers.
    pub memory_bytes: usize,
    /// The program.
    pub build: Build,
    /// Processor time of the packet thread, in seconds.
    pub packet_thread_busy_s: f64,
    /// The configuration in force.
    pub reload: Reload,
    /// The HTTP address for Prometheus text, with the port that the system chose if the
    /// configured one is 0.
    pub metrics: Option<SocketAddr>,
}

/// The running program.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The target architecture.
    pub target: &'static str,
    /// True if built with assertions for developers.
    pub debug: bool,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            target: std::env::consts::ARCH,
            debug: cfg!(debug_assertions),
        }
    }
}

/// The history of the configuration since the start.
#[derive(Clone, Debug, Serialize)]
pub struct Reload {
    /// Number of configurations applied: 1 after the start, plus one for each successful reload.
    pub generation: u64,
    /// Reloads that failed without changing anything.
    pub failures: u64,
    /// True if the last one succeeded.
    pub ok: bool,
    /// Why the last one failed; otherwise, the parts of the applied configuration that do not
    /// work.
    pub error: Option<String>,
    /// Time of the last attempt, or of the start, in seconds since the start.
    pub at_s: f64,
    /// The same as Unix time in seconds.
    pub at_unix_s: f64,
}

impl Default for Reload {
    fn default() -> Self {
        Self {
            generation: 1,
            failures: 0,
            ok: true,
            error: None,
            at_s: 0.0,
            at_unix_s: 0.0,
        }
    }
}

impl Reload {
    /// Number of finished reloads, successful or not.
    pub(super) fn ended(&self) -> u64 {
        self.generation - 1 + self.failures
    }

    /// Records the last reload, with the faults of the applied configuration or the reason why
    /// it was not applied. Returns a line for the log.
    pub(super) fn note(&mut self, at_s: f64, result: Result<Vec<String>, String>) -> String {
        self.at_s = at_s;
        self.ok = result.is_ok();
        match result {
            Ok(troubles) => {
                self.generation += 1;
                let generation = self.generation;
                let outcome = format!("reloaded, generation {generation}");
                let joined = troubles.join("; ");
                self.error = (!joined.is_empty()).then_some(joined);
                match &self.error {
                    Some(error) => format!("{outcome}, in force but for: {error}"),
                    None => outcome,
                }
            }
            Err(error) => {
                self.failures += 1;
                let outcome = format!("not reloaded, still running as before: {error}");
                self.error = Some(error);
                outcome
            }
        }
    }
}

/// A link. The first eight keys, apart from the reported capacity, are those of a result's links.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkView {
    /// The port's name.
    pub name: String,
    /// Rate and reported capacity.
    #[serde(flatten)]
    pub rate: RateView,
    /// IP bytes sent divided by the rate's integral over time, since the port was created.
    pub utilization: Option<f64>,
    /// Always `None`, because a router does not know its flows' round-trip times.
    pub time_to_80_s: Option<f64>,
    /// The queue in packets, weighted by time.
    pub queue_packets: QueueView,
    /// The queue as the time to drain it, in milliseconds, weighted by time.
    pub queue_ms: QueueView,
    /// Packets that the queue dropped.
    pub drops: u64,
    /// Packets lost randomly on the wire.
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
    /// Packets in flight on the wire.
    pub in_flight: usize,
    /// Queued bytes.
    pub queue_bytes: u64,
    /// The interface's current name; if the kernel cannot be queried, its name when it was
    /// opened.
    pub interface: String,
    /// `up`, `down`, `gone`, or `unknown`. The latter means that the kernel cannot be queried,
    /// or that it no longer finds the interface although packets can still be read from it,
    /// because it is in another network namespace.
    pub interface_state: &'static str,
    /// The interface's own MTU in bytes.
    pub interface_mtu: Option<u32>,
    /// Packets that the interface dropped before the router could read them, because its queue
    /// was full.
    pub interface_drops: Option<u64>,
    /// Whether packets are steered into the port as configured; `None`: there is no steering, or
    /// it has not been checked yet.
    pub steering: Option<SteeringState>,
    /// Packets whose shim the port did not trust. It treated them as foreign.
    pub shims_not_believed: u64,
    /// Number of times that flows were set aside because they kept sending too much; newcomers
    /// that are set aside together count once.
    pub times_set_aside: u64,
    /// Bytes of packet buffers that the port's packets use.
    pub memory_bytes: usize,
    /// IP packets that arrived and left here.
    pub packets: PacketsView,
    /// Recent rates.
    pub rates: Lately,
    /// Queueing delays of departed packets: foreign ones, and those that carry feedback.
    #[serde(skip)]
    pub(super) delays: [Delays; 2],
    /// How to query the interface.
    #[serde(skip)]
    pub(super) watch: Option<Watch>,
}

/// The rate of a link, and reports and measurements of the link behind it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RateView {
    /// Rate in bits per second without the limit of a report; `None`: unlimited.
    pub rate_bps: Option<f64>,
    /// The reported capacity in bits per second, at most the rate; `None`: none is reported.
    pub reported_capacity_bps: Option<f64>,
    /// Seconds until the report expires; `None`: it does not.
    pub reported_capacity_expires_s: Option<f64>,
    /// How long packets wait behind the port, in milliseconds; `None`: it is not known.
    pub delay_behind_ms: Option<f64>,
}

/// Rates over two periods.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Lately {
    /// Over the last second.
    #[serde(rename = "1s")]
    pub second: Rates,
    /// Over the last ten seconds.
    #[serde(rename = "10s")]
    pub ten_seconds: Rates,
}

/// Statistics of a queue.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct QueueView {
    /// Current value.
    pub now: f64,
    /// Mean over all of the time.
    pub mean: f64,
    /// Mean over the time in which the queue was not empty.
    pub mean_nonempty: f64,
    /// Not exceeded during 99 % of the time.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// Inputs of a snapshot from outside the router; lists are indexed by port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) id: u16,
    pub(super) laws: &'a [Option<String>],
    pub(super) devices: &'a [Device],
    pub(super) history: &'a History,
    pub(super) reload: &'a Reload,
    pub(super) metrics: Option<SocketAddr>,
    /// By name.
    pub(super) steering: &'a States,
    pub(super) reports: &'a Reports,
    pub(super) measurements: &'a Measurements,
}

impl Snapshot {
    /// The state at `now`, without the kernel's part: see [`add`](Self::add).
    pub(super) fn take(router: &Router, now: Instant, around: Surroundings<'_>) -> Self {
        let links = router.ports().iter().enumerate().map(|(index, port)| {
            let over = |span| around.history.rates(index, port, now, span);
            let device = around.devices.get(index);
            let report = around.reports.of(&port.settings.name);
            LinkView {
                rate: RateView {
                    delay_behind_ms: around.measurements.delay_ms(&port.settings.name, now),
                    ..RateView::take(port.link.port().own_rate(), report, now)
                },
                interface: device.map_or_else(String::new, |device| device.name().to_owned()),
                interface_state: if device.is_some_and(Device::is_lost) {
                    "gone"
                } else {
                    "unknown"
                },
                watch: device.and_then(Device::watched),
                memory_bytes: router.held(port),
                steering: around.steering.get(&port.settings.name).cloned(),
                shims_not_believed: port.not_believed(),
                rates: Lately {
                    second: over(Duration::from_secs(1)),
                    ten_seconds: over(Duration::from_secs(10)),
                },
                ..LinkView::take(port, now, around.laws.get(index).cloned().flatten())
            }
        });
        Self {
            id: around.id,
            uptime_s: seconds(now),
            links: links.collect(),
            counters: router.counters().entries().into_iter().collect(),
            xcp_i: MeterView::take(router, now),
            memory_bytes: router.memory(),
            build: Build::default(),
            packet_thread_busy_s: sys::thread_seconds(),
            reload: around.reload.clone(),
            metrics: around.metrics,
        }
    }

    /// Takes out the interfaces about which the kernel should be queried.
    pub(super) fn take_watches(&mut self) -> Watches {
        let links = self.links.iter_mut().enumerate();
        links
            .filter_map(|(at, link)| Some((at, link.watch.take()?)))
            .collect()
    }

    /// Adds the kernel's replies about them.
    pub(super) fn add(&mut self, looks: Looks) {
        for (at, state) in looks {
            let Some(link) = self.links.get_mut(at) else {
                continue;
            };
            link.interface = state.name;
            link.interface_mtu = Some(state.mtu);
            link.interface_drops = Some(state.dropped);
            if link.interface_state != "gone" {
                link.interface_state = if state.up && state.held { "up" } else { "down" };
            }
        }
    }
}

impl LinkView {
    fn take(router_port: &RouterPort, now: Instant, law: Option<String>) -> Self {
        let port = router_port.link.port();
        let stats = port.stats();
        let drops = stats.drops();
        let capacity = stats.capacity_bytes(now);
        let causes = DropCause::ALL.map(|cause| (cause.name(), drops.of(cause)));
        Self {
            name: router_port.settings.name.clone(),
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
            times_set_aside: port.times_set_aside(),
            packets: PacketsView::take(router_port),
            delays: *stats.delays(),
            ..Self::default()
        }
    }
}

impl RateView {
    /// Of a port with `rate` bytes per second, at `now`.
    fn take(rate: Option<u64>, report: Option<&Report>, now: Instant) -> Self {
        let until = report.and_then(|report| report.until);
        Self {
            rate_bps: rate.map(|rate| rate as f64 * 8.0),
            reported_capacity_bps: report.map(|report| report.taken(rate) as f64),
            reported_capacity_expires_s: until
                .map(|until| until.saturating_since(now).as_secs_f64()),
            delay_behind_ms: None,
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

/// Counts IP packets of a port since it was created. Each segment of a super-packet counts as
/// one packet.
///
/// `received = forwarded + Σ dropped_in`, and `offered = Σ dropped_out + held + written`. Over
/// all ports, `forwarded + generated = offered`, as long as no port is replaced.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PacketsView {
    /// Read from the interface.
    pub received: u64,
    /// Of these, handed to an output port.
    pub forwarded: u64,
    /// Of these, not forwarded, by reason. Those under `local` are for the router itself and not
    /// lost.
    pub dropped_in: BTreeMap<&'static str, u64>,
    /// Created by the router for this output port.
    pub generated: u64,
    /// Handed to this output port.
    pub offered: u64,
    /// Of these, dropped, by reason.
    pub dropped_out: BTreeMap<&'static str, u64>,
    /// Of these, in the queue or on the emulated wire now.
    pub held: u64,
    /// Of these, written to the interface.
    pub written: u64,
    /// Shims of the tunnel in front of which the port is; `None`: no tunnel.
    pub tunnel: Option<TunnelView>,
}

impl PacketsView {
    pub(super) fn take(port: &RouterPort) -> Self {
        let tally = port.tally();
        let drops = port.link.port().stats().drops();
        let causes = DropCause::ALL.map(|cause| (cause.name(), drops.of(cause)));
        let own = [
            ("too_big", tally.too_big),
            ("write_error", tally.write_errors),
        ];
        let reasons = Refused::ALL.map(|why| (why.name(), tally.refused(why)));
        Self {
            received: tally.received,
            forwarded: tally.forwarded,
            dropped_in: reasons.into_iter().collect(),
            generated: tally.generated,
            offered: tally.offered,
            dropped_out: causes.into_iter().chain(own).collect(),
            held: port.held_packets(),
            written: tally.written,
            tunnel: port.tunnel().map(TunnelView::new),
        }
    }
}

/// Counts shims of a tunnel's packets at the port in front of it, since the port was created.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TunnelView {
    /// Copied in front of departing packets.
    pub copied: u64,
    /// Copies in arriving packets that were merged.
    pub merged: u64,
    /// Not copied for want of room, or removed without merging.
    pub refused: u64,
}

impl TunnelView {
    pub(super) fn new(tally: TunnelTally) -> Self {
        Self {
            copied: tally.copied,
            merged: tally.merged,
            refused: tally.refused,
        }
    }
}

/// Seconds since the driver's epoch.
pub(super) fn seconds(now: Instant) -> f64 {
    now.as_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration with a fault that was applied must not be reported as refused.
    #[test]
    fn what_is_in_force_is_not_called_refused() {
        let mut reload = Reload::default();
        let counted = |reload: &Reload| (reload.generation, reload.failures, reload.ok);
        let outcome = reload.note(1.0, Ok(vec!["port a: deaf".to_owned()]));
        let expected = "reloaded, generation 2, in force but for: port a: deaf";
        assert_eq!(outcome, expected);
        assert_eq!(counted(&reload), (2, 0, true));
        assert_eq!(reload.error.as_deref(), Some("port a: deaf"));
        let outcome = reload.note(2.0, Err("line 3".to_owned()));
        assert_eq!(outcome, "not reloaded, still running as before: line 3");
        assert_eq!(counted(&reload), (2, 1, false));
        assert_eq!(reload.note(3.0, Ok(Vec::new())), "reloaded, generation 3");
        assert_eq!((reload.error, reload.at_s), (None, 3.0));
    }
}
