//! Flows of different kinds that share a tunnel: the queues at its ingress, on either side.
//!
//! ```text
//! sender: application ─► tunnel (or proxy) ══ 20 Mbit/s, 40 ms ══► proxy (or tunnel) ─► receiver
//! ```
//!
//! The data goes from left to right, through the ingress of either the client or the proxy.

use std::thread;
use std::time::Duration;

use pathmark_testbed::undisturbed;
use serde_json::Value;

use crate::common::measuring_with_a_processor;
use crate::common::mix::{Bed, ECT_0, Figures, Flows, NOT_ECT, Pace, Side, run};

fn through_each_ingress(flows: Flows<'_>, check: impl Fn(&[Figures], &[f64], &Value) + Sync) {
    // Each side has hosts and a path of its own, and both together use less than one processor.
    undisturbed(|| {
        thread::scope(|scope| {
            for side in [Side::Client, Side::Proxy] {
                let check = &check;
                scope.spawn(move || through(side, flows, check));
            }
        });
    });
}

fn through(side: Side, flows: Flows<'_>, check: &(impl Fn(&[Figures], &[f64], &Value) + Sync)) {
    let bed = Bed::new(side, "vcp", 0.0, "auto");
    let (figures, rates, shown) = run(&bed, flows, Duration::from_millis(2_500));
    let flows = shown["flows"].as_array().unwrap();
    assert!(flows.iter().all(|flow| flow["path_report"].is_object()));
    let queues: Vec<_> = flows.iter().map(|flow| &flow["queue"]).collect();
    println!("{side:?}: {figures:?} {rates:.0?} {queues:?}");
    let queue = queues.into_iter().find(|queue| queue.is_object());
    let metrics = bed.show("--metrics");
    for part in [
        "_queue_seconds_bucket{le=\"0.005\"} ",
        "_queue_dropped_total ",
    ] {
        assert!(metrics.contains(part), "{part}: {metrics}");
    }
    check(&figures, &rates, queue.unwrap_or(&Value::Null));
}

/// One after another, because each uses a whole processor.
#[test]
fn flows_share_a_tunnel() {
    let _place = measuring_with_a_processor();
    a_scalable_flow_next_to_bulk_tcp_waits_for_some_milliseconds();
    a_flow_at_twice_its_share_keeps_a_bounded_queue_and_starves_no_tcp();
    flows_share_by_weight();
}

/// The packets of a sender that follows marks wait for a few milliseconds, whereas others wait for
/// 100 ms. On a quiet machine, the 99th percentile is 5 ms; the bound allows for a busy one.
fn a_scalable_flow_next_to_bulk_tcp_waits_for_some_milliseconds() {
    through_each_ingress((&[(1, Pace::Scalable)], &[0]), |figures, rates, queue| {
        let udp = figures[0];
        assert!(queue["wait_p99_ms"].as_u64().unwrap() <= 20, "{queue}");
        assert_eq!(udp.lost, 0.0, "{udp:?}");
        assert!(udp.marked > 0.0 && udp.marked < 0.5, "{udp:?}");
        // Waiting for acknowledgements that open the window costs a part of its share.
        assert!(udp.rate > 1.5e6, "{udp:?}");
        assert!(rates[0] > 6e6, "{rates:?}");
    });
}

/// A sender that responds to no signal only harms itself.
fn a_flow_at_twice_its_share_keeps_a_bounded_queue_and_starves_no_tcp() {
    for ecn in [NOT_ECT, ECT_0] {
        let pace = [(1, Pace::Constant(20e6, ecn))];
        through_each_ingress((&pace, &[0]), |figures, rates, queue| {
            let udp = figures[0];
            // 20 ms of the path, and at most 100 ms of waiting. A busy machine delays some packets
            // more. Without its bound, the queue would have a second of this flow.
            assert!(udp.p50 < 150.0 && udp.p99 < 400.0, "{udp:?}");
            assert!(udp.lost > 0.3 && udp.rate > 6e6, "{udp:?}");
            assert!(queue["dropped"].as_u64().unwrap() > 1_000, "{queue}");
            assert_eq!(udp.marked > 0.0, ecn == ECT_0, "{udp:?}");
            assert!(rates[0] > 6e6, "{rates:?}");
        });
    }
}

fn flows_share_by_weight() {
    let pace = |rate| Pace::Constant(rate, NOT_ECT);
    for (udp, tcp, weights) in [
        (&[][..], &[0, 0][..], &[1.0, 1.0][..]),
        (&[(1, pace(15e6)), (2, pace(10e6))], &[0], &[1.0, 1.0, 1.0]),
        (
            &[(1, pace(15e6)), (4, pace(15e6))],
            &[0, 3],
            &[1.0, 3.0, 1.0, 3.0],
        ),
    ] {
        through_each_ingress((udp, tcp), |figures, rates, _| {
            let udp = figures.iter().map(|udp| udp.rate);
            let all: Vec<_> = udp.chain(rates.iter().copied()).collect();
            let each = all.iter().sum::<f64>() / weights.iter().sum::<f64>();
            for (rate, weight) in all.iter().zip(weights) {
                let share = rate / (each * weight);
                assert!((0.8..1.25).contains(&share), "{all:?}");
            }
        });
    }
}
