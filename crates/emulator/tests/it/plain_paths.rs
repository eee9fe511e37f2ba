//! Laws that use no router signal, and paths on which no router answers.

use pathmark_cc::Duration;
use pathmark_emulator::kit::{Figures, Flow, Path, Trial};
use pathmark_testbed::sampled;

/// 100 Mbit/s and 250 ms.
fn long_fat() -> Path {
    Path::new("100Mbit", Duration::from_millis(250))
}

fn alone(path: &Path, law: &str, seconds: u64) -> Figures {
    let flows = [Flow::new("f")];
    let time = Duration::from_secs(seconds);
    let mut trial = Trial::over(path, &flows, time).unwrap();
    trial = trial.set("flow.f.algorithm", law).unwrap();
    trial.run().unwrap()
}

/// Linux drops 1,250 packets over a buffer of one BDP before it settles; RFC 9406 with few
/// acknowledgements per round trip drops 2,065.
#[test]
fn cubic_leaves_slow_start_before_the_queue_overflows() {
    for (queue, drops) in [("0.5bdp", 1000), ("1bdp", 400), ("3bdp", 400)] {
        let figures = alone(&long_fat().queue(queue), "cubic", 20);
        let met = figures
            .expect()
            .drops_at_most("bottleneck", drops)
            .utilization_at_least("bottleneck", 0.89)
            .met();
        met.unwrap_or_else(|missed| panic!("{queue}: {missed}"));
    }
}

/// On such a real path, BBR version 1 of Linux achieves 87, 85 and 79 Mbit/s with no loss, 0.1 %
/// and 1 %.
#[test]
fn bbr_fills_a_long_path_with_and_without_loss() {
    for (loss, goodput) in sampled(2, [(0.0, 86e6), (1e-3, 83e6), (1e-2, 76e6)]) {
        let path = long_fat().loss(loss);
        let figures = alone(&path, "bbr", 60);
        let met = figures
            .expect()
            .goodput_at_least("f", goodput)
            .queue_at_most_bdp("bottleneck", 0.35)
            .met();
        met.unwrap_or_else(|missed| panic!("{loss}: {missed}"));
    }
}

/// If no router answers and losses are random, a law that follows routers achieves the rate of its
/// fallback.
#[test]
fn the_fallback_fills_a_long_path_with_loss() {
    let path = long_fat().loss(1e-2);
    for law in sampled(2, ["auto", "xcp", "vcp+bise+wlte", "xcp-i"]) {
        let figures = alone(&path, &format!("{law}[fallback=bbr]"), 60);
        let met = figures.expect().goodput_at_least("f", 76e6).met();
        met.unwrap_or_else(|missed| panic!("{law}: {missed}"));
    }
}

/// Neither starves the other, with buffers from a fifth of a BDP to four.
#[test]
fn bbr_and_cubic_share_a_queue() {
    for queue in ["0.2bdp", "1bdp", "4bdp"] {
        let path = Path::new("50Mbit", Duration::from_millis(40)).queue(queue);
        let flows = [
            Flow::new("model").algorithm("bbr"),
            Flow::new("loss").algorithm("cubic"),
        ];
        let trial = Trial::over(&path, &flows, Duration::from_secs(60)).unwrap();
        let figures = trial.run().unwrap();
        let met = figures
            .expect()
            .goodput_at_least("model", 12e6)
            .goodput_at_least("loss", 12e6)
            .utilization_at_least("bottleneck", 0.93)
            .met();
        met.unwrap_or_else(|missed| panic!("{queue}: {missed}"));
    }
}

#[test]
fn bbr_flows_share_a_path() {
    let path = Path::new("50Mbit", Duration::from_millis(40));
    let flows = [Flow::new("f").algorithm("bbr").count(10)];
    let trial = Trial::over(&path, &flows, Duration::from_secs(60)).unwrap();
    let figures = trial.run().unwrap();
    let met = figures
        .expect()
        .jain_at_least(0.95)
        .utilization_at_least("bottleneck", 0.95)
        .losses_at_most("f", 0.03)
        .met();
    met.unwrap_or_else(|missed| panic!("{missed}"));
}

/// Although the law has a configured fallback.
#[test]
fn if_a_router_answers_its_window_counts() {
    let path = long_fat().port("vcp+bise");
    let figures = alone(&path, "vcp+bise+wlte[fallback=bbr]", 60);
    let met = figures
        .expect()
        .utilization_at_least("bottleneck", 0.9)
        .queue_at_most_bdp("bottleneck", 0.1)
        .drops_at_most("bottleneck", 0)
        .met();
    met.unwrap_or_else(|missed| panic!("{missed}"));
}
