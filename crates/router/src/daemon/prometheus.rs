//! A snapshot in Prometheus' text format (version 0.0.4).

use std::collections::BTreeMap;
use std::fmt::Write;

use super::exposition::{counts, escaped, head, per_port};
use super::prometheus_clouds;
use super::prometheus_packets;
use super::snapshot::{LinkView, Snapshot};

type Value = fn(&LinkView) -> Option<f64>;

type Counts = fn(&LinkView) -> &BTreeMap<&'static str, u64>;

/// Counts per link by something: name, help, label, counts.
const LINK_COUNTS: [(&str, &str, &str, Counts); 2] = [
    (
        "link_drops_total",
        "Dropped packets by cause.",
        "cause",
        |l| &l.drops_by_cause,
    ),
    (
        "link_marked_packets_total",
        "Packets that left with each code.",
        "code",
        |l| &l.controller.marked,
    ),
];

/// Metrics per link: name, type, help, value.
const LINK_METRICS: [(&str, &str, &str, Value); 35] = [
    ("rate_bits_per_second", "gauge", "Rate of the link.", |l| {
        l.rate.rate_bps
    }),
    (
        "reported_capacity_bits_per_second",
        "gauge",
        "Capacity that a client reports for the link behind the port, at most the port's rate.",
        |l| l.rate.reported_capacity_bps,
    ),
    (
        "utilization_ratio",
        "gauge",
        "Bytes sent over capacity since the port came up.",
        |l| l.utilization,
    ),
    (
        "arrived_packets_total",
        "counter",
        "Packets that arrived at the port.",
        |l| Some(l.arrived_packets as f64),
    ),
    (
        "arrived_bytes_total",
        "counter",
        "IP bytes that arrived at the port.",
        |l| Some(l.arrived_bytes as f64),
    ),
    (
        "sent_packets_total",
        "counter",
        "Packets that left for the wire.",
        |l| Some(l.sent_packets as f64),
    ),
    (
        "sent_bytes_total",
        "counter",
        "IP bytes that left for the wire.",
        |l| Some(l.sent_bytes as f64),
    ),
    (
        "sent_bits_per_second",
        "gauge",
        "IP bits that left for the wire, over the last second.",
        |l| Some(l.rates.second.sent_bps),
    ),
    (
        "utilization_10s_ratio",
        "gauge",
        "Bytes sent over capacity in the last ten seconds.",
        |l| l.rates.ten_seconds.utilization,
    ),
    (
        "drops_per_second",
        "gauge",
        "Packets dropped, over the last second.",
        |l| Some(l.rates.second.drops_pps),
    ),
    (
        "memory_bytes",
        "gauge",
        "Packet buffers that the port's packets take.",
        |l| Some(l.memory_bytes as f64),
    ),
    (
        "shims_not_believed_total",
        "counter",
        "Packets whose shim the port did not believe.",
        |l| Some(l.shims_not_believed as f64),
    ),
    (
        "flows_set_aside_total",
        "counter",
        "Times that flows were set aside because they went on with more than their share of a \
         queue that overflowed.",
        |l| Some(l.times_set_aside as f64),
    ),
    (
        "interface_up",
        "gauge",
        "1 if the interface is up, 0 if it is down or gone; none if the kernel cannot be queried.",
        |l| (l.interface_state != "unknown").then(|| f64::from(l.interface_state == "up")),
    ),
    (
        "interface_mtu_bytes",
        "gauge",
        "The interface's own MTU.",
        |l| l.interface_mtu.map(f64::from),
    ),
    (
        "interface_drops_total",
        "counter",
        "Packets that the interface dropped before the router could read them.",
        |l| l.interface_drops.map(|drops| drops as f64),
    ),
    ("queue_packets", "gauge", "Packets that wait.", |l| {
        Some(l.queue_packets.now)
    }),
    (
        "queue_packets_mean",
        "gauge",
        "Packets that wait, mean over time.",
        |l| Some(l.queue_packets.mean),
    ),
    (
        "queue_packets_p99",
        "gauge",
        "Packets that wait, not exceeded in 99 % of the time.",
        |l| Some(l.queue_packets.p99),
    ),
    (
        "queue_seconds",
        "gauge",
        "Time that the queue takes to drain.",
        |l| Some(l.queue_ms.now / 1e3),
    ),
    (
        "controller_load_ratio",
        "gauge",
        "Load of the last measuring interval.",
        |l| l.controller.load,
    ),
    (
        "controller_interval_seconds",
        "gauge",
        "Measuring interval.",
        |l| l.controller.interval_ms.map(|ms| ms / 1e3),
    ),
    (
        "controller_r_ratio",
        "gauge",
        "Share of multiplicative increase.",
        |l| l.controller.r,
    ),
    (
        "xcp_mean_rtt_seconds",
        "gauge",
        "Mean round-trip time of the traffic at an XCP port.",
        |l| l.controller.xcp.map(|x| x.mean_rtt_ms / 1e3),
    ),
    (
        "xcp_capacity_bits_per_second",
        "gauge",
        "Capacity that an XCP port reckons with.",
        |l| l.controller.xcp.map(|x| x.capacity_bps),
    ),
    (
        "xcp_input_bits_per_second",
        "gauge",
        "Rate at which traffic arrived in the last control interval.",
        |l| l.controller.xcp.map(|x| x.input_bps),
    ),
    (
        "xcp_spare_bits_per_second",
        "gauge",
        "Capacity not used in the last control interval.",
        |l| l.controller.xcp.map(|x| x.spare_bps),
    ),
    (
        "controller_persistent_queue_bytes",
        "gauge",
        "Queue that did not drain.",
        |l| {
            l.controller
                .persistent_queue_bytes
                .map(|bytes| bytes as f64)
        },
    ),
    (
        "xcp_feedback_bits_per_second",
        "gauge",
        "Change of rate over all flows that follows.",
        |l| l.controller.xcp.map(|x| x.feedback_bps),
    ),
    (
        "xcp_positive_left_bits_per_second",
        "gauge",
        "Bandwidth that the current control interval may still grant.",
        |l| l.controller.xcp.map(|x| x.positive_left_bps),
    ),
    (
        "xcp_negative_left_bits_per_second",
        "gauge",
        "Bandwidth that the current control interval may still take.",
        |l| l.controller.xcp.map(|x| x.negative_left_bps),
    ),
    (
        "xcp_given_bits_per_second_total",
        "counter",
        "All positive feedback.",
        |l| l.controller.xcp.map(|x| x.given_bps),
    ),
    (
        "xcp_taken_bits_per_second_total",
        "counter",
        "All negative feedback.",
        |l| l.controller.xcp.map(|x| x.taken_bps),
    ),
    (
        "xcp_stamped_packets_total",
        "counter",
        "Packets that left an XCP port with its stamp.",
        |l| l.controller.xcp.map(|x| x.stamped as f64),
    ),
    (
        "xcp_policed_packets_total",
        "counter",
        "Stamped packets whose flow the policer holds back.",
        |l| l.controller.xcp.map(|x| x.policed as f64),
    ),
];

/// Formats the snapshot.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, snapshot);
    text
}

fn write(out: &mut String, snapshot: &Snapshot) -> std::fmt::Result {
    let (build, links) = (snapshot.build, &snapshot.links);
    head(out, "build_info", "gauge", "The program.")?;
    writeln!(
        out,
        "vcp_router_build_info{{version=\"{}\",target=\"{}\"}} 1",
        build.version, build.target
    )?;
    let reload = &snapshot.reload;
    for (name, kind, help, value) in [
        (
            "uptime_seconds",
            "gauge",
            "Time since the router started.",
            snapshot.uptime_s,
        ),
        (
            "config_generation",
            "gauge",
            "How often a configuration was put in force.",
            reload.generation as f64,
        ),
        (
            "reload_failures_total",
            "counter",
            "Reloads that failed and changed nothing.",
            reload.failures as f64,
        ),
        (
            "reload_success",
            "gauge",
            "0 if the last reload failed, else 1.",
            f64::from(u8::from(reload.ok)),
        ),
        (
            "reload_timestamp_seconds",
            "gauge",
            "Unix time of the last reload, failed or not, or of the start.",
            reload.at_unix_s,
        ),
        (
            "packet_thread_busy_seconds_total",
            "counter",
            "Processor time of the thread that moves packets; a rate of 1 is all of a core.",
            snapshot.packet_thread_busy_s,
        ),
        (
            "memory_bytes",
            "gauge",
            "Bytes of packet buffers.",
            snapshot.memory_bytes as f64,
        ),
    ] {
        head(out, name, kind, help)?;
        writeln!(out, "vcp_router_{name} {value}")?;
    }
    head(
        out,
        "packets_total",
        "counter",
        "Packets, reads and writes by what became of them, each counted in its own unit; \
         vcp_router_port_* counts IP packets.",
    )?;
    for (name, value) in &snapshot.counters {
        writeln!(out, "vcp_router_packets_total{{event=\"{name}\"}} {value}")?;
    }
    for (name, kind, help, value) in LINK_METRICS {
        let name = format!("link_{name}");
        per_port(out, (&name, kind, help), links, value)?;
    }
    let help = "1 if packets are steered into the port as the configuration asks for, else 0.";
    per_port(out, ("steering_ok", "gauge", help), links, |link| {
        link.steering
            .as_ref()
            .map(|steering| f64::from(steering.ok))
    })?;
    for (name, help, label, of) in LINK_COUNTS {
        head(out, name, "counter", help)?;
        for link in links {
            counts(out, (name, label), link, of(link))?;
        }
    }
    delays(out, snapshot)?;
    prometheus_packets::write(out, snapshot)?;
    prometheus_clouds::write(out, snapshot)
}

fn delays(out: &mut String, snapshot: &Snapshot) -> std::fmt::Result {
    const NAME: &str = "queue_delay_seconds";
    let help = "Time that packets waited in the queue before they left.";
    head(out, NAME, "histogram", help)?;
    for link in &snapshot.links {
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

#[cfg(test)]
#[path = "prometheus_tests.rs"]
mod tests;
