//! The trust of an XCP port in headers: forged ones, and honest ones that differ widely.

use pathmark_cc::{Duration, XcpCarried};

use crate::sim::{FlowConfig, HopConfig, Sim, mean};

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Bytes of a bandwidth-delay product.
fn bdp(mbit: f64, rtt_ms: u64) -> u64 {
    (mbit * 125.0 * rtt_ms as f64) as u64
}

/// Each field as large as it goes.
const HUGE: XcpCarried = XcpCarried {
    rtt_us: 65_535_000,
    x: 65 << 40,
    delta: 1 << 60,
    covers: u16::MAX,
    cloud: None,
};
/// A huge RTT and rate, that is a small inter-packet time.
const FAST: XcpCarried = XcpCarried { x: 1000, ..HUGE };
/// A short RTT.
const SHORT: XcpCarried = XcpCarried {
    rtt_us: 100,
    ..HUGE
};
/// All is given back, within the shortest RTT.
const BACK: XcpCarried = XcpCarried {
    rtt_us: 1,
    delta: -(1 << 60),
    ..HUGE
};

/// Bytes that honest flows of 50 ms RTT get of 20 Mbit/s in 10 s, next to packets of 84 bytes with
/// this header, from `start` on, and the mean queue in bytes.
fn honest(flows: usize, forged: Option<(XcpCarried, Duration, Duration)>) -> (f64, f64) {
    let hop = HopConfig::new("xcp", 20.0, bdp(20.0, 100));
    let mut configs = vec![FlowConfig::new("xcp", 50); flows];
    if let Some((header, start, gap)) = forged {
        configs.push(FlowConfig::forged(header, gap).start(start));
    }
    let mut sim = Sim::new(&[hop], &configs, 7);
    sim.run(secs(10));
    assert_eq!(sim.hop(0).drops(), 0);
    let goodput = (0..flows).map(|n| sim.flow(n).goodput(0.0, 10.0)).sum();
    (goodput, sim.hop(0).mean_queue_between(1.0, 10.0))
}

#[test]
fn forged_packets_cost_honest_flows_next_to_nothing() {
    for flows in [1, 4] {
        let (had, _) = honest(flows, None);
        for header in [HUGE, FAST, SHORT, BACK] {
            for start in [Duration::ZERO, Duration::from_millis(5_300)] {
                for gap in [secs(1000), secs(1)] {
                    let (kept, _) = honest(flows, Some((header, start, gap)));
                    let what = format!("{flows} flows, {header:?} from {start:?} each {gap:?}");
                    assert!(kept >= 0.97 * had, "{what}: {kept} of {had}");
                }
            }
        }
    }
}

/// Several forged packets in each interval, a third of a percent of the bytes.
#[test]
fn forged_packets_in_each_interval_build_no_queue() {
    for flows in [1, 4] {
        let (had, queue) = honest(flows, None);
        for header in [HUGE, FAST, SHORT, BACK] {
            let gap = Duration::from_millis(10);
            let (kept, waits) = honest(flows, Some((header, Duration::ZERO, gap)));
            let what = format!("{flows} flows, {header:?}");
            assert!(kept >= 0.85 * had, "{what}: {kept} of {had}");
            // Six packets more than without; all of the buffer if no flow receives a reduction.
            assert!(waits <= queue + 9000.0, "{what}: {waits} after {queue}");
        }
    }
}

/// What fast and slow flows send in Mbit/s, and the mean queue in bytes.
fn apart(
    law: &'static str,
    mbit: f64,
    fast: &[FlowConfig],
    slow: &[FlowConfig],
) -> (f64, f64, f64) {
    let limit = bdp(mbit, slow[0].rtt.as_millis() as u64);
    let flows = [fast, slow].concat();
    let mut sim = Sim::new(&[HopConfig::new(law, mbit, limit)], &flows, 7);
    sim.run(secs(50));
    // On the wire.
    let sent: Vec<f64> = (0..flows.len())
        .map(|n| sim.flow(n).packets(25.0, 50.0) as f64 * f64::from(flows[n].packet) * 8e-6 / 25.0)
        .collect();
    let (fast, slow) = sent.split_at(fast.len());
    (
        mean(fast),
        mean(slow),
        sim.hop(0).mean_queue_between(25.0, 50.0),
    )
}

#[test]
fn few_slow_flows_have_their_share() {
    let short = FlowConfig::new("xcp", 20);
    for (mbit, fast, slow) in [
        (
            50.0,
            vec![short.clone(); 9],
            vec![FlowConfig::new("xcp", 800); 2],
        ),
        (
            10.0,
            vec![short.packet(64); 90],
            vec![FlowConfig::new("xcp", 500); 10],
        ),
    ] {
        let fair = mbit / (fast.len() + slow.len()) as f64;
        let (quick, few, queue) = apart("xcp", mbit, &fast, &slow);
        assert!(
            few >= 0.9 * fair && quick >= 0.9 * fair,
            "{few} and {quick} of {fair}"
        );
        let (.., as_published) = apart("xcp[paper]", mbit, &fast, &slow);
        assert!(queue <= 1.25 * as_published, "{queue} {as_published}");
    }
}
