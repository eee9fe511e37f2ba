//! Metrics of clouds, of requests for a starting rate, and of the cloud meter, in Prometheus'
//! text format.

use std::fmt::{Result, Write};

use pathmark_link::law_view::{CloudsView, GrantsView};

use super::clouds::{CloudView, MeterView};
use super::exposition::{counts, head, per_port};
use super::snapshot::{LinkView, Snapshot};

/// Name, type, help, value.
type Metric<T> = (&'static str, &'static str, &'static str, fn(&T) -> f64);

/// Name, value.
type Event = (&'static str, fn(&MeterView) -> u64);

const CLOUDS: [Metric<CloudsView>; 7] = [
    (
        "upstreams",
        "gauge",
        "XCP routers or senders before clouds that the port keeps.",
        |c| f64::from(c.upstreams),
    ),
    (
        "known",
        "gauge",
        "Those of them whose cloud is known.",
        |c| f64::from(c.known),
    ),
    (
        "counted_packets_total",
        "counter",
        "Packets that came through a cloud that is known.",
        |c| c.counted as f64,
    ),
    (
        "unknown_packets_total",
        "counter",
        "Packets that came through a cloud that is not known.",
        |c| c.unknown as f64,
    ),
    (
        "refused_packets_total",
        "counter",
        "Among the latter, those for whose upstream router there was no room.",
        |c| c.refused as f64,
    ),
    (
        "forgotten_total",
        "counter",
        "Upstream routers that made room for others.",
        |c| c.forgotten as f64,
    ),
    (
        "crowded_total",
        "counter",
        "Times that others were found to keep a cloud's queue full.",
        |c| c.crowded as f64,
    ),
];

const GRANTS: [Metric<GrantsView>; 6] = [
    (
        "requests_total",
        "counter",
        "Requests for a starting rate that were looked at.",
        |g| g.requests as f64,
    ),
    (
        "granted_total",
        "counter",
        "Requests that were granted at least in part.",
        |g| g.granted as f64,
    ),
    (
        "unused_total",
        "counter",
        "Grants whose traffic did not come in time.",
        |g| g.unused as f64,
    ),
    (
        "lowered_total",
        "counter",
        "Grants of which a part was taken back.",
        |g| g.lowered as f64,
    ),
    (
        "pending_bits_per_second",
        "gauge",
        "Rate of all grants that count as approved.",
        |g| g.pending_bps,
    ),
    (
        "outstanding_bits_per_second",
        "gauge",
        "Rate of the grants whose traffic has not come yet.",
        |g| g.outstanding_bps,
    ),
];

/// Messages between routers, by outcome.
const MESSAGES: [Event; 15] = [
    ("received", |m| m.received),
    ("too_many", |m| m.too_many),
    ("sent", |m| m.sent),
    ("unsent", |m| m.unsent),
    ("forged", |m| m.forged),
    ("foreign", |m| m.foreign),
    ("request", |m| m.requests),
    ("acknowledged", |m| m.acknowledged),
    ("stray", |m| m.stray),
    ("silence", |m| m.silences),
    ("no_room", |m| m.no_room),
    ("train", |m| m.trains),
    ("probe", |m| m.probes),
    ("refused", |m| m.refused),
    ("replayed", |m| m.replayed),
];

const ESTIMATES: [Metric<CloudView>; 4] = [
    (
        "capacity_bits_per_second",
        "gauge",
        "Capacity of the cloud's narrow link.",
        |c| c.capacity_bps,
    ),
    (
        "available_bits_per_second",
        "gauge",
        "Capacity that is left there; below 0 while more arrives than it carries.",
        |c| c.available_bps,
    ),
    (
        "queue_bytes",
        "gauge",
        "Bytes that wait in front of the cloud's narrow link.",
        |c| c.queue_bytes as f64,
    ),
    (
        "holds_seconds",
        "gauge",
        "For how much longer the estimate holds.",
        |c| c.holds_s,
    ),
];

/// Writes all metrics that at least one port has.
pub(super) fn write(out: &mut String, snapshot: &Snapshot) -> Result {
    let links = &snapshot.links;
    per_link(out, links, "clouds", &CLOUDS, |link| link.controller.clouds)?;
    per_link(out, links, "grants", &GRANTS, |link| link.controller.grants)?;
    denied(out, links)?;
    snapshot
        .xcp_i
        .as_ref()
        .map_or(Ok(()), |meter| measured(out, meter))
}

fn per_link<T>(
    out: &mut String,
    links: &[LinkView],
    prefix: &str,
    metrics: &[Metric<T>],
    view: fn(&LinkView) -> Option<T>,
) -> Result {
    if links.iter().all(|link| view(link).is_none()) {
        return Ok(());
    }
    for (name, kind, help, value) in metrics {
        let name = format!("link_{prefix}_{name}");
        per_port(out, (&name, kind, help), links, |link| {
            view(link).as_ref().map(value)
        })?;
    }
    Ok(())
}

fn denied(out: &mut String, links: &[LinkView]) -> Result {
    if links.iter().all(|link| link.controller.grants.is_none()) {
        return Ok(());
    }
    let name = "link_grants_denied_total";
    head(
        out,
        name,
        "counter",
        "Requests that were denied, by cause: nothing is left, too many of one source, no more can \
         be remembered.",
    )?;
    for link in links {
        if let Some(grants) = link.controller.grants {
            let causes = [
                (&"busy", &grants.denied_busy),
                (&"source", &grants.denied_source),
                (&"room", &grants.denied_room),
            ];
            counts(out, (name, "cause"), link, causes)?;
        }
    }
    Ok(())
}

fn measured(out: &mut String, meter: &MeterView) -> Result {
    let name = "xcp_i_events_total";
    head(
        out,
        name,
        "counter",
        "Messages between XCP-i routers by what became of them.",
    )?;
    for (event, value) in MESSAGES {
        let value = value(meter);
        writeln!(out, "vcp_router_{name}{{event=\"{event}\"}} {value}")?;
    }
    for (name, kind, help, value) in ESTIMATES {
        let name = format!("cloud_{name}");
        head(out, &name, kind, help)?;
        for cloud in &meter.clouds {
            let (upstream, value) = (cloud.upstream, value(cloud));
            writeln!(out, "vcp_router_{name}{{upstream=\"{upstream}\"}} {value}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::prometheus::render;
    use super::*;

    /// Each key of `show --json` appears with its value, and values that a port lacks do not
    /// appear.
    #[test]
    fn all_that_there_is_to_see() {
        let mut snapshot = Snapshot::default();
        for name in ["a", "b"] {
            snapshot.links.push(LinkView {
                name: name.to_owned(),
                ..LinkView::default()
            });
        }
        let text = render(&snapshot);
        for absent in ["link_clouds", "link_grants", "router_xcp_i", "router_cloud"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
        snapshot.links[1].controller.clouds = Some(CloudsView {
            upstreams: 1,
            known: 2,
            counted: 3,
            unknown: 4,
            refused: 5,
            forgotten: 6,
            crowded: 7,
        });
        snapshot.links[1].controller.grants = Some(GrantsView {
            requests: 1,
            granted: 2,
            denied_busy: 3,
            denied_source: 4,
            denied_room: 5,
            unused: 6,
            lowered: 7,
            pending_bps: 8.0,
            outstanding_bps: 9.0,
        });
        snapshot.xcp_i = Some(MeterView {
            forged: 11,
            replayed: 12,
            clouds: vec![CloudView {
                upstream: "fd00::1".parse().unwrap(),
                capacity_bps: 30e6,
                available_bps: -1e6,
                queue_bytes: 1500,
                holds_s: 0.5,
            }],
            ..MeterView::default()
        });
        let text = render(&snapshot);
        for line in [
            "link_clouds_upstreams{port=\"b\"} 1",
            "link_clouds_known{port=\"b\"} 2",
            "link_clouds_counted_packets_total{port=\"b\"} 3",
            "link_clouds_unknown_packets_total{port=\"b\"} 4",
            "link_clouds_refused_packets_total{port=\"b\"} 5",
            "link_clouds_forgotten_total{port=\"b\"} 6",
            "link_clouds_crowded_total{port=\"b\"} 7",
            "link_grants_requests_total{port=\"b\"} 1",
            "link_grants_granted_total{port=\"b\"} 2",
            "link_grants_denied_total{port=\"b\",cause=\"busy\"} 3",
            "link_grants_denied_total{port=\"b\",cause=\"source\"} 4",
            "link_grants_denied_total{port=\"b\",cause=\"room\"} 5",
            "link_grants_unused_total{port=\"b\"} 6",
            "link_grants_lowered_total{port=\"b\"} 7",
            "link_grants_pending_bits_per_second{port=\"b\"} 8",
            "link_grants_outstanding_bits_per_second{port=\"b\"} 9",
            "xcp_i_events_total{event=\"forged\"} 11",
            "xcp_i_events_total{event=\"replayed\"} 12",
            "cloud_capacity_bits_per_second{upstream=\"fd00::1\"} 30000000",
            "cloud_available_bits_per_second{upstream=\"fd00::1\"} -1000000",
            "cloud_queue_bytes{upstream=\"fd00::1\"} 1500",
            "cloud_holds_seconds{upstream=\"fd00::1\"} 0.5",
        ] {
            let line = format!("vcp_router_{line}");
            let found = text.lines().filter(|found| *found == line).count();
            assert_eq!(found, 1, "{line}: {text}");
        }
        assert!(!text.contains("clouds_known{port=\"a\"}"), "{text}");
    }
}
