//! Names and types of metrics, and the shipped files that use them.

use std::collections::BTreeMap;

use pathmark_link::Delays;

use super::*;
use crate::daemon::SteeringState;

fn snapshot() -> Snapshot {
    let mut delays = [Delays::default(); 2];
    delays[1].count(1_000_000, 3);
    let link = LinkView {
        name: "wan".to_owned(),
        interface_state: "unknown",
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
        "vcp_router_link_interface_up{link=\"wan\"} 0",
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

/// Names of metrics in a text, without the suffixes of a histogram's series.
fn named(text: &str) -> Vec<String> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text
        .split(|c| !part(c))
        .filter(|word| word.starts_with("vcp_router_"));
    words
        .map(|word| word.trim_end_matches("_bucket").to_owned())
        .collect()
}

/// Alert rules and the dashboard may only use metrics that the exporter has.
#[test]
fn every_metric_of_the_alert_rules_and_the_board_exists() {
    let text = render(&snapshot());
    let alerts = include_str!("../../packaging/alerts.yml");
    let board = include_str!("../../packaging/grafana.json");
    let parsed: serde_json::Value = serde_json::from_str(board).unwrap();
    assert_eq!(parsed["panels"].as_array().unwrap().len(), 12);
    for (file, least) in [(alerts, 8), (board, 12)] {
        let names = named(file);
        assert!(names.len() >= least, "{names:?}");
        for name in names {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
        }
    }
    // Labels used by rules must have these values.
    for label in [
        "direction=\"out\"",
        "reason=\"no_buffer\"",
        "class=\"feedback\"",
    ] {
        assert!(alerts.contains(label) && text.contains(label), "{label}");
    }
}
