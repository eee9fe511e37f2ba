//! Counts of IP packets of each port, in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::{Result, Write};

use super::exposition::{escaped, head};
use super::packets::PacketsView;
use super::snapshot::{LinkView, Snapshot};

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
        head(out, name, kind, help)?;
        for link in &snapshot.links {
            let (port, value) = (escaped(&link.name), value(&link.packets));
            writeln!(out, "vcp_router_{name}{{port=\"{port}\"}} {value}")?;
        }
    }
    head(
        out,
        "port_dropped_packets_total",
        "counter",
        "IP packets not forwarded (direction in, by the port that received them; reason local: \
         for the router itself) or not written (direction out).",
    )?;
    for link in &snapshot.links {
        dropped(out, link, "in", &link.packets.dropped_in)?;
        dropped(out, link, "out", &link.packets.dropped_out)?;
    }
    head(
        out,
        "port_tunnel_shims_total",
        "counter",
        "Shims in front of a tunnel's packets: copied, merged, or refused.",
    )?;
    for link in &snapshot.links {
        let Some(tunnel) = link.packets.tunnel else {
            continue;
        };
        let port = escaped(&link.name);
        for (result, shims) in [
            ("copied", tunnel.copied),
            ("merged", tunnel.merged),
            ("refused", tunnel.refused),
        ] {
            let labels = format!("port=\"{port}\",result=\"{result}\"");
            writeln!(
                out,
                "vcp_router_port_tunnel_shims_total{{{labels}}} {shims}"
            )?;
        }
    }
    Ok(())
}

fn dropped(
    out: &mut String,
    link: &LinkView,
    direction: &str,
    reasons: &BTreeMap<&'static str, u64>,
) -> Result {
    let port = escaped(&link.name);
    for (reason, count) in reasons {
        writeln!(
            out,
            "vcp_router_port_dropped_packets_total{{port=\"{port}\",direction=\"{direction}\",\
             reason=\"{reason}\"}} {count}"
        )?;
    }
    Ok(())
}
