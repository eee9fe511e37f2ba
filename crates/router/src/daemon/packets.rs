//! IP packets of each port, in snapshots and in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::{Result, Write};

use pathmark_link::DropCause;
use serde::Serialize;

use super::prometheus::{escaped, head};
use super::snapshot::{LinkView, Snapshot};
use crate::forward::{Refused, RouterPort};

/// IP packets of a port since it came up. Each segment of a super-packet is one packet.
///
/// `received = forwarded + Σ dropped_in`, and
/// `offered = Σ dropped_out + held + written`. Over all ports, as long as none is replaced,
/// `forwarded + generated = offered`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PacketsView {
    /// Read from the interface.
    pub received: u64,
    /// Of these, handed to an output port.
    pub forwarded: u64,
    /// Of these, not forwarded, by reason; `local` are for the router itself, and not lost.
    pub dropped_in: BTreeMap<&'static str, u64>,
    /// Made by the router for this output port.
    pub generated: u64,
    /// Handed to this output port.
    pub offered: u64,
    /// Of these, dropped, by reason.
    pub dropped_out: BTreeMap<&'static str, u64>,
    /// Of these, in the queue or on the emulated wire now.
    pub held: u64,
    /// Of these, written to the interface.
    pub written: u64,
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
        }
    }
}

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
