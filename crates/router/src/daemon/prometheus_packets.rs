//! Counts of IP packets of each port, in Prometheus' text format.

use std::fmt::Result;

use super::exposition::{counts, head, per_port};
use super::packets::PacketsView;
use super::snapshot::Snapshot;

/// Name, type, help, value.
type Metric = (
    &'static str,
    &'static str,
    &'static str,
    fn(&PacketsView) -> u64,
);

const METRICS: [Metric; 6] = [
    (
        "port_received_packets_total",
        "counter",
        "IP packets read from the port's interface; each segment of a super-packet is one.",
        |p| p.received,
    ),
    (
        "port_forwarded_packets_total",
        "counter",
        "Received IP packets that were handed to an output port.",
        |p| p.forwarded,
    ),
    (
        "port_generated_packets_total",
        "counter",
        "IP packets that the router made for this output port.",
        |p| p.generated,
    ),
    (
        "port_offered_packets_total",
        "counter",
        "IP packets handed to this output port.",
        |p| p.offered,
    ),
    (
        "port_held_packets",
        "gauge",
        "Offered IP packets in the queue or on the emulated wire.",
        |p| p.held,
    ),
    (
        "port_written_packets_total",
        "counter",
        "Offered IP packets written to the port's interface.",
        |p| p.written,
    ),
];

pub(super) fn write(out: &mut String, snapshot: &Snapshot) -> Result {
    for (name, kind, help, value) in METRICS {
        per_port(out, (name, kind, help), &snapshot.links, |link| {
            Some(value(&link.packets) as f64)
        })?;
    }
    head(
        out,
        "port_dropped_packets_total",
        "counter",
        "IP packets not forwarded (direction in, by the port that received them; reason local: \
         for the router itself) or not written (direction out).",
    )?;
    for link in &snapshot.links {
        let packets = &link.packets;
        for (labels, reasons) in [
            ("direction=\"in\",reason", &packets.dropped_in),
            ("direction=\"out\",reason", &packets.dropped_out),
        ] {
            counts(out, ("port_dropped_packets_total", labels), link, reasons)?;
        }
    }
    head(
        out,
        "port_tunnel_shims_total",
        "counter",
        "Shims in front of a tunnel's packets: copied, merged, or refused.",
    )?;
    for link in &snapshot.links {
        if let Some(tunnel) = link.packets.tunnel {
            let results = [
                (&"copied", &tunnel.copied),
                (&"merged", &tunnel.merged),
                (&"refused", &tunnel.refused),
            ];
            counts(out, ("port_tunnel_shims_total", "result"), link, results)?;
        }
    }
    Ok(())
}
