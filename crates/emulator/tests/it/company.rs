//! Flows of several kinds at one port that keeps them apart.

use pathmark_emulator::result::RunResult;

use crate::support::{flow, goodputs, link, mean, run};

const ENDS: [&str; 2] = ["A", "B"];

/// Returns flows that start within a second, from names, laws and numbers as in scenarios.
fn flows(flows: &[(&str, &str, u32)]) -> String {
    let spread = |(name, algorithm, count): &(&str, &str, u32)| {
        let more = format!("count = {count}\nstart_spread = \"1s\"");
        flow(name, ENDS, algorithm, &more)
    };
    flows.iter().map(spread).collect()
}

/// A port of 20 Mbit/s with a round trip of 40 ms for 30 s, of which the last 15 are measured.
fn at_port(port: &str, of: &[(&str, &str, u32)], seed: u64) -> RunResult {
    let more = format!("controller = \"{port}\"\n{QUEUE}");
    let link = link("port", ENDS, "20Mbit", "20ms", &more);
    over(&link, ("15s", "30s"), &flows(of), seed)
}

const QUEUE: &str = "queue = { limit = \"1bdp\", rtt = \"200ms\" }";

/// Flows over a link, measured from one time to another.
fn over(link: &str, (from, to): (&str, &str), flows: &str, seed: u64) -> RunResult {
    run(&format!(
        "duration = \"{to}\"\nseed = {seed}\nmeasure = [[\"{from}\", \"{to}\"]]\n{link}{flows}"
    ))
}

#[test]
fn a_flow_has_its_share_whatever_kind_it_is_of() {
    for port in ["vcp+bise", "xcp"] {
        let ours = if port == "xcp" {
            "xcp"
        } else {
            "vcp+bise+wlte"
        };
        for (own, tcp) in [(1, 1), (1, 20), (20, 1), (5, 5)] {
            let result = at_port(port, &[("ours", ours, own), ("tcp", "cubic", tcp)], 1);
            let (a, b) = (
                mean(&goodputs(&result, "ours")),
                mean(&goodputs(&result, "tcp")),
            );
            let (least, most) = (a.min(b), a.max(b));
            assert!(least >= 0.6 * most, "{port} {own}+{tcp}: {a} {b}");
            let fair = 20.0 / f64::from(own + tcp);
            assert!(least >= 0.85 * fair, "{port} {own}+{tcp}: {a} {b}");
        }
    }
}

#[test]
fn an_xcp_flow_that_joins_a_vcp_flow_at_its_port_gets_to_its_share() {
    let flows =
        flow("guest", ENDS, "vcp+bise+wlte", "") + &flow("ours", ENDS, "xcp", "start = \"5s\"");
    let more = format!("controller = \"xcp\"\n{QUEUE}");
    let link = link("port", ENDS, "20Mbit", "20ms", &more);
    let result = over(&link, ("6s", "9s"), &flows, 1);
    let own = mean(&goodputs(&result, "ours"));
    // Half of 18.5. It would be 6.0 if the first headers of a flow held down its own later ones.
    assert!(own >= 8.0, "{own} of 20 Mbit/s");
}

/// A VCP flow that starts at an XCP port with a long round trip leaves XCP flows their shares. If
/// its growth weren't measured, it would reach three times its share, and leave the XCP flows a
/// tenth of theirs for 12 s.
#[test]
fn a_vcp_flow_at_an_xcp_port_does_not_grow_unseen() {
    let flows = flows(&[("guest", "vcp+bise+wlte", 1), ("ours", "xcp", 2)]);
    let share = |seed| {
        let link = link("port", ENDS, "10Mbit", "200ms", "controller = \"xcp\"");
        let result = over(&link, ("8s", "20s"), &flows, seed);
        mean(&goodputs(&result, "ours")) / mean(&goodputs(&result, "guest"))
    };
    let shares: Vec<f64> = (1..=5).map(share).collect();
    assert!(mean(&shares) >= 0.7, "{shares:?}");
    assert!(shares.iter().all(|share| *share >= 0.5), "{shares:?}");
}

/// A port whose interval is much shorter than the round trips of its flows grants again before the
/// first grant shows. Therefore the mean RTT includes VCP flows as well as XCP flows, which may
/// include one with a much shorter round trip.
#[test]
fn vcp_flows_at_an_xcp_port_leave_its_buffer_free() {
    for law in ["vcp", "vcp+bise+wlte"] {
        for (rtt, one_way) in [(100, 49), (400, 199), (600, 299)] {
            for xcp_flows in [0, 1] {
                let port = format!(
                    "controller = \"xcp\"\nqueue = {{ limit = \"1bdp\", rtt = \"{rtt}ms\" }}"
                );
                let more = "start = \"200ms\"";
                let near = (0..xcp_flows).map(|_| flow("near", ["near", "D"], "xcp", more));
                let result = over(
                    &(link("port", ["R", "D"], "10Mbit", "1ms", &port)
                        + &link("far", ["far", "R"], "", &format!("{one_way}ms"), "")
                        + &link("near", ["near", "R"], "", "19ms", "")),
                    ("15s", "40s"),
                    &(flow("far", ["far", "D"], law, "count = 5\nstart_spread = \"1s\"")
                        + &near.collect::<String>()),
                    1,
                );
                let port = &result.links[0];
                let case = format!("{law} {rtt} {xcp_flows}");
                let queue = port.queue_ms.unwrap().mean / f64::from(rtt);
                assert!(queue < 0.3, "{case}: {queue}");
                assert_eq!(port.drops, 0, "{case}");
                let far: f64 = goodputs(&result, "far").iter().sum();
                let near: f64 = goodputs(&result, "near").iter().sum();
                assert!(far + near > 7.5, "{case}: {far} {near}");
                let fair = 10.0 * f64::from(xcp_flows) / 6.0;
                assert!(near >= 0.7 * fair, "{case}: {near}");
            }
        }
    }
}

/// XCP flows at a VCP port get the growth that VCP flows derive from its codes. They would get a
/// quarter more if only they grew at LOW and in the first interval after OVER.
#[test]
fn xcp_flows_at_a_vcp_port_have_what_its_own_flows_have() {
    for (own, guests) in [(1, 1), (3, 1)] {
        let share = |seed| {
            let flows = [("ours", "vcp+bise+wlte", own), ("guest", "xcp", guests)];
            let result = at_port("vcp+bise", &flows, seed);
            mean(&goodputs(&result, "ours")) / mean(&goodputs(&result, "guest"))
        };
        let shares: Vec<f64> = (1..=3).map(share).collect();
        let least = 0.88;
        let got = mean(&shares);
        assert!(
            (least..=1.0 / least).contains(&got),
            "{own}+{guests}: {shares:?}"
        );
    }
}

/// Returns the rates of each fast and slow flow in Mbit/s, and the mean queue in packets.
fn apart(law: &str, mbit: u32, fast: (u32, u32, u32), slow: (u32, u32)) -> (f64, f64, f64) {
    let ((quick, rtt, packet), (few, long)) = (fast, slow);
    let port =
        format!("controller = \"{law}\"\nqueue = {{ limit = \"1bdp\", rtt = \"{long}ms\" }}");
    let hosts = |name: &str, rtt: u32| {
        let delay = format!("{}ms", rtt / 2 - 5);
        link(name, [name, "R"], "", &delay, "")
    };
    let flows = |name: &str, count: u32, packet: u32| {
        let more = format!("count = {count}\npacket = {packet}\nstart_spread = \"100ms\"");
        flow(name, [name, "D"], "xcp", &more)
    };
    let result = run(
        &("duration = \"30s\"\nmeasure = [[\"15s\", \"30s\"]]\n".to_owned()
            + &link("port", ["R", "D"], &format!("{mbit}Mbit"), "5ms", &port)
            + &hosts("fast", rtt)
            + &hosts("slow", long)
            + &flows("fast", quick, packet)
            + &flows("slow", few, 1500)),
    );
    let port = &result.windows[0].links[0];
    let of = |name| mean(&goodputs(&result, name));
    (of("fast"), of("slow"), port.queue_packets.mean)
}

#[test]
fn few_slow_flows_have_their_share() {
    for (mbit, fast, slow) in [
        (50, (9, 20, 1500), (2, 800)),
        (10, (40, 20, 512), (10, 512)),
    ] {
        let fair = f64::from(mbit) / f64::from(fast.0 + slow.0);
        let (quick, few, queue) = apart("xcp", mbit, fast, slow);
        let case = format!("{few} and {quick} of {fair}, {queue}");
        assert!(few >= 0.75 * fair && quick >= 0.75 * fair, "{case}");
        let (.., as_published) = apart("xcp[paper]", mbit, fast, slow);
        assert!(queue <= 1.25 * as_published, "{case} {as_published}");
    }
}
