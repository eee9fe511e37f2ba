//! XCP with real endpoints: the key figures of its scenarios.

use crate::support::{built_in as run, goodputs, in_the_end, jain};

const DEFAULTS: [(&str, &str); 2] = [
    ("link.bottleneck.controller", "xcp"),
    ("flow.f.algorithm", "xcp"),
];

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&DEFAULTS, more].concat()
}

#[test]
fn four_flows_of_figure_5() {
    let result = run("xcp-linux-fig5", &DEFAULTS);
    let link = in_the_end(&result, "bottleneck");
    assert!(link.utilization.unwrap() >= 0.98, "{link:?}");
    assert_eq!(result.links[0].drops, 0);
    // The bandwidth-delay product is 417 packets.
    assert!(link.queue_packets.mean <= 0.03 * 417.0, "{link:?}");
    assert!(jain(&goodputs(&result, "f")) >= 0.999);
}

#[test]
fn start_up_over_a_gigabit() {
    // Two packets sent at once reveal nothing about the path, so the window then grows at most
    // eightfold per round trip.
    for (algorithm, most) in [("xcp", 4.0), ("xcp[iw=2]", 6.0)] {
        let result = run(
            "xcp-cubic-startup",
            &with(&[("flow.f.algorithm", algorithm), ("duration", "1s")]),
        );
        // The handshake takes the first round trip.
        let rounds = result.links[0].time_to_80_s.unwrap() / 0.06 - 1.0;
        assert!(rounds <= most, "{algorithm}: {rounds}");
        assert_eq!(result.links[0].drops, 0);
    }
}

#[test]
fn a_receivers_limit_of_64_kb() {
    let result = run(
        "xcp-linux-fig8-9",
        &with(&[("flow.f.receive_window", "64kB"), ("duration", "60s")]),
    );
    let flow = &result.flows[0];
    // 64 kB of stream data are 69.6 kB of packets.
    assert!(flow.cwnd_bytes.unwrap().max <= 1.1 * 69_600.0, "{flow:?}");
    // The window of the paper's sender grows without bound.
    let naive = run(
        "xcp-linux-fig8-9",
        &[
            ("link.bottleneck.controller", "xcp[paper]"),
            ("flow.f.algorithm", "xcp[naive,loss=ignore]"),
            ("flow.f.receive_window", "64kB"),
            ("duration", "60s"),
        ],
    );
    assert!(naive.flows[0].cwnd_bytes.unwrap().max > 10_000.0 * 1472.0);
}

#[test]
fn a_contended_hub_whose_capacity_is_measured() {
    let hub = |controller| {
        run(
            "xcp-linux-fig10",
            &[
                ("link.bottleneck.controller", controller),
                ("flow.f.algorithm", "xcp"),
                ("link.bottleneck.medium", "hub"),
                ("flow.udp.start", "0s"),
                ("measure", r#"[["15s", "60s"]]"#),
                ("flow.more.start", "0s"),
                ("flow.more.stop", "1s"),
                ("duration", "60s"),
            ],
        )
    };
    let fixed = hub("xcp[capacity=10Mbit]");
    let auto = hub("xcp[capacity=auto]");
    let [sum_of_fixed, sum] = [&fixed, &auto].map(|run| goodputs(run, "f").iter().sum::<f64>());
    // A port that assumes too high a capacity always has a backlog, and sends all that is
    // available. A port that measures has hardly a queue, and leaves turns on the hub to others.
    assert!(sum >= 0.92 * sum_of_fixed, "{sum} {sum_of_fixed}");
    assert!(jain(&goodputs(&auto, "f")) >= 0.98);
    let queue = auto.windows[0].links[0].queue_packets.mean;
    assert!(queue <= 0.25 * 220.0, "{queue}");
    assert_eq!(auto.links[0].drops, 0);
}

/// The paper's sender doesn't treat loss as congestion, so a plain hop behind the bottleneck
/// doesn't lower its rate.
#[test]
fn the_papers_sender_fills_a_link_before_a_plain_hop() {
    let hub = |medium: &[(&str, &str)]| {
        let paper = [
            ("link.bottleneck.controller", "xcp[paper,capacity=10Mbit]"),
            ("flow.f.algorithm", "xcp[iw=2,loss=ignore]"),
            ("measure", r#"[["15s", "30s"]]"#),
            ("flow.udp.start", "29s"),
            ("flow.more.start", "29s"),
            ("duration", "30s"),
        ];
        let result = run("xcp-linux-fig10", &[&paper[..], medium].concat());
        let link = &result.windows[0].links[0];
        (link.utilization.unwrap(), link.queue_packets.max)
    };
    let (used, _) = hub(&[]);
    assert!(used >= 0.9, "{used}");
    // Half of a hub is less than the 10 Mbit/s that the port assumes.
    let (used, queue) = hub(&[("link.bottleneck.medium", "hub")]);
    assert!(used >= 0.85 && queue >= 100.0, "{used} {queue}");
}

#[test]
fn a_buffer_of_a_twentieth() {
    let result = run(
        "xcp-cubic-buffers",
        &with(&[
            ("link.bottleneck.rate", "100Mbit"),
            ("link.bottleneck.queue.limit", "0.05bdp"),
            ("measure", r#"[["5s", "20s"]]"#),
            ("duration", "20s"),
        ]),
    );
    assert_eq!(result.links[0].drops, 0);
    let used = result.windows[0].links[0].utilization.unwrap();
    assert!(used >= 0.98, "{used}");
}

#[test]
fn losses_that_no_router_means_cost_what_they_take() {
    let goodput = |changes: &[(&str, &str)]| {
        let result = run("xcp-linux-fig5", &with(changes));
        goodputs(&result, "f").iter().sum::<f64>()
    };
    let clean = goodput(&[]);
    let tenth = r#"{ kind = "bernoulli", per = 0.1 }"#;
    let after = goodput(&[("link.bottleneck.loss", tenth)]);
    assert!(after >= 0.92 * 0.9 * clean, "{after} of {clean}");
    let before = goodput(&[("link.access.loss", tenth)]);
    assert!(before >= 0.9 * clean, "{before} of {clean}");
}
