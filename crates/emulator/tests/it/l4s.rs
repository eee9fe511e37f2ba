//! L4S: `prague` through DualPI2, alone and next to CUBIC, and in queues that don't mark.

use pathmark_emulator::result::RunResult;
use pathmark_testbed::sampled;

use crate::support::{flow, goodputs, link, over_all, run};

const ENDS: [&str; 2] = ["S", "D"];
const DUALPI2: &str = "queue = { kind = \"dualpi2\" }";
const CLASSIC: [&str; 2] = [
    "queue = { kind = \"droptail\", limit = \"1bdp\" }",
    "queue = { kind = \"codel\", limit = \"1bdp\" }",
];

/// A link of 40 Mbit/s with this round trip and queue, and flows that start within 0.1 s.
fn through(queue: &str, rtt_ms: u32, seed: u64, algorithms: &[&str]) -> RunResult {
    let delay = format!("{}us", rtt_ms * 500);
    let mut text = format!("duration = \"60s\"\nseed = {seed}\nmeasure = [[\"20s\", \"60s\"]]\n");
    text += &link("hop", ENDS, "40Mbit", &delay, queue);
    for (number, algorithm) in algorithms.iter().enumerate() {
        let more = "start_spread = \"100ms\"";
        text += &flow(&format!("flow{number}"), ENDS, algorithm, more);
    }
    run(&text)
}

fn seeds() -> Vec<u64> {
    sampled(3, 1..=5)
}

/// The queue never stands. The longer the path, the longer a packet per round trip takes to use
/// what slow start has left. In the last 40 s, a flow uses 99 % of the link at each of these.
#[test]
fn one_flow_uses_a_link_with_a_queue_of_two_milliseconds() {
    for (rtt, least) in [(10, 0.99), (20, 0.98), (50, 0.96), (100, 0.93)] {
        for seed in seeds() {
            let result = through(DUALPI2, rtt, seed, &["prague"]);
            let hop = over_all(&result, "hop");
            let (used, queue) = (hop.utilization.unwrap(), hop.queue_ms.unwrap().p99);
            assert!(
                used >= least && queue <= 2.0 && hop.drops == 0,
                "{rtt} ms, seed {seed}: {used}, {queue} ms, {} drops",
                hop.drops
            );
        }
    }
}

/// The classic queue is longer by about 15 ms, but the low-latency queue stays short next to it.
#[test]
fn next_to_cubic_it_has_about_the_same_rate_and_a_short_queue() {
    for rtt in [10, 20, 50, 100] {
        for seed in seeds() {
            let result = through(DUALPI2, rtt, seed, &["prague", "cubic"]);
            let goodputs = goodputs(&result, "flow");
            let ratio = goodputs[0] / goodputs[1];
            let waits = result.flows[0].rtt_ms.unwrap().mean - f64::from(rtt);
            assert!(
                (0.8..1.9).contains(&ratio) && waits < 1.0,
                "{rtt} ms, seed {seed}: {goodputs:?}, {waits} ms"
            );
        }
    }
}

/// Without marks, the flow is CUBIC, so another flow gets about what it gets next to CUBIC. Single
/// runs differ by a third.
#[test]
fn in_queues_without_marks_it_takes_no_more_than_cubic() {
    for (queue, rtt) in sampled(3, CLASSIC.map(|queue| [(queue, 10), (queue, 50)]).concat()) {
        let seeds = sampled(3, 1..=10);
        let [own, other] = ["prague", "cubic"].map(|law| {
            let each = seeds.iter().map(|&seed| {
                let result = through(queue, rtt, seed, &["cubic", law]);
                goodputs(&result, "flow0")[0]
            });
            each.sum::<f64>() / seeds.len() as f64
        });
        assert!(
            own > 0.8 * other,
            "{queue}, {rtt} ms: {own} instead of {other}"
        );
    }
}
