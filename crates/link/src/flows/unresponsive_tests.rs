//! Floods behind shims at a port, and loads that are not floods.

use pathmark_cc::{Answer, Arrival, Carried, Duration, Instant, VcpAnswer};
use proptest::prelude::*;

use super::judge::fair_share;
use super::{MOST_STRIKES, *};
use crate::port::Port;
use crate::queue::{Limit, Owner};
use crate::stats::DropCause;
use crate::testing::{Steady, VCP, packet, separated};

/// 20 Mbit/s in bytes per second.
const RATE: u64 = 2_500_000;

/// A sender of full packets at a steady rate.
struct Sender {
    /// Bytes per second.
    rate: u64,
    carried: Carried,
    /// Its flow hash at a time in ms.
    flow: fn(u64) -> u32,
    due: u64,
}

fn sender(rate: u64, flow: fn(u64) -> u32) -> Sender {
    Sender {
        rate,
        carried: VCP,
        flow,
        due: 0,
    }
}

/// Counts departed bytes and answers per sender.
#[derive(Default)]
struct Sink {
    answered: Vec<u32>,
    policed: u64,
}

impl Owner<u32> for Sink {
    fn mark(&mut self, packet: &mut u32, _: &Answer) {
        self.answered.push(*packet);
    }
    fn dropped(&mut self, _: u32, cause: DropCause) {
        self.policed += u64::from(cause == DropCause::Policed);
    }
}

struct Rig {
    port: Port<u32>,
    sink: Sink,
    ms: u64,
}

impl Rig {
    fn new(interval_ms: u64) -> Self {
        let law = Steady {
            interval: Duration::from_millis(interval_ms),
            answer: Answer::Vcp(VcpAnswer::default()),
            admits_one_in: 1,
            seen: 0,
        };
        Self {
            port: separated(RATE, Limit::Bytes(RATE / 5))
                .with_controller(Instant::ZERO, Box::new(law)),
            sink: Sink::default(),
            ms: 0,
        }
    }

    /// Lets senders send for this long. Returns each one's throughput in bytes per second, and
    /// its number of answered packets.
    fn run(&mut self, seconds: u64, senders: &mut [Sender]) -> Vec<(u64, usize)> {
        let mut sent = vec![0; senders.len()];
        self.sink.answered.clear();
        for ms in self.ms..self.ms + 1000 * seconds {
            let now = Instant::from_millis(ms);
            for (index, sender) in senders.iter_mut().enumerate() {
                sender.due += sender.rate;
                while sender.due >= 1_500_000 {
                    sender.due -= 1_500_000;
                    let packet = packet((sender.flow)(ms), 1500, sender.carried);
                    self.port.arrive(now, packet, index as u32, &mut self.sink);
                }
            }
            while let Some(departure) = self.port.poll(now, &mut self.sink) {
                sent[departure.packet as usize] += 1500;
            }
        }
        self.ms += 1000 * seconds;
        let answered = |index| {
            let answered = self.sink.answered.iter();
            answered.filter(|own| **own == index).count()
        };
        let rates = sent.iter().zip(0..);
        rates
            .map(|(sent, index)| (sent / seconds, answered(index)))
            .collect()
    }
}

/// 1 Mbit/s from a responsive flow.
fn modest() -> Sender {
    sender(125_000, |_| 1)
}

#[test]
fn a_flood_is_served_as_plain_traffic() {
    let floods: [fn() -> Vec<Sender>; 3] = [
        || vec![sender(3_750_000, |_| 2)],
        || vec![sender(3_750_000, |ms| 100 + ms as u32 / 100)],
        || {
            vec![
                sender(1_250_000, |_| 2),
                sender(1_250_000, |_| 3),
                sender(1_250_000, |_| 4),
            ]
        },
    ];
    for flood in floods {
        let mut rig = Rig::new(50);
        let mut senders = vec![modest()];
        senders.extend(flood());
        let before = rig.run(2, &mut senders);
        assert!(before[0].0 < 120_000, "it harms: {before:?}");
        rig.run(4, &mut senders);
        assert!(rig.port.times_set_aside() > 0);
        let after = rig.run(30, &mut senders);
        assert!(after[0].0 >= 124_500 && after[0].1 > 2000, "{after:?}");
        let others: u64 = after[1..].iter().map(|(rate, _)| rate).sum();
        assert!(others > RATE * 8 / 10, "little is left unused: {after:?}");
        assert!(
            after[1..].iter().all(|(_, answered)| *answered == 0),
            "{after:?}"
        );
        assert!(rig.sink.policed > 0);
    }
}

#[test]
fn plain_flows_keep_what_they_need_with_flows_set_aside() {
    let mut rig = Rig::new(50);
    let mut senders = [modest(), sender(3_750_000, |_| 2), sender(1_500_000, |_| 3)];
    senders[2].carried = Carried::Foreign;
    rig.run(8, &mut senders);
    let after = rig.run(10, &mut senders);
    assert!(after[0].0 >= 124_500, "{after:?}");
    assert!(after[2].0 >= 1_400_000, "{after:?}");
    assert!(
        after[1].0 >= RATE / 40,
        "the least part of the link: {after:?}"
    );
}

#[test]
fn who_sends_less_comes_back_and_who_goes_on_stays() {
    let mut rig = Rig::new(50);
    let mut senders = [modest(), sender(3_750_000, |_| 2)];
    rig.run(6, &mut senders);
    assert_eq!(rig.port.times_set_aside(), 1);
    senders[1].rate = 1_250_000;
    rig.run(4, &mut senders);
    let back = rig.run(2, &mut senders);
    assert!(back[1].1 > 1000, "{back:?}");
    // Again, but sooner than the first time.
    senders[1].rate = 3_750_000;
    rig.run(3, &mut senders);
    assert_eq!(rig.port.times_set_aside(), 2);
    for _ in 0..10 {
        let on = rig.run(2, &mut senders);
        assert_eq!(on[1].1, 0, "{on:?}");
    }
    assert_eq!(rig.port.times_set_aside(), 2);
}

#[test]
fn flows_that_starve_no_other_are_not_judged() {
    // More than the capacity, but with equal rates.
    let mut rig = Rig::new(50);
    let flows: [fn(u64) -> u32; 4] = [|_| 1, |_| 2, |_| 3, |_| 4];
    let mut equals = flows.map(|flow| sender(1_000_000, flow));
    rig.run(20, &mut equals);
    assert_eq!(rig.port.times_set_aside(), 0);
    // One flow has nearly everything, but the queue is short.
    let mut rig = Rig::new(50);
    let mut unequals = [modest(), sender(2_300_000, |_| 2)];
    rig.run(20, &mut unequals);
    assert_eq!(rig.port.times_set_aside(), 0);
    // A law with long intervals must be given time.
    let mut rig = Rig::new(800);
    let mut slow = [modest(), sender(3_750_000, |_| 2)];
    rig.run(4, &mut slow);
    assert_eq!(rig.port.times_set_aside(), 0);
}

#[test]
fn a_fall_of_the_rate_takes_time_to_show() {
    let mut rig = Rig::new(50);
    let mut senders = [modest(), sender(2_300_000, |_| 2)];
    rig.run(5, &mut senders);
    let fall = |rig: &mut Rig, rate| {
        let now = Instant::from_millis(rig.ms);
        let _ = rig.port.set_rate(now, Some(rate));
    };
    fall(&mut rig, 0);
    rig.run(10, &mut senders);
    fall(&mut rig, RATE / 4);
    rig.run(3, &mut senders);
    assert_eq!(rig.port.times_set_aside(), 0);
}

#[test]
fn a_table_full_of_strikes_forgets_them() {
    let mut record = Record::default();
    for _ in 0..10 {
        record.set_aside();
    }
    assert_eq!((record.strikes, record.aside), (MOST_STRIKES, 320));
    record.aside = 0;
    for _ in 0..MOST_STRIKES {
        record.forgive();
    }
    assert!(record.is_clean());
}

/// Max-min fairness by its definition: sort the flows, then give each in turn an equal part of
/// the rest.
fn oracle(capacity: u64, flows: &[u64]) -> f64 {
    let mut sorted: Vec<f64> = flows.iter().map(|bytes| *bytes as f64).collect();
    sorted.sort_by(f64::total_cmp);
    let mut left = capacity as f64;
    for (index, bytes) in sorted.iter().enumerate() {
        let equal = left / (sorted.len() - index) as f64;
        if *bytes > equal {
            return equal;
        }
        left -= bytes;
    }
    f64::INFINITY
}

proptest! {
    #[test]
    fn shares_are_max_min_fair(
        capacity in 0u64..1 << 40,
        flows in prop::collection::vec(0u64..1 << 36, 1..60),
    ) {
        let share = fair_share(capacity, || flows.iter().copied());
        let exact = oracle(capacity, &flows);
        if share == u64::MAX {
            prop_assert!(exact.is_infinite());
        } else {
            prop_assert!((share as f64 - exact).abs() <= 2.0 + exact * 0.01, "{share} {exact}");
        }
    }

    /// With any input, nothing overflows, and no flow is set aside for longer than the maximum.
    #[test]
    fn is_bounded(
        steps in prop::collection::vec(
            (0u64..400, any::<u16>(), any::<u32>(), any::<bool>()), 1..400,
        ),
    ) {
        let mut rig = Rig::new(50);
        let mut ms = 1;
        for (gap, flow, bytes, heard) in steps {
            ms += gap;
            let now = Instant::from_millis(ms);
            let arrival = Arrival {
                bytes: bytes >> (flow % 24),
                flow_hash: u32::from(flow),
                carried: if heard { VCP } else { Carried::Foreign },
            };
            rig.port.arrive(now, arrival, 0, &mut rig.sink);
            let _ = rig.port.poll(now, &mut rig.sink);
        }
    }
}
