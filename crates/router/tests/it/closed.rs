//! What other programs, the operator and the repair unit do to a closed port, in every order: no
//! packet passes by it.

use std::time::{Duration, Instant};

use crate::cards::Cards;
use crate::watched::{Watched, has_nft};

/// What happens to a box, and the command for it.
const EVENTS: [(&str, &str); 7] = [
    (
        "rename",
        "ip link set lan0 down; ip link set lan0 name other0; ip link set other0 up",
    ),
    (
        "down",
        "ip link set vcp-wan down; ip link set vcp-lan down; \
         ip link set vcp-wan up; ip link set vcp-lan up",
    ),
    (
        "delete",
        "for v in -4 -6; do for at in 11800 11801; do ip $v rule delete priority $at; \
         ip $v route delete unreachable default table $at metric 10000; done; done",
    ),
    ("flush", "nft flush ruleset"),
    ("repair", ":"),
    ("reload", ":"),
    ("restart", ":"),
];

/// Undoes what set-up does not.
const RESTORE: &str = "! ip link show other0 || { ip link set other0 down; \
     ip link set other0 name lan0; ip link set lan0 up; }";

/// Runs set-up as `vcp-router-repair.service` does.
fn repair(watched: &Watched) {
    watched.cards.tool("setup", &["--boot"]).ended(0, &[]);
}

/// After each event, the unit that repairs runs, as it does once the router has seen a fault.
#[test]
fn no_order_of_two_events_opens_a_closed_port() {
    if !has_nft() {
        return;
    }
    let mut watched = Watched::new(Cards::with("on_stop = \"closed\"", "rate = \"10Mbit\""));
    let udp = watched.cards.udp(false);
    udp.until_it_passes();
    for (first, _) in EVENTS {
        for (second, _) in EVENTS.iter().filter(|(second, _)| *second != first) {
            let mut past = 0;
            let mut probe = |when: &str| {
                for _ in 0..20 {
                    udp.probe();
                }
                // What arrives late is counted with the next probes.
                past += udp.count().1;
                assert_eq!(past, 0, "{first}, {second}: past the port {when}");
            };
            for event in [first, second] {
                let (_, does) = EVENTS.iter().find(|(name, _)| *name == event).unwrap();
                watched.does(does);
                match event {
                    "reload" => watched.cards.router().hang_up().unwrap(),
                    "restart" => {
                        watched.cards.kill();
                        probe("while no router runs");
                        watched.cards.start();
                    }
                    _ => {}
                }
                probe(&format!("after {event}"));
                repair(&watched);
                probe(&format!("after the repair of {event}"));
            }
            watched.does(RESTORE);
            watched.cards.setup();
            udp.until_it_passes();
        }
    }
}

/// `show`, `check`, the metric, the log and the request for a repair have it.
#[test]
fn a_missing_table_is_seen() {
    if !has_nft() {
        return;
    }
    let watched = Watched::new(Cards::with("on_stop = \"closed\"", "rate = \"10Mbit\""));
    watched.cards.ask(&["show"]).ended(0, &[]);
    watched.cards.tool("check", &[]).ended(0, &[]);
    let start = Instant::now();
    watched.does("nft flush ruleset");
    let said = "the table vcp_router_closed_11800 of nftables is missing: run `vcp-router setup`";
    let (at, _) = watched.line(&format!("steering of port lan is missing: {said}"));
    let took = at.saturating_duration_since(start);
    assert!(took < Duration::from_secs(4), "{took:?}");
    watched.requested(said);
    let shown = watched.cards.ask(&["show"]);
    assert!(shown.out.contains(said), "{shown:?}");
    shown.ended(1, &[]);
    let metrics = watched.show(&["--metrics"]);
    assert!(metrics.contains("steering_ok{port=\"wan\"} 0"), "{metrics}");
    watched.cards.tool("check", &[]).ended(2, &[said]);
    repair(&watched);
    watched.line("steering of port lan is back");
    watched.until("\"ok\":true");
    watched.cards.ask(&["show"]).ended(0, &[]);
    watched.cards.tool("check", &[]).ended(0, &[]);
    assert_eq!(watched.cards.setup(), "");
}
