//! Names and types of metrics.

use std::collections::BTreeMap;

use pathmark_link::Delays;

use super::*;
use crate::daemon::SteeringState;

fn snapshot() -> Snapshot {
    let mut delays = [Delays::default(); 2];
    delays[1].count(1_000_000, 3);
    let link = LinkView {
        name: "wan".to_owned(),
        interface_state: "gone",
        interface_drops: Some(1),
        utilization: Some(0.5),
        drops_by_cause: BTreeMap::from([("queue_full", 1)]),
        steering: Some(SteeringState {
            ok: false,
            reason: None,
        }),
        delays,
        packets: crate::daemon::snapshot::PacketsView {
            dropped_out: BTreeMap::from([("no_buffer", 0)]),
            ..Default::default()
        },
        ..LinkView::default()
    };
    Snapshot {
        links: vec![link],
        ..Snapshot::default()
    }
}

/// Each metric must have a type, counters and only these must end in `_total`, and no metric may
/// be missing because its value is unknown.
#[test]
fn metrics_follow_the_conventions_of_prometheus() {
    let text = render(&snapshot());
    for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
        let mut words = line.split(' ').skip(2);
        let (name, kind) = (words.next().unwrap(), words.next().unwrap());
        assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        let types = text.matches(&format!("# TYPE {name} ")).count();
        assert_eq!(types, 1, "{name}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        // Buckets, sums and counts are of the histogram that is declared.
        let parts = ["_bucket", "_sum", "_count"].map(|suffix| name.strip_suffix(suffix));
        let is_declared = |kind: &str| text.contains(&format!("# TYPE {kind}"));
        let mut histograms = parts.iter().flatten();
        let is_part = histograms.any(|family| is_declared(&format!("{family} histogram")));
        assert!(is_part || is_declared(&format!("{name} ")), "{line}");
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok());
    }
    let delays = "queue_delay_seconds";
    let class = "port=\"wan\",class=\"feedback\"";
    for line in [
        "link_interface_up{port=\"wan\"} 0".to_owned(),
        "reload_success 1".to_owned(),
        "reload_timestamp_seconds 0".to_owned(),
        "packet_thread_busy_seconds_total 0".to_owned(),
        format!("{delays}_bucket{{{class},le=\"0.000524288\"}} 0"),
        format!("{delays}_bucket{{{class},le=\"0.001048576\"}} 3"),
        format!("{delays}_bucket{{{class},le=\"+Inf\"}} 3"),
        format!("{delays}_sum{{{class}}} 0.003"),
        format!("{delays}_count{{port=\"wan\",class=\"plain\"}} 0"),
    ] {
        let line = format!("vcp_router_{line}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}

/// An interface whose state is unknown has no sample, because 0 would raise an alert.
#[test]
fn an_unknown_interface_is_neither_up_nor_down() {
    for (state, sample) in [("up", Some("1")), ("down", Some("0")), ("unknown", None)] {
        let mut snapshot = snapshot();
        snapshot.links[0].interface_state = state;
        let text = render(&snapshot);
        let up = |line| str::strip_prefix(line, "vcp_router_link_interface_up{port=\"wan\"} ");
        assert_eq!(text.lines().find_map(up), sample, "{state}");
    }
}

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
