//! Compares arrivals of data packets with trains. Because the former are not sufficient for
//! estimates, estimates use trains, while data packets are only counted (`docs/laws/xcp-i.md`).
//!
//! Data packets do not contain the time at which they entered the cloud. The gap between two
//! packets gives the narrow link's rate if they waited there together, and otherwise their sender's
//! pace. A port cannot distinguish these cases.

use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};

/// Bytes of a data packet.
const PACKET: f64 = 1000.0;
/// Rate of the link in front of the cloud, relative to the narrow link.
const FASTER: f64 = 80.0 / 30.0;
/// Number of packets in a row. As with trains, the third fastest row counts.
const ROW: usize = 4;

/// A random number above 0 and up to 1.
fn uniform(random: &mut Pcg64Mcg) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Times at which data packets leave the narrow link of `capacity` bytes per second, over ten
/// seconds. They arrive in groups of `group`, at `share` of the capacity on average. Foreign
/// packets with a mean size of 731 bytes use `foreign` of the capacity as a Poisson process.
fn arrivals(capacity: f64, share: f64, group: usize, foreign: f64, seed: u64) -> Vec<f64> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut others = Vec::new();
    let mut at = 0.0;
    while foreign > 0.0 && at < 10.0 {
        at -= uniform(&mut random).ln() * 731.2 / (capacity * foreign);
        let bytes = match random.next_u32() % 10 {
            0..4 => 40.0,
            4..6 => 576.0,
            _ => 1500.0,
        };
        others.push((at, bytes));
    }
    let gap = group as f64 * PACKET / (capacity * share);
    let mut others = others.into_iter().peekable();
    let (mut free, mut left) = (0.0_f64, Vec::new());
    let mut begins = 0.0;
    while begins < 10.0 {
        for n in 0..group {
            let at = begins + n as f64 * PACKET / (capacity * FASTER);
            while let Some((came, bytes)) = others.next_if(|(came, _)| *came <= at) {
                free = free.max(came) + bytes / capacity;
            }
            free = free.max(at) + PACKET / capacity;
            left.push(free);
        }
        begins += gap;
    }
    left
}

/// The rate of the third fastest row per second of packets that arrive at a steady pace, as the
/// median over all seconds.
fn fastest_rows(arrivals: &[f64]) -> f64 {
    let mut seconds = vec![Vec::new(); 11];
    for row in arrivals.windows(ROW) {
        let gaps: Vec<f64> = row.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let least = gaps.iter().copied().fold(f64::INFINITY, f64::min);
        let most = gaps.iter().copied().fold(0.0, f64::max);
        if most <= 1.3 * least {
            let rate = PACKET * gaps.len() as f64 / gaps.iter().sum::<f64>();
            seconds[row[0] as usize].push(rate);
        }
    }
    let mut rates: Vec<f64> = seconds
        .into_iter()
        .filter_map(|mut rates| {
            rates.sort_by(|a, b| b.total_cmp(a));
            rates.get(2).or(rates.last()).copied()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

/// The narrow link's rate computed from data packets. The packets of a pacing sender, such as
/// XCP's, show its pace, or, with foreign traffic, the link's rate if they wait together often
/// enough. Groups of ten show the link's rate. Arrivals do not show which of these cases applies.
#[test]
fn data_packets_show_their_senders_pace() {
    let capacity = 30e6 / 8.0;
    for (share, group) in [(0.2, 1), (0.5, 1), (0.9, 1), (0.2, 10), (0.5, 10)] {
        for foreign in [0.0, 0.4] {
            if share + foreign > 1.0 {
                continue;
            }
            let mut found: Vec<f64> = (1..=5)
                .map(|seed| fastest_rows(&arrivals(capacity, share, group, foreign, seed)))
                .map(|rate| rate / capacity)
                .collect();
            found.sort_by(f64::total_cmp);
            let found = found[2];
            println!("data {share}, groups of {group}, foreign {foreign}: {found:.3} of the rate");
            let expected = match (group, foreign > 0.0) {
                (1, false) => share,
                // The pace, increased slightly by the few rows that waited together.
                (1, true) if share < 0.3 => 0.23,
                _ => 1.0,
            };
            assert!(
                (found - expected).abs() <= 0.02,
                "{share} {group} {foreign}: {found}"
            );
        }
    }
}
