//! A naive reference: every packet ever sent is examined again for each ACK.

use proptest::prelude::*;

use super::*;

const SIZE: u16 = 1000;
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Out,
    Acked,
    Lost,
    /// Lost, but acknowledged later.
    Spurious,
}

#[derive(Default)]
struct Judge {
    /// Number, send time, state.
    packets: Vec<(u64, Instant, Is)>,
    largest: Option<u64>,
    /// Lost packets with the time of their loss, while this is remembered.
    remembered: Vec<(u64, Instant)>,
    /// Packet at which persistent congestion was last found: the next run begins there.
    congested_at: u64,
}

impl Judge {
    fn bytes_in_flight(&self) -> u64 {
        let out = self.packets.iter().filter(|p| p.2 == Is::Out).count();
        out as u64 * u64::from(SIZE)
    }

    /// Newly acknowledged and spurious numbers.
    fn ack(&mut self, numbers: &BTreeSet<u64>) -> (Vec<u64>, u64) {
        let (mut acked, mut spurious) = (Vec::new(), 0);
        for (number, _, is) in &mut self.packets {
            if !numbers.contains(number) {
                continue;
            }
            match is {
                Is::Out => {
                    *is = Is::Acked;
                    acked.push(*number);
                }
                Is::Lost => {
                    *is = Is::Spurious;
                    spurious += u64::from(self.remembered.iter().any(|r| r.0 == *number));
                }
                Is::Acked | Is::Spurious => {}
            }
        }
        self.largest = self.largest.max(numbers.last().copied());
        (acked, spurious)
    }

    /// Newly lost numbers and the next loss time, literally by RFC 9002 §6.1.
    fn lose(&mut self, now: Instant, packets: u64, delay: Duration) -> (Vec<u64>, Option<Instant>) {
        let (mut lost, mut next) = (Vec::new(), None);
        let Some(largest) = self.largest else {
            return (lost, next);
        };
        for (number, sent_at, is) in &mut self.packets {
            if *is != Is::Out || *number > largest {
                continue;
            }
            let due = *sent_at + delay;
            if *number + packets <= largest || due <= now {
                *is = Is::Lost;
                lost.push(*number);
                self.remembered.push((*number, now));
            } else {
                next = Some(next.map_or(due, |n: Instant| n.min(due)));
            }
        }
        (lost, next)
    }

    /// RFC 9002 §7.6.2 for the packets just `lost`: walks back from each to the last one that
    /// arrived.
    fn congested(&mut self, lost: &[u64], first: Option<Instant>, span: Duration) -> bool {
        let mut found = false;
        for &end in lost {
            let run: Vec<_> = self
                .packets
                .iter()
                .rev()
                .skip_while(|p| p.0 > end)
                .take_while(|p| p.2 == Is::Lost && p.0 >= self.congested_at)
                .filter(|p| first.is_some_and(|first| p.1 >= first))
                .collect();
            if let (Some(last), Some(earliest)) = (run.first(), run.last())
                && last.0 == end
                && last.1 - earliest.1 > span
            {
                self.congested_at = end;
                found = true;
            }
        }
        found
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send {
        count: u8,
        gap_us: u32,
    },
    /// Acknowledge according to these bits, downwards from a number near the newest.
    Ack {
        back: u8,
        bits: Vec<bool>,
        wait_us: u32,
    },
    Timer,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1u8..20, 0u32..40_000).prop_map(|(count, gap_us)| Step::Send { count, gap_us }),
        (
            0u8..30,
            prop::collection::vec(prop::bool::weighted(0.7), 1..60),
            0u32..60_000
        )
            .prop_map(|(back, bits, wait_us)| Step::Ack {
                back,
                bits,
                wait_us
            }),
        Just(Step::Timer),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn equals_the_naive_judge(steps in steps()) {
        let mut subject = LossDetector::new();
        let mut judge = Judge::default();
        let mut rtt = RttEstimator::new();
        let mut now = at(1);
        let mut next = 0u64;
        let mut came_out = BTreeSet::new();
        let mut any_spurious = false;
        for step in steps {
            match step {
                Step::Send { count, gap_us } => {
                    for _ in 0..count {
                        now += Duration::from_micros(u64::from(gap_us));
                        prop_assert!(subject.on_sent(next, packet(now, SIZE, next)));
                        judge.packets.push((next, now, Is::Out));
                        next += 1;
                    }
                    continue;
                }
                Step::Ack { back, bits, wait_us } => {
                    let Some(top) = next.checked_sub(1 + u64::from(back)) else { continue };
                    now += Duration::from_micros(u64::from(wait_us));
                    let numbers: BTreeSet<u64> = bits.iter().enumerate()
                        .filter(|(_, bit)| **bit)
                        .filter_map(|(i, _)| top.checked_sub(i as u64))
                        .collect();
                    if numbers.is_empty() {
                        continue;
                    }
                    let mut acked = Vec::new();
                    let newly = subject.on_ack(ranges(&numbers), |n, p| {
                        assert_eq!(n, p.frames);
                        acked.push(n);
                    }).unwrap();
                    let (mut expected, spurious) = judge.ack(&numbers);
                    expected.reverse();
                    prop_assert_eq!(&acked, &expected);
                    prop_assert_eq!(newly.bytes, acked.len() as u64 * u64::from(SIZE));
                    prop_assert_eq!(newly.largest.map(|l| l.0), acked.first().copied());
                    prop_assert_eq!(newly.spurious, spurious);
                    any_spurious |= judge.packets.iter().any(|p| p.2 == Is::Spurious);
                    for n in acked {
                        prop_assert!(came_out.insert(n), "{} came out twice", n);
                    }
                    if let Some(sent_at) = newly.largest_sent_at {
                        rtt.update(now, now - sent_at, Duration::ZERO);
                    }
                }
                Step::Timer => {
                    let Some(due) = subject.loss_time() else { continue };
                    now = now.max(due);
                }
            }
            let (packets, delay) = (
                subject.reordering().packets(),
                subject.reordering().time(&rtt),
            );
            let mut lost = Vec::new();
            let report = subject.detect(now, &rtt, MAX_ACK_DELAY, |n, _| lost.push(n));
            judge.remembered.retain(|r| now - r.1 <= rtt.pto_base() * 3);
            let (expected, due) = judge.lose(now, packets, delay);
            prop_assert_eq!(&lost, &expected);
            prop_assert_eq!(report.bytes, lost.len() as u64 * u64::from(SIZE));
            prop_assert_eq!(report.largest.map(|l| l.0), lost.last().copied());
            prop_assert_eq!(subject.loss_time(), due);
            prop_assert_eq!(subject.sent().bytes_in_flight(), judge.bytes_in_flight());
            let span = (rtt.pto_base() + MAX_ACK_DELAY) * 3;
            let congested = judge.congested(&lost, rtt.first_sample_at(), span);
            // Once a loss proved spurious, the subject may start a run later than necessary,
            // but never earlier.
            let agrees = congested == report.persistent_congestion;
            prop_assert!(agrees || (any_spurious && congested));
            for n in lost {
                prop_assert!(came_out.insert(n), "{} came out twice", n);
            }
        }
    }
}
