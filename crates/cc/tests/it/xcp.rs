//! XCP in closed loop: what the XCP Linux paper and the XCP/CUBIC paper set up, as far as a small
//! simulation can.

use pathmark_cc::Duration;

use crate::sim::{FlowConfig, HopConfig, Lie, Sim, jain, mean};

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Bytes of a bandwidth-delay product.
fn bdp(mbit: f64, rtt_ms: u64) -> u64 {
    (mbit * 125.0 * rtt_ms as f64) as u64
}

fn shares(sim: &Sim, flows: usize, from: f64, to: f64) -> Vec<f64> {
    (0..flows).map(|n| sim.flow(n).goodput(from, to)).collect()
}

#[test]
fn four_flows_fill_the_link_evenly_without_a_queue() {
    let hop = HopConfig::new("xcp", 10.0, 2 * bdp(10.0, 500));
    let flows: Vec<_> = (0..4).map(|_| FlowConfig::new("xcp", 500)).collect();
    let mut sim = Sim::new(&[hop], &flows, 7);
    sim.run(secs(60));
    assert!(sim.hop(0).utilization(10.0, 60.0) >= 0.98);
    let shares = shares(&sim, 4, 10.0, 60.0);
    assert!(jain(&shares) >= 0.999, "{shares:?}");
    assert_eq!(sim.hop(0).drops(), 0);
    let queue = sim.hop(0).mean_queue_between(10.0, 60.0) / bdp(10.0, 500) as f64;
    assert!(queue <= 0.03, "{queue}");
}

/// Round trips from the first data packet until one of them is used to 80 %, and drops. `buffer` in
/// BDP.
fn start_up(sender: &'static str, mbit: f64, rtt_ms: u64, buffer: f64) -> (f64, u64) {
    let limit = (buffer * bdp(mbit, rtt_ms) as f64) as u64;
    let hop = HopConfig::new("xcp", mbit, limit);
    let mut sim = Sim::new(&[hop], &[FlowConfig::new(sender, rtt_ms)], 7);
    let rtt = Duration::from_millis(rtt_ms);
    let mut rounds = 0;
    let mut before = 0;
    while rounds < 40 {
        rounds += 1;
        sim.run(rtt * (rounds + 1));
        let sent = sim.hop(0).sent();
        if (sent - before) as f64 >= 0.8 * bdp(mbit, rtt_ms) as f64 {
            break;
        }
        before = sent;
    }
    sim.run(rtt * 60);
    (f64::from(rounds), sim.hop(0).drops())
}

#[test]
fn one_flow_starts_within_a_few_round_trips() {
    for (sender, rtt_ms, buffer, most) in [
        ("xcp", 60, 1.0, 4.0),
        ("xcp[iw=2]", 60, 1.0, 5.0),
        ("xcp", 60, 0.2, 6.0),
        ("xcp", 60, 0.05, 17.0),
        ("xcp", 480, 0.05, 17.0),
    ] {
        let (rounds, drops) = start_up(sender, 1000.0, rtt_ms, buffer);
        assert!(rounds <= most, "{sender} {rtt_ms} ms {buffer}: {rounds}");
        assert_eq!(drops, 0, "{sender} {rtt_ms} ms {buffer}");
    }
}

#[test]
fn two_flows_keep_a_small_buffer_from_overflowing() {
    for (rtt_ms, buffer) in [(60, 0.2), (60, 0.05), (480, 0.05)] {
        let limit = (buffer * bdp(100.0, rtt_ms) as f64) as u64;
        let hop = HopConfig::new("xcp", 100.0, limit);
        let flows = [
            FlowConfig::new("xcp", rtt_ms),
            FlowConfig::new("xcp", rtt_ms),
        ];
        let mut sim = Sim::new(&[hop], &flows, 7);
        sim.run(secs(40));
        let used = sim.hop(0).utilization(15.0, 40.0);
        assert!(used >= 0.98, "{rtt_ms} ms, {buffer}: {used}");
        assert_eq!(sim.hop(0).drops(), 0, "{rtt_ms} ms, {buffer}");
    }
}

#[test]
fn flows_join_and_round_trips_differ() {
    let hop = || HopConfig::new("xcp", 10.0, 2 * bdp(10.0, 500));
    let flows: Vec<_> = (0..4)
        .map(|n| FlowConfig::new("xcp", 500).start(secs(30 * n)))
        .collect();
    let mut sim = Sim::new(&[hop()], &flows, 7);
    sim.run(secs(120));
    for (from, flows) in [(40.0, 2), (70.0, 3), (100.0, 4)] {
        let shares = shares(&sim, flows, from, from + 20.0);
        assert!(jain(&shares) >= 0.99, "{shares:?}");
    }
    assert_eq!(sim.hop(0).drops(), 0);

    let flows = [100, 200, 500, 1000].map(|rtt| FlowConfig::new("xcp", rtt));
    let mut sim = Sim::new(&[hop()], &flows, 7);
    sim.run(secs(60));
    let shares = shares(&sim, 4, 20.0, 60.0);
    assert!(jain(&shares) >= 0.98, "{shares:?}");
    assert!(sim.hop(0).utilization(20.0, 60.0) >= 0.98);
}

#[test]
fn corruption_costs_what_it_corrupts() {
    let once = |before: f64, after: f64, seed: u64| {
        let hop = HopConfig::new("xcp", 10.0, 2 * bdp(10.0, 500))
            .lossy(before)
            .lossy_after(after);
        let flows: Vec<_> = (0..4).map(|_| FlowConfig::new("xcp", 500)).collect();
        let mut sim = Sim::new(&[hop], &flows, seed);
        sim.run(secs(60));
        shares(&sim, 4, 15.0, 60.0).iter().sum::<f64>()
    };
    // Trials of what losses mean cost a little, now and then: the mean of some runs counts.
    let run = |before: f64, after: f64| mean(&[1, 2, 3].map(|seed| once(before, after, seed)));
    let clean = once(0.0, 0.0, 1);
    for (loss, least_after, least_before) in [(0.025, 0.95, 0.93), (0.1, 0.92, 0.90)] {
        let after = run(0.0, loss) / clean / (1.0 - loss);
        let before = run(loss, 0.0) / clean;
        assert!(after >= least_after, "{loss} after: {after}");
        assert!(before >= least_before, "{loss} before: {before}");
    }
}

#[test]
fn a_receivers_limit_is_told_and_lifted_without_a_drop() {
    let hop = HopConfig::new("xcp", 10.0, bdp(10.0, 500));
    let flow = FlowConfig::new("xcp", 500).peer_window(64 << 10);
    let mut sim = Sim::new(&[hop], &[flow], 7);
    sim.run(secs(60));
    let window = sim.flow(0).controller().window();
    assert!(window <= (64 << 10) * 11 / 10, "{window}");
    sim.flow_mut(0).set_peer_window(640 << 10);
    sim.run(secs(120));
    assert_eq!(sim.hop(0).drops(), 0);
    let used = sim.hop(0).utilization(80.0, 120.0);
    assert!(used >= 0.95, "{used}");

    let naive = FlowConfig::new("xcp[naive]", 500).peer_window(64 << 10);
    let hop = HopConfig::new("xcp[paper]", 10.0, bdp(10.0, 500));
    let mut sim = Sim::new(&[hop], &[naive], 7);
    sim.run(secs(60));
    let window = sim.flow(0).controller().window();
    assert!(window > 10 * bdp(10.0, 500), "{window}");
}

#[test]
fn without_routers_it_is_cubic() {
    let goodput = |sender| {
        let hop = HopConfig::new("none", 20.0, bdp(20.0, 100));
        let mut sim = Sim::new(&[hop], &[FlowConfig::new(sender, 100)], 7);
        sim.run(secs(30));
        (sim.flow(0).goodput(0.0, 30.0), sim.hop(0).drops())
    };
    assert_eq!(goodput("xcp"), goodput("cubic"));
}

#[test]
fn a_narrower_hop_that_is_no_xcp_router_is_noticed() {
    for narrow_first in [true, false] {
        let narrow = HopConfig::new("none", 5.0, bdp(5.0, 100));
        let port = HopConfig::new("xcp", 10.0, bdp(10.0, 100));
        let hops = if narrow_first {
            [narrow, port]
        } else {
            [port, narrow]
        };
        let run = |sender| {
            let mut sim = Sim::new(&hops, &[FlowConfig::new(sender, 100)], 7);
            sim.run(secs(60));
            let drops = sim.hop(0).drops() + sim.hop(1).drops();
            (sim.flow(0).goodput(0.0, 60.0), drops)
        };
        let (goodput, drops) = run("xcp");
        let (cubic, cubic_drops) = run("cubic");
        assert!(goodput >= 0.95 * cubic, "{goodput} {cubic}");
        assert!(drops <= 2 * cubic_drops + 20, "{drops} {cubic_drops}");
    }
}

#[test]
fn a_vcp_flow_and_an_xcp_flow_share_either_kind_of_port() {
    for (names, mbit) in [
        (["vcp+bise", "xcp"], [20.0, 40.0]),
        (["vcp+bise", "xcp"], [40.0, 20.0]),
        (["xcp", "vcp+bise"], [20.0, 40.0]),
        (["xcp", "vcp+bise"], [40.0, 20.0]),
    ] {
        let hops = [0, 1].map(|n| HopConfig::new(names[n], mbit[n], bdp(20.0, 100)));
        let flows = [
            FlowConfig::new("vcp+bise", 100),
            FlowConfig::new("xcp", 100),
        ];
        let mut sim = Sim::new(&hops, &flows, 7);
        sim.run(secs(90));
        let shares = shares(&sim, 2, 30.0, 90.0);
        let sum = shares.iter().sum::<f64>();
        for share in &shares {
            assert!(*share >= 0.35 * sum, "{names:?} {mbit:?}: {shares:?}");
        }
        assert_eq!(sim.hop(0).drops() + sim.hop(1).drops(), 0);
        let narrow = usize::from(mbit[1] < mbit[0]);
        let used = sim.hop(narrow).utilization(30.0, 90.0);
        assert!(used >= 0.95, "{names:?} {mbit:?}: {used}");
    }
}

#[test]
fn vcp_flows_at_an_xcp_port_have_as_much_as_xcp_flows() {
    for rtt_ms in [50, 100] {
        for (vcp, xcp) in [(1, 1), (4, 4), (1, 4), (4, 1)] {
            let hop = HopConfig::new("xcp", 10.0, bdp(10.0, rtt_ms));
            let flows = [
                vec![FlowConfig::new("vcp+bise+wlte", rtt_ms); vcp],
                vec![FlowConfig::new("xcp", rtt_ms); xcp],
            ]
            .concat();
            let mut sim = Sim::new(&[hop], &flows, 7);
            sim.run(secs(60));
            let shares = shares(&sim, flows.len(), 20.0, 60.0);
            let fair = shares.iter().sum::<f64>() / shares.len() as f64;
            for share in &shares {
                let even = (0.8..=1.2).contains(&(share / fair));
                assert!(even, "{rtt_ms} ms, {vcp} + {xcp}: {shares:?}");
            }
            let used = sim.hop(0).utilization(20.0, 60.0);
            assert!(used >= 0.95, "{rtt_ms} ms, {vcp} + {xcp}: {used}");
        }
    }
}

/// Mean completion of 20 short flows of `bytes`, `gap` ms apart, next to `long` flows.
fn completion(
    port: &'static str,
    law: &'static str,
    mbit: f64,
    long: usize,
    bytes: u64,
    gap: u64,
) -> f64 {
    let mut flows = vec![FlowConfig::new(law, 80); long];
    for n in 0..20 {
        let start = Duration::from_millis(8000 + n * gap);
        flows.push(FlowConfig::new(law, 80).bytes(bytes).start(start));
    }
    let hop = HopConfig::new(port, mbit, bdp(mbit, 80));
    let mut sim = Sim::new(&[hop], &flows, 7);
    sim.run(secs(60));
    let times = sim.completions();
    assert_eq!(times.len(), 20);
    mean(&times)
}

#[test]
fn short_flows_end_no_later_than_with_cubic() {
    for (mbit, long, bytes, gap) in [
        (10.0, 1, 200_000, 1500),
        (10.0, 1, 30_000, 500),
        (100.0, 4, 200_000, 200),
    ] {
        let cubic = completion("none", "cubic", mbit, long, bytes, gap);
        let xcp = completion("xcp", "xcp", mbit, long, bytes, gap);
        assert!(
            xcp <= 0.95 * cubic,
            "{mbit} Mbit/s, {long}, {bytes}: {xcp} {cubic}"
        );
    }
}

#[test]
fn measured_capacity_follows_the_link() {
    let limit = 2 * bdp(10.0, 500);
    for truth in [10.0, 6.0, 5.0, 2.0] {
        let hop = HopConfig::new("xcp[capacity=auto]", truth, limit).believed(10.0);
        let flows: Vec<_> = (0..4).map(|_| FlowConfig::new("xcp", 500)).collect();
        let mut sim = Sim::new(&[hop], &flows, 7);
        sim.run(secs(60));
        assert_follows(&sim, truth, 20.0, 60.0);
        assert_eq!(sim.hop(0).drops(), 0);
    }
    let hop = HopConfig::new("xcp[capacity=auto]", 10.0, limit).believed(10.0);
    let flows: Vec<_> = (0..4).map(|_| FlowConfig::new("xcp", 500)).collect();
    let mut sim = Sim::new(&[hop], &flows, 7);
    sim.run(secs(20));
    // Down at once; up again as fast as it probes: by a fiftieth per round trip.
    for (from, to, settled, mbit) in [(20, 40, 25, 6.0), (40, 60, 45, 5.0), (60, 110, 85, 10.0)] {
        assert_eq!(sim.now(), secs(from));
        sim.set_rate(0, mbit);
        sim.run(secs(to));
        assert_follows(&sim, mbit, f64::from(settled), to as f64);
    }
}

fn assert_follows(sim: &Sim, mbit: f64, from: f64, to: f64) {
    let used = sim.hop(0).utilization(from, to);
    assert!(used >= 0.95, "{mbit}: {used}");
    let shares = shares(sim, 4, from, to);
    assert!(jain(&shares) >= 0.98, "{mbit}: {shares:?}");
    let queue = sim.hop(0).mean_queue_between(from, to) / bdp(mbit, 500) as f64;
    assert!(queue <= 0.25, "{mbit}: {queue}");
}

#[test]
fn liars_cost_the_honest_little() {
    let run = |lie, law| {
        let hop = HopConfig::new(law, 10.0, 2 * bdp(10.0, 200));
        let flows: Vec<_> = (0..10)
            .map(|n| FlowConfig::new("xcp", 200).lie(if n == 0 { lie } else { Lie::No }))
            .collect();
        let mut sim = Sim::new(&[hop], &flows, 7);
        sim.run(secs(60));
        let honest = shares(&sim, 10, 10.0, 60.0).split_off(1);
        let least = honest.iter().copied().fold(f64::MAX, f64::min);
        (least, sim.hop(0).refused())
    };
    let (had, refused) = run(Lie::No, "xcp[police]");
    assert!(refused <= 20, "{refused}");
    for lie in [Lie::Deaf, Lie::Times(10)] {
        let (unguarded, _) = run(lie, "xcp");
        assert!(unguarded < 0.85 * had, "{lie:?}: {unguarded} of {had}");
        let (kept, refused) = run(lie, "xcp[police]");
        assert!(kept >= 0.9 * had, "{lie:?}: {kept} of {had}");
        assert!(refused > 100, "{lie:?}: {refused}");
    }
}

#[test]
fn forged_headers_cost_the_honest_little() {
    for mbit in [10.0, 100.0] {
        let run = |garbage: f64| {
            let hop = HopConfig::new("xcp", mbit, 2 * bdp(mbit, 200));
            let mut flows = vec![FlowConfig::new("xcp", 200); 4];
            if garbage > 0.0 {
                flows.push(FlowConfig::garbage(garbage * mbit));
            }
            let mut sim = Sim::new(&[hop], &flows, 7);
            sim.run(secs(40));
            shares(&sim, 4, 10.0, 40.0).iter().sum::<f64>()
        };
        let (had, kept) = (run(0.0), run(0.01));
        assert!(kept >= 0.9 * had, "{mbit}: {kept} of {had}");
    }
}
