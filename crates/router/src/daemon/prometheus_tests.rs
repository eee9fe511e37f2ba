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
        packets: crate::daemon::packets::PacketsView {
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
        assert_eq!(
            text.matches(&format!("# TYPE {name} ")).count(),
            1,
            "{name}"
        );
    }
    for line in [
        "vcp_router_link_interface_up{port=\"wan\"} 0",
        "vcp_router_reload_success 1",
        "vcp_router_reload_timestamp_seconds 0",
        "vcp_router_packet_thread_busy_seconds_total 0",
        "vcp_router_queue_delay_seconds_bucket{port=\"wan\",class=\"feedback\",\
         le=\"0.000524288\"} 0",
        "vcp_router_queue_delay_seconds_bucket{port=\"wan\",class=\"feedback\",\
         le=\"0.001048576\"} 3",
        "vcp_router_queue_delay_seconds_bucket{port=\"wan\",class=\"feedback\",le=\"+Inf\"} 3",
        "vcp_router_queue_delay_seconds_sum{port=\"wan\",class=\"feedback\"} 0.003",
        "vcp_router_queue_delay_seconds_count{port=\"wan\",class=\"plain\"} 0",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
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
