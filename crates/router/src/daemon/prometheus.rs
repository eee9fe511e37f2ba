//! A snapshot in Prometheus' text format (version 0.0.4).

use std::collections::BTreeMap;
use std::fmt::{Result, Write};

use pathmark_link::law_view::{CloudsView, GrantsView};

use super::clouds::{CloudView, MeterView};
use super::snapshot::{LinkView, Snapshot};

/// A metric of each `T` that has a value of it.
struct Metric<T> {
    kind: &'static str,
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> Option<f64>,
}

/// Rows of type, name, value and help.
macro_rules! metrics {
    (|$of:ident| $($kind:ident $name:literal = $value:expr, $help:literal;)*) => {
        &[$(Metric {
            kind: stringify!($kind),
            name: $name,
            help: $help,
            value: |$of| Number::number($value),
        }),*]
    };
}

/// The value of a sample; `None`: there is none.
trait Number {
    fn number(self) -> Option<f64>;
}

macro_rules! numbers {
    ($($of:ty)*) => {
        $(impl Number for $of {
            fn number(self) -> Option<f64> {
                Some(self as f64)
            }
        })*
    };
}

numbers!(u32 u64 usize f64);

impl<N: Number> Number for Option<N> {
    fn number(self) -> Option<f64> {
        self.and_then(N::number)
    }
}

/// Of the router.
const ROUTER: &[Metric<Snapshot>] = metrics! { |router|
    gauge "uptime_seconds" = router.uptime_s,
        "Time since the router started.";
    gauge "config_generation" = router.reload.generation,
        "How often a configuration was put in force.";
    counter "reload_failures_total" = router.reload.failures,
        "Reloads that failed and changed nothing.";
    gauge "reload_success" = u32::from(router.reload.ok),
        "0 if the last reload failed, else 1.";
    gauge "reload_timestamp_seconds" = router.reload.at_unix_s,
        "Unix time of the last reload, failed or not, or of the start.";
    counter "packet_thread_busy_seconds_total" = router.packet_thread_busy_s,
        "Processor time of the thread that moves packets; a rate of 1 is all of a core.";
    gauge "memory_bytes" = router.memory_bytes,
        "Bytes of packet buffers.";
};

/// Of each link.
const LINKS: &[Metric<LinkView>] = metrics! { |link|
    gauge "link_rate_bits_per_second" = link.rate.rate_bps,
        "Rate of the link.";
    gauge "link_reported_capacity_bits_per_second" = link.rate.reported_capacity_bps,
        "Capacity that a client reports for the link behind the port, at most the port's rate.";
    gauge "link_delay_behind_seconds" = link.rate.delay_behind_ms.map(|ms| ms / 1e3),
        "How long packets wait behind the port, as its probes show.";
    gauge "link_utilization_ratio" = link.utilization,
        "Bytes sent over capacity since the port came up.";
    counter "link_arrived_packets_total" = link.arrived_packets,
        "Packets that arrived at the port.";
    counter "link_arrived_bytes_total" = link.arrived_bytes,
        "IP bytes that arrived at the port.";
    counter "link_sent_packets_total" = link.sent_packets,
        "Packets that left for the wire.";
    counter "link_sent_bytes_total" = link.sent_bytes,
        "IP bytes that left for the wire.";
    gauge "link_sent_bits_per_second" = link.rates.second.sent_bps,
        "IP bits that left for the wire, over the last second.";
    gauge "link_utilization_10s_ratio" = link.rates.ten_seconds.utilization,
        "Bytes sent over capacity in the last ten seconds.";
    gauge "link_drops_per_second" = link.rates.second.drops_pps,
        "Packets dropped, over the last second.";
    gauge "link_memory_bytes" = link.memory_bytes,
        "Packet buffers that the port's packets take.";
    counter "link_shims_not_believed_total" = link.shims_not_believed,
        "Packets whose shim the port did not believe.";
    counter "link_flows_set_aside_total" = link.times_set_aside,
        "Times that flows were set aside because they went on with more than their share of a \
         queue that overflowed.";
    gauge "link_interface_up" = interface_up(link),
        "1 if the interface is up, 0 if it is down or gone; none if the kernel cannot be queried.";
    gauge "link_interface_mtu_bytes" = link.interface_mtu,
        "The interface's own MTU.";
    counter "link_interface_drops_total" = link.interface_drops,
        "Packets that the interface dropped before the router could read them.";
    gauge "link_queue_packets" = link.queue_packets.now,
        "Packets that wait.";
    gauge "link_queue_packets_mean" = link.queue_packets.mean,
        "Packets that wait, mean over time.";
    gauge "link_queue_packets_p99" = link.queue_packets.p99,
        "Packets that wait, not exceeded in 99 % of the time.";
    gauge "link_queue_seconds" = link.queue_ms.now / 1e3,
        "Time that the queue takes to drain.";
    gauge "link_controller_load_ratio" = link.controller.load,
        "Load of the last measuring interval.";
    gauge "link_controller_interval_seconds" = link.controller.interval_ms.map(|ms| ms / 1e3),
        "Measuring interval.";
    gauge "link_controller_r_ratio" = link.controller.r,
        "Share of multiplicative increase.";
    gauge "link_xcp_mean_rtt_seconds" = link.controller.xcp.map(|x| x.mean_rtt_ms / 1e3),
        "Mean round-trip time of the traffic at an XCP port.";
    gauge "link_xcp_capacity_bits_per_second" = link.controller.xcp.map(|x| x.capacity_bps),
        "Capacity that an XCP port reckons with.";
    gauge "link_xcp_input_bits_per_second" = link.controller.xcp.map(|x| x.input_bps),
        "Rate at which traffic arrived in the last control interval.";
    gauge "link_xcp_spare_bits_per_second" = link.controller.xcp.map(|x| x.spare_bps),
        "Capacity not used in the last control interval.";
    gauge "link_controller_persistent_queue_bytes" = link.controller.persistent_queue_bytes,
        "Queue that did not drain.";
    gauge "link_xcp_feedback_bits_per_second" = link.controller.xcp.map(|x| x.feedback_bps),
        "Change of rate over all flows that follows.";
    gauge "link_xcp_positive_left_bits_per_second" =
        link.controller.xcp.map(|x| x.positive_left_bps),
        "Bandwidth that the current control interval may still grant.";
    gauge "link_xcp_negative_left_bits_per_second" =
        link.controller.xcp.map(|x| x.negative_left_bps),
        "Bandwidth that the current control interval may still take.";
    counter "link_xcp_given_bits_per_second_total" = link.controller.xcp.map(|x| x.given_bps),
        "All positive feedback.";
    counter "link_xcp_taken_bits_per_second_total" = link.controller.xcp.map(|x| x.taken_bps),
        "All negative feedback.";
    counter "link_xcp_stamped_packets_total" = link.controller.xcp.map(|x| x.stamped),
        "Packets that left an XCP port with its stamp.";
    counter "link_xcp_policed_packets_total" = link.controller.xcp.map(|x| x.policed),
        "Stamped packets whose flow the policer holds back.";
    gauge "steering_ok" = link.steering.as_ref().map(|steering| u32::from(steering.ok)),
        "1 if packets are steered into the port as the configuration asks for, else 0.";
};

/// Of IP packets at each port.
const PORTS: &[Metric<LinkView>] = metrics! { |link|
    counter "port_received_packets_total" = link.packets.received,
        "IP packets read from the port's interface; each segment of a super-packet is one.";
    counter "port_forwarded_packets_total" = link.packets.forwarded,
        "Received IP packets that were handed to an output port.";
    counter "port_generated_packets_total" = link.packets.generated,
        "IP packets that the router made for this output port.";
    counter "port_offered_packets_total" = link.packets.offered,
        "IP packets handed to this output port.";
    gauge "port_held_packets" = link.packets.held,
        "Offered IP packets in the queue or on the emulated wire.";
    counter "port_written_packets_total" = link.packets.written,
        "Offered IP packets written to the port's interface.";
};

/// Of the clouds before each port that looks for them.
const CLOUDS: &[Metric<CloudsView>] = metrics! { |clouds|
    gauge "link_clouds_upstreams" = clouds.upstreams,
        "XCP routers or senders before clouds that the port keeps.";
    gauge "link_clouds_known" = clouds.known,
        "Those of them whose cloud is known.";
    counter "link_clouds_counted_packets_total" = clouds.counted,
        "Packets that came through a cloud that is known.";
    counter "link_clouds_unknown_packets_total" = clouds.unknown,
        "Packets that came through a cloud that is not known.";
    counter "link_clouds_refused_packets_total" = clouds.refused,
        "Among the latter, those for whose upstream router there was no room.";
    counter "link_clouds_forgotten_total" = clouds.forgotten,
        "Upstream routers that made room for others.";
    counter "link_clouds_crowded_total" = clouds.crowded,
        "Times that others were found to keep a cloud's queue full.";
};

/// Of the starting rates that each port grants.
const GRANTS: &[Metric<GrantsView>] = metrics! { |grants|
    counter "link_grants_requests_total" = grants.requests,
        "Requests for a starting rate that were looked at.";
    counter "link_grants_granted_total" = grants.granted,
        "Requests that were granted at least in part.";
    counter "link_grants_unused_total" = grants.unused,
        "Grants whose traffic did not come in time.";
    counter "link_grants_lowered_total" = grants.lowered,
        "Grants of which a part was taken back.";
    gauge "link_grants_pending_bits_per_second" = grants.pending_bps,
        "Rate of all grants that count as approved.";
    gauge "link_grants_outstanding_bits_per_second" = grants.outstanding_bps,
        "Rate of the grants whose traffic has not come yet.";
};

/// Of each cloud that is measured.
const ESTIMATES: &[Metric<CloudView>] = metrics! { |cloud|
    gauge "cloud_capacity_bits_per_second" = cloud.capacity_bps,
        "Capacity of the cloud's narrow link.";
    gauge "cloud_available_bits_per_second" = cloud.available_bps,
        "Capacity that is left there; below 0 while more arrives than it carries.";
    gauge "cloud_queue_bytes" = cloud.queue_bytes,
        "Bytes that wait in front of the cloud's narrow link.";
    gauge "cloud_holds_seconds" = cloud.holds_s,
        "For how much longer the estimate holds.";
};

/// An interface whose state is unknown has no sample, because 0 would raise an alert.
fn interface_up(link: &LinkView) -> Option<u32> {
    let is_up = u32::from(link.interface_state == "up");
    (link.interface_state != "unknown").then_some(is_up)
}

/// Formats the snapshot.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, snapshot);
    text
}

fn write(out: &mut String, snapshot: &Snapshot) -> Result {
    let (build, links) = (snapshot.build, &snapshot.links);
    head(out, "gauge", "build_info", "The program.")?;
    writeln!(
        out,
        "vcp_router_build_info{{version=\"{}\",target=\"{}\"}} 1",
        build.version, build.target
    )?;
    samples(out, ROUTER, &[(String::new(), snapshot)])?;
    let name = "packets_total";
    let help = "Packets, reads and writes by what became of them, each counted in its own unit; \
                vcp_router_port_* counts IP packets.";
    let counters = snapshot.counters.iter();
    events(
        out,
        name,
        help,
        counters.map(|(event, count)| (*event, *count)),
    )?;
    let ports: Vec<_> = links.iter().map(|link| (port(link), link)).collect();
    samples(out, LINKS, &ports)?;
    let (name, help) = ("link_drops_total", "Dropped packets by cause.");
    counts(out, name, help, links, |link| {
        by("cause", &link.drops_by_cause)
    })?;
    let name = "link_marked_packets_total";
    let help = "Packets that left with each code.";
    counts(out, name, help, links, |link| {
        by("code", &link.controller.marked)
    })?;
    delays(out, links)?;
    samples(out, PORTS, &ports)?;
    let name = "port_dropped_packets_total";
    let help = "IP packets not forwarded (direction in, by the port that received them; reason \
                local: for the router itself) or not written (direction out).";
    counts(out, name, help, links, |link| {
        let to_port = by("direction=\"in\",reason", &link.packets.dropped_in);
        to_port.chain(by("direction=\"out\",reason", &link.packets.dropped_out))
    })?;
    let name = "port_tunnel_shims_total";
    let help = "Shims in front of a tunnel's packets: copied, merged, or refused.";
    counts(out, name, help, links, |link| {
        let results = link.packets.tunnel.map(|tunnel| {
            [
                ("result", "copied", tunnel.copied),
                ("result", "merged", tunnel.merged),
                ("result", "refused", tunnel.refused),
            ]
        });
        results.into_iter().flatten()
    })?;
    laws(out, links)?;
    snapshot
        .xcp_i
        .as_ref()
        .map_or(Ok(()), |meter| measured(out, meter))
}

/// Writes the metrics of clouds and of grants, if at least one port has them.
fn laws(out: &mut String, links: &[LinkView]) -> Result {
    let clouds = links.iter().filter_map(|link| {
        let view = link.controller.clouds.as_ref()?;
        Some((port(link), view))
    });
    let clouds: Vec<_> = clouds.collect();
    if !clouds.is_empty() {
        samples(out, CLOUDS, &clouds)?;
    }
    let grants = links.iter().filter_map(|link| {
        let view = link.controller.grants.as_ref()?;
        Some((port(link), view))
    });
    let grants: Vec<_> = grants.collect();
    if grants.is_empty() {
        return Ok(());
    }
    samples(out, GRANTS, &grants)?;
    let name = "link_grants_denied_total";
    let help = "Requests that were denied, by cause: nothing is left, too many of one source, no \
                more can be remembered.";
    counts(out, name, help, links, |link| {
        let causes = link.controller.grants.map(|grants| {
            [
                ("cause", "busy", grants.denied_busy),
                ("cause", "source", grants.denied_source),
                ("cause", "room", grants.denied_room),
            ]
        });
        causes.into_iter().flatten()
    })
}

/// Writes the measurements of clouds.
fn measured(out: &mut String, meter: &MeterView) -> Result {
    let messages = [
        ("received", meter.received),
        ("too_many", meter.too_many),
        ("sent", meter.sent),
        ("unsent", meter.unsent),
        ("forged", meter.forged),
        ("foreign", meter.foreign),
        ("request", meter.requests),
        ("acknowledged", meter.acknowledged),
        ("stray", meter.stray),
        ("silence", meter.silences),
        ("no_room", meter.no_room),
        ("train", meter.trains),
        ("probe", meter.probes),
        ("refused", meter.refused),
        ("replayed", meter.replayed),
    ];
    let help = "Messages between XCP-i routers by what became of them.";
    events(out, "xcp_i_events_total", help, messages)?;
    let upstream = |cloud: &CloudView| format!("{{upstream=\"{}\"}}", cloud.upstream);
    let clouds = meter.clouds.iter().map(|cloud| (upstream(cloud), cloud));
    samples(out, ESTIMATES, &clouds.collect::<Vec<_>>())
}

fn delays(out: &mut String, links: &[LinkView]) -> Result {
    const NAME: &str = "queue_delay_seconds";
    let help = "Time that packets waited in the queue before they left.";
    head(out, "histogram", NAME, help)?;
    for link in links {
        for (class, delays) in ["plain", "feedback"].into_iter().zip(&link.delays) {
            let labels = format!("port=\"{}\",class=\"{class}\"", escaped(&link.name));
            let (all, sum) = (delays.packets(), delays.seconds());
            let bounds = delays
                .cumulative()
                .map(|(le, count)| (le.to_string(), count));
            for (le, count) in bounds.chain([("+Inf".to_owned(), all)]) {
                let labels = format!("{labels},le=\"{le}\"");
                writeln!(out, "vcp_router_{NAME}_bucket{{{labels}}} {count}")?;
            }
            writeln!(out, "vcp_router_{NAME}_sum{{{labels}}} {sum}")?;
            writeln!(out, "vcp_router_{NAME}_count{{{labels}}} {all}")?;
        }
    }
    Ok(())
}

/// The HELP and TYPE lines of a metric.
fn head(out: &mut String, kind: &str, name: &str, help: &str) -> Result {
    writeln!(out, "# HELP vcp_router_{name} {help}")?;
    writeln!(out, "# TYPE vcp_router_{name} {kind}")
}

/// Writes each metric with a sample of each item, behind its labels.
fn samples<T>(out: &mut String, metrics: &[Metric<T>], items: &[(String, &T)]) -> Result {
    for metric in metrics {
        let name = metric.name;
        head(out, metric.kind, name, metric.help)?;
        for (labels, item) in items {
            if let Some(value) = (metric.value)(item) {
                writeln!(out, "vcp_router_{name}{labels} {value}")?;
            }
        }
    }
    Ok(())
}

/// Writes a counter of the router by `event`.
fn events<'a>(
    out: &mut String,
    name: &str,
    help: &str,
    counts: impl IntoIterator<Item = (&'a str, u64)>,
) -> Result {
    head(out, "counter", name, help)?;
    for (event, count) in counts {
        writeln!(out, "vcp_router_{name}{{event=\"{event}\"}} {count}")?;
    }
    Ok(())
}

/// Writes a counter of each port by a label and its value. There may be other labels in front of
/// this label.
fn counts<'a, C: IntoIterator<Item = (&'a str, &'a str, u64)>>(
    out: &mut String,
    name: &str,
    help: &str,
    links: &'a [LinkView],
    of: impl Fn(&'a LinkView) -> C,
) -> Result {
    head(out, "counter", name, help)?;
    for link in links {
        let port = escaped(&link.name);
        for (label, value, count) in of(link) {
            writeln!(
                out,
                "vcp_router_{name}{{port=\"{port}\",{label}=\"{value}\"}} {count}"
            )?;
        }
    }
    Ok(())
}

/// Counts by the values of `label`.
fn by<'a>(
    label: &'a str,
    counts: &'a BTreeMap<&'static str, u64>,
) -> impl Iterator<Item = (&'a str, &'a str, u64)> {
    let counts = counts.iter();
    counts.map(move |(value, count)| (label, *value, *count))
}

fn port(link: &LinkView) -> String {
    format!("{{port=\"{}\"}}", escaped(&link.name))
}

/// Escapes backslash, quote and line feed in a label's value.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
#[path = "prometheus_tests.rs"]
mod tests;
