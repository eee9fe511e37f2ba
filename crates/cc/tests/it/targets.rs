//! What the laws have to reach, in whole simulated paths: real senders, real ports, packets in
//! between.
//!
//! Bounds are the project's targets, not what is measured today; `docs/laws/vcp.md` has the
//! measured figures.

use pathmark_cc::Duration;

use crate::sim::{FlowConfig, HopConfig, Sim, jain, mean};

const BEST: &str = "vcp+bise+wlte";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Bytes that `mbit` Mbit/s send in `rtt_ms`.
fn bdp(mbit: f64, rtt_ms: u64) -> u64 {
    (mbit * 125.0) as u64 * rtt_ms
}

fn spread(completions: &[f64]) -> f64 {
    let last = completions.iter().copied().fold(0.0, f64::max);
    let first = completions.iter().copied().fold(f64::MAX, f64::min);
    last / first
}

// Five files over 10 Mbit/s and 400 ms (the VCP Linux paper's experiment).

fn five_files(
    sender: &'static str,
    port: &'static str,
    loss: f64,
    seed: u64,
    apart_ms: u64,
) -> Sim {
    let hop = HopConfig::new(port, 10.0, bdp(10.0, 400))
        .lossy(loss)
        .phase(Duration::from_millis(137 * seed));
    let flows: Vec<_> = (0..5)
        .map(|n| {
            FlowConfig::new(sender, 400)
                .bytes(5_000_000)
                .start(Duration::from_millis(apart_ms * n))
        })
        .collect();
    let mut sim = Sim::new(&[hop], &flows, seed);
    sim.run(secs(120));
    assert_eq!(sim.completions().len(), 5);
    sim
}

#[test]
fn five_files_finish_early_and_together() {
    for (seed, apart_ms) in [(1, 0), (2, 1), (3, 4), (4, 9)] {
        let sim = five_files(BEST, "vcp+bise", 0.0, seed, apart_ms);
        let completions = sim.completions();
        assert!(mean(&completions) <= 25.0, "{completions:?}");
        assert!(spread(&completions) <= 1.1, "{completions:?}");
        assert_eq!(sim.hop(0).drops(), 0);
        let queue = sim.hop(0).mean_queue() / bdp(10.0, 400) as f64;
        assert!(queue <= 0.1, "{queue}");
    }
}

#[test]
fn five_files_over_a_wireless_hop_as_well() {
    for seed in 1..=4 {
        let sim = five_files(BEST, "vcp+bise", 0.003, seed, 2);
        let completions = sim.completions();
        assert!(mean(&completions) <= 26.0, "{completions:?}");
        assert!(spread(&completions) <= 1.15, "{completions:?}");
    }
}

#[test]
fn five_files_over_plain_vcp() {
    for (seed, apart_ms) in [(1, 0), (2, 1), (3, 4), (4, 9)] {
        let sim = five_files("vcp", "vcp[t_rho=200ms]", 0.0, seed, apart_ms);
        let completions = sim.completions();
        assert!(mean(&completions) <= 29.0, "{completions:?}");
        assert!(spread(&completions) <= 1.1, "{completions:?}");
        assert_eq!(sim.hop(0).drops(), 0);
    }
}

// One download over 100 Mbit/s and 250 ms.

#[test]
fn a_download_keeps_its_rate_through_loss() {
    for (loss, least) in [(0.0, 83.0), (1e-4, 83.0), (1e-3, 82.0), (1e-2, 80.0)] {
        let hop = HopConfig::new("vcp+bise", 100.0, bdp(100.0, 250)).lossy(loss);
        let mut sim = Sim::new(&[hop], &[FlowConfig::new(BEST, 250)], 7);
        sim.run(secs(30));
        let goodput = sim.flow(0).delivered() as f64 * 8.0 / 30e6;
        assert!(goodput >= least, "{goodput} at loss {loss}");
        let queue = sim.hop(0).mean_queue() / bdp(100.0, 250) as f64;
        assert!(queue <= 0.05, "{queue}");
        assert_eq!(sim.hop(0).drops(), 0);
    }
}

// Joining a full path.

#[test]
fn a_second_flow_gets_half_its_fair_share_within_a_minute() {
    for (sender, port) in [(BEST, "vcp+bise"), ("vcp", "vcp")] {
        let hop = HopConfig::new(port, 20.0, bdp(20.0, 100));
        let joins = FlowConfig::new(sender, 100).start(secs(20));
        let mut sim = Sim::new(&[hop], &[FlowConfig::new(sender, 100), joins], 7);
        sim.run(secs(80));
        let (old, new) = (
            sim.flow(0).goodput(70.0, 80.0),
            sim.flow(1).goodput(70.0, 80.0),
        );
        assert!(new >= (old + new) / 4.0, "{sender}: {old} {new}");
        assert_eq!(sim.hop(0).drops(), 0);
        let used = sim.hop(0).utilization(20.0, 80.0);
        assert!(used >= 0.9, "{sender}: {used}");
    }
}

// Start-up (VCP extensions paper, section V).

fn start(sender: &'static str, port: &'static str, mbit: f64, packet: u32) -> Sim {
    let hop = HopConfig::new(port, mbit, bdp(mbit, 500));
    let mut sim = Sim::new(&[hop], &[FlowConfig::new(sender, 500).packet(packet)], 7);
    sim.run(secs(9));
    assert_eq!(sim.hop(0).drops(), 0);
    sim
}

#[test]
fn start_up_takes_as_long_as_the_paper_says_and_less_with_our_rules() {
    for (mbit, published) in [(10.0, 4.1), (100.0, 5.7), (1000.0, 7.6)] {
        let paper = start(
            "vcp+bise+wlte[beta=0.875,ai=constant,ai_clamp=no,mi_cap=no,iw=2]",
            "vcp+bise[paper,t_rho=1.25s,marking=carried]",
            mbit,
            1040,
        );
        // The simulation's clock starts a round trip earlier, with the handshake.
        let paper = paper.hop(0).time_to_80(0.5).unwrap() - 0.5;
        assert!(
            (paper / published - 1.0).abs() <= 0.25,
            "{mbit}: {paper} {published}"
        );
        let ours = start(BEST, "vcp+bise", mbit, 1500);
        let ours = ours.hop(0).time_to_80(0.5).unwrap() - 0.5;
        assert!(ours < paper, "{mbit}: {ours} {paper}");
    }
}

#[test]
fn one_to_twenty_flows_fill_the_link_without_a_queue() {
    for count in [1, 2, 5, 10, 20] {
        let hop = HopConfig::new("vcp+bise", 100.0, bdp(100.0, 500));
        let flows: Vec<_> = (0..count)
            .map(|n| FlowConfig::new(BEST, 500).start(Duration::from_millis(7 * n)))
            .collect();
        let mut sim = Sim::new(&[hop], &flows, 7);
        sim.run(secs(30));
        assert_eq!(sim.hop(0).drops(), 0, "{count} flows");
        let used = sim.hop(0).utilization(15.0, 30.0);
        assert!(used >= 0.95, "{count} flows: {used}");
        let queue = sim.hop(0).mean_queue() / bdp(100.0, 500) as f64;
        assert!(queue <= 0.1, "{count} flows: {queue}");
        let shares: Vec<f64> = (0..count as usize)
            .map(|n| sim.flow(n).goodput(15.0, 30.0))
            .collect();
        assert!(jain(&shares) >= 0.98, "{shares:?}");
    }
}

#[test]
fn mixed_round_trips_share_one_port() {
    let hop = HopConfig::new("vcp+bise", 50.0, bdp(50.0, 400));
    let flows = [
        FlowConfig::new(BEST, 400),
        FlowConfig::new(BEST, 200),
        FlowConfig::new(BEST, 50),
        FlowConfig::new(BEST, 100).start(secs(10)),
    ];
    let mut sim = Sim::new(&[hop], &flows, 7);
    sim.run(secs(100));
    assert_eq!(sim.hop(0).drops(), 0);
    let shares: Vec<f64> = (0..4).map(|n| sim.flow(n).goodput(80.0, 100.0)).collect();
    assert!(
        shares.iter().all(|share| *share >= 50.0 / 16.0),
        "{shares:?}"
    );
    assert!(sim.hop(0).utilization(20.0, 100.0) >= 0.93);
}

// Company and other paths.

#[test]
fn foreign_traffic_counts_and_vcp_makes_room() {
    let hop = HopConfig::new("vcp+bise", 20.0, bdp(20.0, 100));
    let flows = [FlowConfig::new(BEST, 100), FlowConfig::udp(8.0, 100)];
    let mut sim = Sim::new(&[hop], &flows, 7);
    sim.run(secs(60));
    // UDP has its 40 % untouched, VCP takes the rest without a queue.
    assert_eq!(sim.hop(0).drops(), 0);
    let vcp = sim.flow(0).goodput(20.0, 60.0);
    assert!((10.0..11.5).contains(&vcp), "{vcp}");
    assert!(sim.hop(0).mean_queue_between(20.0, 60.0) <= 0.1 * bdp(20.0, 100) as f64);
}

#[test]
fn a_flow_beside_cubic_and_udp_lives_on() {
    // In one queue CUBIC fills the buffer, so the port is OVER for good: what VCP then gets is
    // little, but never nothing.
    let hop = HopConfig::new("vcp+bise", 20.0, bdp(20.0, 100));
    let flows = [
        FlowConfig::new(BEST, 100),
        FlowConfig::new("cubic", 100),
        FlowConfig::udp(4.0, 100),
    ];
    let mut sim = Sim::new(&[hop], &flows, 7);
    sim.run(secs(60));
    assert!(sim.flow(0).goodput(30.0, 60.0) > 0.1);
    assert!(sim.flow(2).goodput(10.0, 60.0) > 3.5);
    assert!(sim.hop(0).utilization(10.0, 60.0) > 0.95);
}

fn one_flow(sender: &'static str, hops: &[HopConfig]) -> (f64, u64) {
    let mut sim = Sim::new(hops, &[FlowConfig::new(sender, 100)], 7);
    sim.run(secs(60));
    let drops = (0..hops.len()).map(|hop| sim.hop(hop).drops()).sum();
    (sim.flow(0).goodput(0.0, 60.0), drops)
}

#[test]
fn without_routers_it_is_cubic() {
    let hops = [HopConfig::new("none", 20.0, bdp(20.0, 100))];
    assert_eq!(one_flow(BEST, &hops), one_flow("cubic", &hops));
    assert_eq!(one_flow("vcp", &hops), one_flow("cubic", &hops));
}

#[test]
fn a_narrower_hop_without_vcp_is_noticed() {
    let narrow = HopConfig::new("none", 5.0, bdp(5.0, 100));
    let port = HopConfig::new("vcp+bise", 10.0, bdp(10.0, 100));
    for hops in [[narrow.clone(), port.clone()], [port, narrow]] {
        let (goodput, drops) = one_flow(BEST, &hops);
        let (cubic, cubic_drops) = one_flow("cubic", &hops);
        assert!(goodput >= 0.99 * cubic, "{goodput} {cubic}");
        assert!(drops <= cubic_drops, "{drops} {cubic_drops}");
    }
}

#[test]
fn plain_and_bise_ports_in_a_row_neither_drop_nor_stall() {
    for hops in [
        [("vcp", 10.0), ("vcp+bise", 10.0)],
        [("vcp+bise", 10.0), ("vcp", 10.0)],
        [("vcp+bise", 10.0), ("vcp", 8.0)],
        [("vcp", 8.0), ("vcp+bise", 10.0)],
        [("vcp+bise", 10.0), ("vcp+bise", 8.0)],
    ] {
        let ports = hops.map(|(port, mbit)| HopConfig::new(port, mbit, bdp(mbit, 100)));
        let mut sim = Sim::new(&ports, &[FlowConfig::new(BEST, 100)], 7);
        sim.run(secs(60));
        assert_eq!(sim.hop(0).drops() + sim.hop(1).drops(), 0, "{hops:?}");
        let narrow = usize::from(hops[1].1 < hops[0].1);
        let used = sim.hop(narrow).utilization(30.0, 60.0);
        assert!(used >= 0.9, "{hops:?}: {used}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let sim = five_files(BEST, "vcp+bise[marking=lottery]", 0.003, 5, 3);
        (sim.completions(), sim.hop(0).max_queue())
    };
    assert_eq!(run(), run());
}

#[test]
fn the_ecn_field_carries_plain_vcp_as_well() {
    let shim = mean(&five_files("vcp", "vcp", 0.0, 1, 3).completions());
    let sim = five_files("vcp[carrier=ecn]", "vcp", 0.0, 1, 3);
    let ecn = mean(&sim.completions());
    assert!(ecn <= 1.1 * shim, "{ecn} {shim}");
    assert_eq!(sim.hop(0).drops(), 0);
    // Without marks: CUBIC, to the byte.
    let alone = five_files("vcp[carrier=ecn]", "none", 0.0, 1, 3);
    let cubic = five_files("cubic", "none", 0.0, 1, 3);
    assert_eq!(alone.completions(), cubic.completions());
}
