//! Clouds shared with others: other XCP-i routers, foreign packets, CUBIC.

use pathmark_testbed::sampled;

use super::{MEASURES, around_a_cloud, clouds, goodputs, late, run, timeouts};
use crate::support::{self, drops, flow, jain, link};

/// Figure 14: two paths that only share the cloud, and a flow that joins when it is full.
#[test]
fn a_cloud_is_shared() {
    for seed in sampled(3, ["1", "2", "3"]) {
        let result = run("xcp-i-fig14", "xcp-i", &[("seed", seed)]);
        // The last of 100 round trips after it joined.
        let joining = goodputs(&result, 1);
        let after = goodputs(&result, 2);
        assert!(jain(&joining) >= 0.9, "{joining:?}");
        assert!(jain(&after) >= 0.95, "{after:?}");
        assert!(late(&result, "cloud") >= 0.9);
        assert_eq!((drops(&result), timeouts(&result)), (0, 0));
    }
}

/// A flow joins another one that fills the cloud, through the same edge routers: in the last 5 of
/// 30 round trips since its start, the shares are even.
#[test]
fn a_full_cloud_is_joined_through_the_same_routers() {
    for variant in ["xcp-i", "xcp-i, measured"] {
        for seed in sampled(3, ["1", "2", "3"]) {
            let changes = [
                ("seed", seed),
                ("measure", "[[\"11.5s\", \"11.8s\"]]"),
                ("duration", "12s"),
                ("flow.j.from", "Si"),
                ("flow.j.to", "Di"),
            ];
            let result = run("xcp-i-fig14", variant, &changes);
            let shares = goodputs(&result, 0);
            println!("{variant}, seed {seed}: {shares:?}, {}", jain(&shares));
            assert!(jain(&shares) >= 0.9, "{variant}: {shares:?}");
            assert!(late(&result, "cloud") >= 0.9);
            assert_eq!((drops(&result), timeouts(&result)), (0, 0));
        }
    }
}

/// Figure 14 with measured estimates: each router treats the other's flow as foreign.
#[test]
fn a_shared_cloud_is_measured() {
    let result = run("xcp-i-fig14", "xcp-i, measured", &[]);
    let after = goodputs(&result, 2);
    assert!(jain(&after) >= 0.95, "{after:?}");
    assert!(late(&result, "cloud") >= 0.9);
    assert_eq!((drops(&result), timeouts(&result)), (0, 0));
}

/// Foreign packets arrive in the cloud at random: XCP-i uses the remaining capacity, and they lose
/// nothing.
#[test]
fn foreign_traffic_is_left_what_it_takes() {
    let text = "duration = \"20s\"\npacket = 1000\nmeasure = [[\"5s\", \"20s\"]]\n".to_owned()
        + &around_a_cloud("10ms")
        + &link("other", ["X", "P"], "80Mbit", "0s", "")
        + &link("out", ["R1", "D"], "80Mbit", "5ms", MEASURES)
        + &flow("f", ["S", "D"], "xcp-i", "")
        + &flow("x", ["X", "D"], "udp", "rate = \"15Mbit\"\npoisson = true");
    let result = support::run(&text);
    let used = late(&result, "cloud");
    assert!(used >= 0.85, "{used}");
    assert_eq!(drops(&result), 0);
    let [ours, foreign] = goodputs(&result, 0)[..] else {
        panic!("two flows")
    };
    assert!(foreign >= 14e6 && ours >= 9e6, "{ours} {foreign}");
}

/// One CUBIC flow shares the cloud. In the mean over seeds, each side gets 30 to 70 %, with an
/// exact or a measured estimate. Once CUBIC has ended, the cloud's estimate is followed again.
#[test]
fn shares_with_cubic() {
    for variant in ["xcp-i", "xcp-i, measured"] {
        let mut share = 0.0;
        for seed in ["1", "2"] {
            let result = run("xcp-i-tcp", variant, &[("seed", seed)]);
            let [ours, cubic] = goodputs(&result, 0)[..] else {
                panic!("two flows")
            };
            share += ours / (ours + cubic) / 2.0;
            assert!(clouds(&result, "out", "crowded") >= 1);
        }
        assert!((0.3..=0.7).contains(&share), "{variant}: {share}");
        let changes = [
            ("flow.tcp.stop", "20s"),
            ("measure", "[[\"50s\", \"60s\"]]"),
        ];
        let result = run("xcp-i-tcp", variant, &changes);
        assert!(late(&result, "cloud") >= 0.95);
        assert!(clouds(&result, "out", "counted") > 50_000);
    }
}

/// A file arrives at a queue of one bandwidth-delay product that CUBIC keeps full. With XCP-i it
/// takes little longer than with CUBIC, whose start is just as slow there, and a long file gets 30
/// to 70 % of the link.
#[test]
fn newcomers_where_cubic_keeps_the_queue_full() {
    let plain = "reverse = { controller = \"none\" }";
    let router = |name: &str, ends, law: &str| {
        let more = format!("controller = \"{law}\"\n{plain}");
        link(name, ends, "80Mbit", "10ms", &more)
    };
    let queue = format!("queue = {{ limit = \"100p\" }}\n{plain}");
    let text = "duration = \"90s\"\n".to_owned()
        + &link("access", ["S", "A"], "", "0s", "")
        + &router("before", ["A", "B"], "xcp-i")
        + &link("cloud", ["B", "C"], "30Mbit", "0s", &queue)
        + &router("behind", ["C", "D"], "xcp-i[estimate=real]")
        + &flow("tcp", ["S", "D"], "cubic", "");
    let share = |law, bytes: &str, start: &str| {
        let more = format!("bytes = {bytes}\nstart = \"{start}\"");
        let result = support::run(&(text.clone() + &flow("f", ["S", "D"], law, &more)));
        let mut flows = result.flows.iter();
        // A share of the largest possible goodput on this link.
        flows.find(|flow| flow.name == "f").unwrap().goodput_bps / 28e6
    };
    let starts = ["0.1s", "3s", "6.3s", "10s"];
    let [ours, cubics] = ["xcp-i", "cubic"].map(|law| starts.map(|at| share(law, "12000000", at)));
    let [mean, of_cubic] = [ours, cubics].map(|shares| shares.iter().sum::<f64>() / 4.0);
    let long = share("xcp-i", "40000000", "3s");
    println!("12 MB {ours:.3?}, CUBIC {cubics:.3?}; 40 MB {long:.3}");
    assert!(
        ours.iter().all(|share| (0.25..=0.7).contains(share)),
        "{ours:?}"
    );
    assert!(mean >= 0.8 * of_cubic, "{ours:?} {cubics:?}");
    assert!((0.3..=0.7).contains(&long), "{long}");
}
