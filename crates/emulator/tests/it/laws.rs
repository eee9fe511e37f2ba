//! The targets that the control laws must reach with the transport's own connections and the
//! router's own ports, over emulated links.
//!
//! Every run is deterministic. `docs/laws/vcp.md` has the measured figures.

use pathmark_emulator::result::{LinkResult, RunResult};
use pathmark_testbed::sampled;

use crate::support::{drops, over_all, run};

const BEST: &str = "vcp+bise+wlte";

/// A bottleneck from `S` to `D`, and its flows. `more` is added to the link's table.
fn scenario(seconds: u32, rate: &str, rtt_ms: u32, port: &str, more: &str, flows: &str) -> String {
    format!(
        "duration = \"{seconds}s\"\nseed = 7\n[[link]]\nname = \"bottleneck\"\nfrom = \"S\"\nto \
         = \"D\"\nduplex = true\n\
         rate = \"{rate}\"\ndelay = \"{}ms\"\ncontroller = \"{port}\"\n{more}\n{flows}",
        rtt_ms / 2
    )
}

fn flows(algorithm: &str, count: usize, more: &str) -> String {
    format!(
        "[[flow]]\nname = \"flow\"\nfrom = \"S\"\nto = \"D\"\nalgorithm = \"{algorithm}\"\ncount = \
         {count}\n{more}\n"
    )
}

fn bottleneck(result: &RunResult) -> &LinkResult {
    over_all(result, "bottleneck")
}

struct Files {
    mean: f64,
    /// The last completion time divided by the first.
    spread: f64,
    jain: f64,
}

fn files(result: &RunResult) -> Files {
    let times: Vec<f64> = result
        .flows
        .iter()
        .map(|flow| flow.completion_s.expect("the file arrived"))
        .collect();
    let first = times.iter().copied().fold(f64::MAX, f64::min);
    let last = times.iter().copied().fold(0.0, f64::max);
    Files {
        mean: times.iter().sum::<f64>() / times.len() as f64,
        spread: last / first,
        jain: result.jain,
    }
}

/// Five files of 5 MB over 10 Mbit/s and 400 ms that start at these times (the VCP Linux paper's
/// experiment).
fn five_files(sender: &str, port: &str, more: &str, starts_ms: [u32; 5]) -> RunResult {
    let starts = starts_ms.map(|ms| format!("\"{ms}ms\"")).join(", ");
    let more_flow = format!("bytes = 5_000_000\nstart = [{starts}]");
    let flows = flows(sender, 5, &more_flow);
    run(&scenario(120, "10Mbit", 400, port, more, &flows))
}

/// Returns how many packets of 1500 bytes the path holds.
fn bdp_packets(mbit: f64, rtt_ms: f64) -> f64 {
    mbit * rtt_ms * 1000.0 / 8.0 / 1500.0
}

#[test]
fn five_files_finish_early_and_together() {
    let starts = [
        [0; 5],
        [0, 1, 2, 3, 4],
        [9, 0, 4, 7, 2],
        [0, 20, 40, 60, 80],
    ];
    let mut spreads = Vec::new();
    for starts in starts {
        let result = five_files(BEST, "vcp+bise", "", starts);
        let files = files(&result);
        let link = bottleneck(&result);
        assert!(files.mean <= 25.0, "{starts:?}: {}", files.mean);
        // The phase of the router's interval at the first round trips changes this by some
        // hundredths.
        assert!(files.spread <= 1.12, "{starts:?}: {}", files.spread);
        spreads.push(files.spread);
        assert!(files.jain >= 0.99, "{starts:?}: {}", files.jain);
        assert_eq!(link.drops, 0, "{starts:?}");
        let queue = link.queue_packets.mean / bdp_packets(10.0, 400.0);
        assert!(queue <= 0.1, "{starts:?}: {queue}");
    }
    spreads.sort_by(f64::total_cmp);
    assert!(spreads[2] <= 1.1, "the upper median: {spreads:?}");
}

#[test]
fn five_files_that_start_within_a_round_trip_share_as_well() {
    for starts in [[0, 100, 200, 300, 400], [371, 12, 250, 90, 180]] {
        let result = five_files(BEST, "vcp+bise", "", starts);
        let files = files(&result);
        assert!(files.mean <= 25.0, "{starts:?}: {}", files.mean);
        assert!(files.spread <= 1.25, "{starts:?}: {}", files.spread);
        assert!(files.jain >= 0.99, "{starts:?}: {}", files.jain);
        assert_eq!(bottleneck(&result).drops, 0, "{starts:?}");
    }
}

#[test]
fn five_files_over_a_wireless_hop() {
    let loss = "loss = { kind = \"bernoulli\", per = 0.003 }";
    let files = files(&five_files(BEST, "vcp+bise", loss, [0, 3, 1, 4, 2]));
    assert!(files.mean <= 26.0, "{}", files.mean);
    assert!(files.spread <= 1.15, "{}", files.spread);
}

#[test]
fn five_files_over_plain_vcp() {
    for starts in [[0; 5], [0, 1, 2, 3, 4]] {
        let result = five_files("vcp", "vcp[t_rho=200ms]", "", starts);
        assert!(files(&result).mean <= 29.0, "{}", files(&result).mean);
        assert_eq!(bottleneck(&result).drops, 0);
    }
}

#[test]
fn a_download_keeps_its_rate_through_loss() {
    for (per, least) in [(0.0, 83.0), (1e-4, 83.0), (1e-3, 82.0), (1e-2, 80.0)] {
        let loss = format!("loss = {{ kind = \"bernoulli\", per = {per:?} }}");
        let flow = flows(BEST, 1, "");
        let result = run(&scenario(30, "100Mbit", 250, "vcp+bise", &loss, &flow));
        let goodput = result.flows[0].goodput_bps / 1e6;
        assert!(goodput >= least, "{goodput} at {per}");
        let link = bottleneck(&result);
        let queue = link.queue_packets.mean / bdp_packets(100.0, 250.0);
        assert!(queue <= 0.05, "{queue} at {per}");
        assert_eq!(link.drops, 0, "at {per}");
    }
}

#[test]
fn a_second_flow_gets_half_its_fair_share_within_a_minute() {
    let two = flows(BEST, 2, "start = [\"0s\", \"20s\"]");
    let text = scenario(80, "20Mbit", 100, "vcp+bise", "", &two);
    let result = run(&format!("measure = [[\"70s\", \"80s\"]]\n{text}"));
    let shares = &result.windows[0].flows;
    let (old, new) = (shares[0].goodput_bps, shares[1].goodput_bps);
    assert!(new >= (old + new) / 4.0, "{old} {new}");
    assert_eq!(bottleneck(&result).drops, 0);
}

#[test]
fn start_up_is_quick_and_stays_within_the_buffer() {
    // The fluid model of the published rules, plus the round trip of the preceding handshake.
    for (rate, published) in [("10Mbit", 4.1), ("100Mbit", 5.7)] {
        let result = run(&scenario(
            10,
            rate,
            500,
            "vcp+bise",
            "",
            &flows(BEST, 1, ""),
        ));
        let link = bottleneck(&result);
        let taken = link.time_to_80_s.expect("the link was filled");
        assert!(taken <= published + 0.5, "{rate}: {taken}");
        assert_eq!(link.drops, 0, "{rate}");
    }
}

#[test]
fn foreign_traffic_in_a_trickle_leaves_the_interval_alone() {
    // A few plain packets per round trip, so that the capacity left to the law changes all the
    // time.
    let mixed = format!(
        "{}[[flow]]\nname = \"trickle\"\nfrom = \"S\"\nto = \"D\"\nalgorithm = \"cubic\"\n\
         receive_window = 6000\n",
        flows(BEST, 2, "")
    );
    let result = run(&scenario(40, "10Mbit", 400, "vcp+bise", "", &mixed));
    let link = bottleneck(&result);
    assert_eq!(link.drops, 0);
    assert!(link.utilization >= Some(0.8), "{:?}", link.utilization);
    let (one, two) = (result.flows[0].goodput_bps, result.flows[1].goodput_bps);
    assert!(one.max(two) / one.min(two) <= 1.2, "{one} {two}");
}

#[test]
fn without_routers_it_is_cubic() {
    let one = |sender| {
        let result = run(&scenario(
            60,
            "20Mbit",
            100,
            "none",
            "",
            &flows(sender, 1, ""),
        ));
        (
            result.flows[0].goodput_bps,
            bottleneck(&result).drops as f64,
        )
    };
    let ((ours, drops), (cubic, cubic_drops)) = (one(BEST), one("cubic"));
    // If no router has answered, only few packets carry a shim.
    assert!(ours >= 0.99 * cubic, "{ours} {cubic}");
    assert!(drops <= 1.1 * cubic_drops, "{drops} {cubic_drops}");
}

/// A hop from `S` to `R` and one from `R` to `D`, each with its rate and controller, and 100 ms in
/// total.
fn two_hops(hops: [(&str, &str); 2], sender: &str) -> RunResult {
    let hop = |name, from, to, (rate, controller)| {
        format!(
            "[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nduplex = true\nrate \
             = \"{rate}\"\ndelay = \"25ms\"\n\
             queue = {{ kind = \"droptail\", limit = \"1bdp\", rtt = \"100ms\" }}\ncontroller \
             = \"{controller}\"\n"
        )
    };
    let [first, second] = hops;
    run(&format!(
        "duration = \"40s\"\nseed = 7\n{}{}{}",
        hop("one", "S", "R", first),
        hop("two", "R", "D", second),
        flows(sender, 1, "")
    ))
}

#[test]
fn a_bottleneck_that_no_router_announces_is_found() {
    let (plain, router) = (("5Mbit", "none"), ("10Mbit", "vcp+bise"));
    for hops in [[plain, router], [router, plain]] {
        let (ours, cubic) = (two_hops(hops, BEST), two_hops(hops, "cubic"));
        let (goodput, bar) = (ours.flows[0].goodput_bps, cubic.flows[0].goodput_bps);
        // A last loss may delay some in-order bytes on either side.
        assert!(goodput >= 0.995 * bar, "{goodput} {bar}");
        assert!(drops(&ours) <= drops(&cubic), "{}", drops(&ours));
    }
}

#[test]
fn a_queue_on_the_way_back_is_not_taken_for_one_ahead() {
    let back = "reverse = { queue = { kind = \"droptail\", limit = \"1bdp\" } }";
    let both = format!(
        "{}[[flow]]\nname = \"back\"\nfrom = \"D\"\nto = \"S\"\nalgorithm = \"cubic\"\n",
        flows(BEST, 1, "")
    );
    let result = run(&scenario(40, "20Mbit", 100, "vcp+bise", back, &both));
    let link = bottleneck(&result);
    assert!(link.utilization >= Some(0.88), "{:?}", link.utilization);
    let rtt = result.flows[0].rtt_ms.as_ref().expect("measured").mean;
    assert!(rtt > 150.0, "the way back is full: {rtt}");
    assert!(link.drops <= 20, "{}", link.drops);
}

#[test]
fn nothing_is_taken_for_lost_where_nothing_is() {
    // Senders acknowledge the flow control updates of receivers in packets without a shim, which
    // keep their place in the queue.
    let result = run(&scenario(
        12,
        "100Mbit",
        500,
        "vcp+bise[paper,t_rho=1.25s]",
        "",
        &flows(
            "vcp+bise[beta=0.875,ai=constant,ai_clamp=no,mi_cap=no,t_rho=1.25s]",
            10,
            "",
        ),
    ));
    assert_eq!(bottleneck(&result).drops, 0);
    for flow in &result.flows {
        assert_eq!(flow.packets_lost, Some(0), "{}", flow.name);
    }
}

/// A long flow over `hops` ports of 20 Mbit/s and 20 ms each, with `crossing` flows over each
/// port. Returns the rate of the long flow in the second half of the run, and the lowest rate of
/// the others, in Mbit/s.
fn parking_lot(sender: &str, hops: usize, crossing: usize, seed: u64) -> (f64, f64) {
    let mut text = format!("duration = \"40s\"\nseed = {seed}\nmeasure = [[\"20s\", \"40s\"]]\n");
    for hop in 0..hops {
        text += &format!(
            "[[link]]\nname = \"hop{hop}\"\nfrom = \"N{hop}\"\nto = \"N{}\"\nduplex = true\nrate \
             = \"20Mbit\"\n\
             delay = \"20ms\"\ncontroller = \"vcp+bise\"\n\
             [[flow]]\nname = \"across{hop}-\"\nfrom = \"N{hop}\"\nto = \"N{}\"\nalgorithm \
             = \"{sender}\"\n\
             count = {crossing}\n",
            hop + 1,
            hop + 1
        );
    }
    text += &format!(
        "[[flow]]\nname = \"long\"\nfrom = \"N0\"\nto = \"N{hops}\"\nalgorithm = \"{sender}\"\n"
    );
    let result = run(&text);
    assert!(sender == "cubic" || result.links.iter().all(|link| link.drops == 0));
    let mut shares = result.windows[0]
        .flows
        .iter()
        .map(|flow| flow.goodput_bps / 1e6);
    let long = shares.next_back().expect("the long flow");
    (long, shares.fold(f64::MAX, f64::min))
}

#[test]
fn a_flow_over_several_bottlenecks_has_what_cubic_has_or_more() {
    // The rate of CUBIC's long flow differs by half between seeds, because losses are random.
    let mean = |sender, hops, crossing| {
        let runs = (1..=2).map(|seed| parking_lot(sender, hops, crossing, seed));
        let (long, least) = runs.fold((0.0, 0.0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
        (long / 2.0, least / 2.0)
    };
    for (hops, crossing) in sampled(2, [(3, 4), (8, 1)]) {
        let (ours, least) = mean(BEST, hops, crossing);
        let (bar, _) = mean("cubic", hops, crossing);
        println!("{hops} hops, {crossing} crossing: {ours}, CUBIC {bar}; others {least}");
        assert!(ours >= bar, "{hops}, {crossing}: {ours} {bar}");
        // It doesn't take more than its share from any other flow, either.
        assert!(ours <= 1.1 * least, "{hops}, {crossing}: {ours} {least}");
    }
}

/// Through a port without a law, files wait behind the queue of the long flows. At the law's own
/// port, CUBIC's files are sparse flows and don't wait: slow start on an idle path takes 4 round
/// trips. The law's files take one more, since they must not fill the queue at once.
#[test]
fn short_files_among_long_flows_take_no_longer_than_with_cubic() {
    let mean = |sender: &str, port: &str| {
        let starts: Vec<_> = (0..40)
            .map(|n| format!("\"{}ms\"", 6000 + 331 * n))
            .collect();
        let files = format!("bytes = 90_000\nstart = [{}]", starts.join(", "));
        let short = flows(sender, 40, &files).replace("\"flow\"", "\"file\"");
        let all = format!("{}{short}", flows(sender, 3, ""));
        let result = run(&scenario(22, "30Mbit", 80, port, "", &all));
        let times: Vec<f64> = result.flows[3..]
            .iter()
            .map(|flow| flow.completion_s.expect("the file arrived"))
            .collect();
        times.iter().sum::<f64>() / times.len() as f64
    };
    let ours = mean(BEST, "vcp+bise");
    let (plain, sparse) = (mean("cubic", "none"), mean("cubic", "vcp+bise"));
    println!("{ours}, CUBIC {plain} through a plain port, {sparse} through the same");
    assert!(ours <= plain, "{ours} {plain}");
    assert!(ours <= 1.25 * sparse, "{ours} {sparse}");
}
