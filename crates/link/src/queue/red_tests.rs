//! Compares RED with the published formulas in `f64` and hand-computed values.

use pathmark_cc::{Duration, Instant};

use super::red::{Law, Verdict, spread};
use super::{BadRed, Depth, Limit, Pushed, Queue, Red, RedConfig};
use crate::impair::Random;
use crate::testing::{Log, queued};

fn config(gentle: bool) -> RedConfig {
    RedConfig {
        gentle,
        ..RedConfig::new(Limit::Packets(1000))
    }
}

fn law(gentle: bool) -> Law {
    Law::new(config(gentle), Some(12_500_000)).unwrap()
}

fn q32(value: f64) -> u64 {
    (value * 4_294_967_296.0) as u64
}

fn unit(q32: u64) -> f64 {
    q32 as f64 / 4_294_967_296.0
}

#[test]
fn base_probability_by_average() {
    let table = [
        (4.0, 0.0, 0.0),
        (5.0, 0.0, 0.0),
        (10.0, 0.05, 0.05),
        (14.999, 0.09999, 0.09999),
        (15.0, 1.0, 0.1),
        (20.0, 1.0, 0.4),
        (29.0, 1.0, 0.94),
        (30.0, 1.0, 1.0),
    ];
    for (average, classic, gentle) in table {
        for (is_gentle, expected) in [(false, classic), (true, gentle)] {
            let mut law = law(is_gentle);
            law.average_q32 = q32(average);
            let got = unit(law.base_probability());
            assert!(
                (got - expected).abs() < 1.0 / 65_536.0,
                "{average}: {got} for {expected}"
            );
        }
    }
}

#[test]
fn probability_grows_with_the_count() {
    let table = [
        (0, 0.05),
        (1, 0.052_631_578_9),
        (5, 0.066_666_666_7),
        (10, 0.1),
        (19, 1.0),
        (20, 1.0),
    ];
    for (count, expected) in table {
        let got = unit(spread(q32(0.05), count << 16));
        assert!((got - expected).abs() < 1.0 / 65_536.0, "{count}: {got}");
    }
}

fn arrive(law: &mut Law, packets: u64) {
    let depth = Depth {
        packets,
        bytes: packets * 1500,
    };
    law.on_arrival(Instant::ZERO, depth, 1500, || u32::MAX);
}

#[test]
fn average_follows_the_queue() {
    let mut law = law(true);
    for expected in [
        0.1,
        0.1998,
        0.299_400_4,
        0.398_801_599_2,
        0.498_003_996_001_60,
    ] {
        arrive(&mut law, 50);
        assert!((unit(law.average_q32) - expected).abs() < 1e-6);
    }
    let mut oracle = unit(law.average_q32);
    for step in 0u64..10_000 {
        let queue = step * 7919 % 60;
        arrive(&mut law, queue);
        oracle += 0.002 * (queue as f64 - oracle);
    }
    assert!((unit(law.average_q32) - oracle).abs() < 1.0 / 4096.0);
}

#[test]
fn an_idle_queue_ages_the_average() {
    let mut law = law(true);
    law.average_q32 = q32(10.0);
    law.age(Duration::from_micros(125 * 120)); // 125 packets of 1500 bytes at 12.5 MB/s
    assert!((unit(law.average_q32) - 7.786_058_472_859).abs() < 1e-5);
    law.age(Duration::from_secs(3600));
    assert_eq!(law.average_q32, 0);
}

/// With a fixed probability of 1/20, the gaps between drops are uniform over 1…19, with a mean
/// of 10.
#[test]
fn gaps_between_drops_are_uniform() {
    let mut law = law(true);
    let mut random = Random::new(7, "gaps");
    let (mut gap, mut gaps) = (0u64, vec![0u64; 21]);
    let depth = Depth {
        packets: 10,
        bytes: 15_000,
    };
    for _ in 0..1_000_000 {
        law.average_q32 = q32(10.0);
        gap += 1;
        if law.on_arrival(Instant::ZERO, depth, 1500, || random.next_u32()) == Verdict::Drop {
            gaps[gap as usize] += 1;
            gap = 0;
        }
    }
    let drops: u64 = gaps.iter().sum();
    let mean = gaps.iter().zip(0u64..).map(|(n, g)| n * g).sum::<u64>() as f64 / drops as f64;
    assert!((mean - 10.0).abs() < 0.1, "{mean}");
    for &n in &gaps[1..20] {
        let share = n as f64 / drops as f64;
        assert!((share - 1.0 / 19.0).abs() < 0.004, "{share}");
    }
    assert_eq!(gaps[20], 0);
}

#[test]
fn byte_mode_spares_short_packets() {
    let drops = |bytes: u32| {
        let mut law = Law::new(
            RedConfig {
                byte_mode: true,
                ..config(true)
            },
            None,
        )
        .unwrap();
        let mut random = Random::new(3, "bytes");
        let depth = Depth {
            packets: 10,
            bytes: 15_000,
        };
        (0..100_000)
            .filter(|_| {
                law.average_q32 = q32(10.0);
                law.on_arrival(Instant::ZERO, depth, bytes, || random.next_u32()) == Verdict::Drop
            })
            .count()
    };
    assert!(
        drops(1500) > 10 * drops(100),
        "{} {}",
        drops(1500),
        drops(100)
    );
}

#[test]
fn refuses_what_cannot_work() {
    let bad = |change: fn(&mut RedConfig)| {
        let mut config = config(true);
        change(&mut config);
        Law::new(config, None).err()
    };
    assert_eq!(bad(|c| c.max_packets = 5), Some(BadRed::Thresholds));
    assert_eq!(bad(|c| c.weight_q32 = 0), Some(BadRed::Weight));
    assert_eq!(bad(|c| c.mean_packet = 0), Some(BadRed::MeanPacket));
}

#[test]
fn a_full_queue_drops_whatever_the_average() {
    let mut log = Log::default();
    let config = RedConfig::new(Limit::Packets(3));
    let mut queue = Red::new(config, None, Random::new(1, "full")).unwrap();
    let pushed: Vec<_> = (0..4)
        .map(|id| queue.push(Instant::ZERO, queued(id, 1000, Instant::ZERO), &mut log))
        .collect();
    assert_eq!(pushed.iter().filter(|p| **p == Pushed::Queued).count(), 3);
    assert_eq!(queue.pop_youngest().unwrap().packet, 2);
    assert_eq!(queue.pop(Instant::ZERO, &mut log).item.unwrap().packet, 0);
}
