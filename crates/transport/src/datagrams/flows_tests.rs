use core::num::NonZeroU8;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::{Duration, Ecn};

const LENGTH: usize = 1000;

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

fn datagram(first: u8, ecn: Ecn) -> FlowDatagram {
    let mut data = vec![0; LENGTH];
    data[0] = first;
    FlowDatagram {
        data: data.into(),
        ecn,
        ce: Some((1, 7)),
    }
}

/// Flows behind a bottleneck that sends one datagram per millisecond.
struct Bed {
    datagrams: Datagrams,
    counters: Vec<Arc<QueueCounters>>,
}

impl Bed {
    fn new(flows: usize, bytes: usize) -> Self {
        let mut datagrams = Datagrams::new(DatagramsConfig {
            send_bytes: bytes,
            ..DatagramsConfig::default()
        });
        let open = |_| {
            let counters = Arc::<QueueCounters>::default();
            datagrams.open_flow(Arc::clone(&counters));
            counters
        };
        let counters = (0..flows).map(open).collect();
        Self {
            datagrams,
            counters,
        }
    }

    fn flows(&mut self) -> &mut Flows {
        self.datagrams.flows_mut().unwrap()
    }

    fn dropped(&self) -> Vec<u64> {
        self.counters.iter().map(|c| c.counts().dropped).collect()
    }

    /// Adds unmarked datagrams to a flow.
    fn fill(&mut self, flow: u8, count: usize) {
        (0..count).for_each(|_| self.push(at(0), flow, Ecn::NotEct));
    }

    fn push(&mut self, now: Instant, flow: u8, ecn: Ecn) {
        let datagram = datagram(flow, ecn);
        self.datagrams.send_in(now, flow.into(), datagram);
    }

    /// Sends a datagram. Returns its flow, and whether it is marked.
    fn send(&mut self, now: Instant) -> Option<(u8, bool)> {
        let mut packet = [0; LENGTH + 3];
        let mut w = Writer::new(&mut packet);
        self.datagrams.write(now, &mut w);
        let sent = w.position() > 0;
        sent.then(|| (packet[3], packet[4] == 7))
    }

    /// Runs for some seconds with these rates, in datagrams per second. Returns how many
    /// datagrams of each flow are sent, and how many of these are marked.
    fn run(&mut self, rates: &[(u64, Ecn)], seconds: u64) -> BTreeMap<u8, [u64; 2]> {
        let mut counts = BTreeMap::<u8, [u64; 2]>::new();
        for micros in 0..seconds * 1_000_000 {
            for (flow, (rate, ecn)) in (0..).zip(rates) {
                if micros % (1_000_000 / rate) == 0 {
                    self.push(at(micros), flow, *ecn);
                }
            }
            if micros % 1_000 == 0
                && let Some((flow, marked)) = self.send(at(micros))
            {
                let counts = counts.entry(flow).or_default();
                counts[0] += 1;
                counts[1] += u64::from(marked);
            }
        }
        counts
    }

    fn p99_ms(&self, flow: usize) -> u64 {
        let counts = self.counters[flow].counts();
        let mut seen = 0;
        let bounds = QueueCounts::BOUNDS.into_iter().chain([u64::MAX]);
        let mut bounds = bounds.zip(counts.waits).skip_while(|(_, waits)| {
            seen += waits;
            seen * 100 < counts.sent * 99
        });
        bounds.next().unwrap().0
    }
}

#[test]
fn flows_that_send_too_much_share_equally_and_wait_for_about_an_interval_at_most() {
    let mut bed = Bed::new(4, 1 << 20);
    let not = Ecn::NotEct;
    let counts = bed.run(&[(500, not), (1000, not), (4000, Ecn::Ect0), (50, not)], 20);
    for flow in 0..3 {
        let [sent, _] = counts[&flow];
        assert!((6_100..=6_600).contains(&sent), "{counts:?}");
    }
    assert_eq!(counts[&0][1] + counts[&1][1], 0, "{counts:?}");
    assert!(counts[&2][1] > 0, "{counts:?}");
    for flow in 0..3 {
        // The first datagram of a flow still waits for its turn.
        let counts = bed.counters[flow].counts();
        assert!(bed.p99_ms(flow) <= 200, "{flow}: {counts:?}");
        let most = Duration::from_millis(110) * counts.sent as u32;
        assert!(counts.waited < most, "{counts:?}");
    }
    // The flow that sends less than its share loses nothing, and waits for at most one packet.
    assert!(counts[&3][0] >= 999, "{counts:?}");
    let slow = bed.counters[3].counts();
    assert_eq!((slow.dropped, bed.p99_ms(3)), (0, 1), "{slow:?}");
    let dropped: u64 = bed.dropped().iter().sum();
    assert_eq!(dropped, bed.datagrams.counts().unsent);
}

/// For a sender that doesn't respond to marks, the queue is bounded as well.
#[test]
fn scalable_senders_are_marked_from_a_millisecond_on() {
    let mut bed = Bed::new(2, 1 << 20);
    let counts = bed.run(&[(520, Ecn::Ect1), (2_000, Ecn::NotEct)], 2);
    let [sent, marked] = counts[&0];
    // Waits grow by 40 ms per second.
    assert!(marked * 10 > sent * 8, "{counts:?}");
    let mut bed = Bed::new(2, 1 << 20);
    let counts = bed.run(&[(450, Ecn::Ect1), (2_000, Ecn::NotEct)], 2);
    assert_eq!(counts[&0][1], 0, "{counts:?}");
    assert!(bed.p99_ms(0) <= 2, "{}", bed.p99_ms(0));
}

#[test]
fn the_flow_that_takes_most_memory_pays_for_it() {
    let mut bed = Bed::new(3, 50 * (LENGTH + OVERHEAD));
    for (flow, count) in [(1, 1), (0, 100), (2, 16)] {
        bed.fill(flow, count);
    }
    assert_eq!(bed.flows().bytes(), 50 * (LENGTH + OVERHEAD));
    assert_eq!(bed.dropped(), [67, 0, 0]);
    assert_eq!(bed.datagrams.counts().unsent, 67);
}

#[test]
fn a_closed_flow_sends_what_waits_and_is_forgotten() {
    let mut bed = Bed::new(2, 1 << 20);
    bed.fill(0, 3);
    for flow in [0, 1] {
        bed.flows().close(flow);
    }
    bed.fill(1, 1);
    for _ in 0..3 {
        assert_eq!(bed.send(at(0)), Some((0, false)));
    }
    assert_eq!(bed.send(at(0)), None);
    assert!(!bed.datagrams.wants_to_send());
    bed.fill(0, 1);
    assert!(!bed.datagrams.wants_to_send(), "it is gone");
}

#[test]
fn what_the_path_carries_no_more_goes_from_each_flow() {
    let mut bed = Bed::new(2, 1 << 20);
    for flow in [0, 1, 0] {
        bed.fill(flow, 1);
        let mut short = datagram(flow, Ecn::NotEct);
        (short.data, short.ce) = (vec![flow].into(), None);
        bed.datagrams.send_in(at(0), flow.into(), short);
    }
    bed.datagrams.drop_longer_than(LENGTH);
    assert_eq!(bed.datagrams.counts().unsent, 0);
    bed.datagrams.drop_longer_than(LENGTH - 1);
    assert_eq!(bed.datagrams.counts().unsent, 3);
    let sent: Vec<_> = std::iter::from_fn(|| bed.send(at(0))).collect();
    assert_eq!(sent.len(), 1, "all in one packet");
    bed.fill(0, 1);
    bed.datagrams.drop_unsent();
    assert!(!bed.datagrams.wants_to_send());
}

/// The next packet belongs to the side that has sent less per flow or stream.
#[test]
fn flows_and_streams_have_equal_shares() {
    for (flows, streams) in [(1, 1), (3, 1), (1, 4)] {
        let mut datagrams = Datagrams::new(DatagramsConfig::default());
        let mut bytes = (0, 0);
        for _ in 0..10_000 {
            let turn = match datagrams.goes_first() {
                true => (1_000, 300),
                false => (0, 1_400),
            };
            datagrams.on_turn(turn, (flows, streams));
            bytes = (bytes.0 + turn.0, bytes.1 + turn.1);
        }
        let ratio = bytes.0 as f64 / bytes.1 as f64;
        let expected = (flows as f64 / streams as f64).min(1_000.0 / 300.0);
        assert!((ratio / expected - 1.0).abs() < 0.01, "{ratio} {expected}");
    }
    // A side that sends by itself gains and owes nothing.
    let mut datagrams = Datagrams::new(DatagramsConfig::default());
    for _ in 0..100 {
        assert!(datagrams.goes_first());
        datagrams.on_turn((1_000, 0), (1, 0));
    }
    assert!(datagrams.goes_first());
    datagrams.on_turn((1_000, 0), (1, 1));
    assert!(!datagrams.goes_first());
    datagrams.on_turn((0, 9_000), (1, 1));
    datagrams.on_turn((0, 1_400), (0, 1));
    datagrams.on_turn((1_000, 0), (1, 1));
    assert!(!datagrams.goes_first());
}

/// A flow or a stream that sends less than its share is always first, even with ten on the
/// other side.
#[test]
fn a_sender_below_its_share_does_not_wait() {
    let mut datagrams = Datagrams::new(DatagramsConfig::default());
    for _ in 0..100 {
        assert!(datagrams.goes_first());
        datagrams.on_turn((1_200, 0), (1, 10));
        assert!(!datagrams.goes_first());
        for _ in 0..20 {
            datagrams.on_turn((0, 1_400), (0, 10));
        }
    }
    datagrams.on_turn((1_200, 0), (1, 1));
    for _ in 0..100 {
        assert!(!datagrams.goes_first());
        datagrams.on_turn((0, 1_200), (10, 1));
        assert!(datagrams.goes_first());
        for _ in 0..20 {
            datagrams.on_turn((1_200, 0), (10, 0));
        }
        datagrams.on_turn((1, 0), (10, 1));
    }
}

/// A share includes frame headers, so a flow of empty datagrams gets the same share as others.
#[test]
fn short_datagrams_share_equally() {
    let mut bed = Bed::new(3, 1 << 20);
    let mut empty = datagram(0, Ecn::NotEct);
    (empty.data, empty.ce) = (Bytes::new(), None);
    for flow in [1, 2] {
        bed.fill(flow, 10);
    }
    for _ in 0..10_000 {
        bed.datagrams.send_in(at(0), 0, empty.clone());
    }
    for _ in 0..30 {
        bed.send(at(0));
    }
    let sent = [0, 1, 2].map(|flow| bed.counters[flow].counts().sent);
    assert!(sent[1] >= 9 && sent[2] >= 9, "{sent:?}");
    // The packets of other flows have little room left.
    assert!((2_000..10_000).contains(&sent[0]), "{sent:?}");
}

/// Datagrams with and without a flow don't keep each other from sending.
#[test]
fn datagrams_with_and_without_a_flow_take_turns() {
    let mut bed = Bed::new(2, 1 << 20);
    for _ in 0..20 {
        bed.datagrams.send(vec![9; LENGTH].into());
        bed.fill(0, 1);
        bed.fill(1, 1);
    }
    let sent: Vec<_> = (0..20).map(|_| bed.send(at(0)).unwrap().0).collect();
    let number = |flow: u8| sent.iter().filter(|of| **of == flow).count();
    assert_eq!(number(9), 10, "{sent:?}");
    assert!((4..=6).contains(&number(0)), "{sent:?}");
}

/// The MTU has risen and fallen since the path last had datagrams.
#[test]
fn a_datagram_that_became_too_long_holds_up_no_other() {
    let mut bed = Bed::new(2, 1 << 20);
    bed.datagrams.drop_longer_than(LENGTH - 100);
    bed.fill(0, 1);
    bed.datagrams.drop_longer_than(LENGTH - 10);
    assert_eq!(bed.datagrams.counts().unsent, 1);
    assert!(!bed.datagrams.wants_to_send());
}

#[test]
fn flows_without_datagrams_take_little_memory() {
    let mut bed = Bed::new(50, 1 << 20);
    for flow in 0..50 {
        bed.fill(flow, 100);
        while bed.send(at(0)).is_some() {}
    }
    let (flows, room) = bed.flows().room();
    assert!(flows == 50 && room <= 50 * 16, "{flows} {room}");
    // The connection ends before its flows.
    for flow in 0..50 {
        bed.fill(flow, 10);
    }
    bed.datagrams.stop();
    for flow in 0..50 {
        bed.flows().close(flow);
    }
    assert_eq!(bed.flows().room(), (0, 0));
}

/// A mark only counts once its datagram is sent.
#[test]
fn marks_that_never_leave_do_not_count() {
    let mut bed = Bed::new(1, 1 << 20);
    for _ in 0..3 {
        bed.push(at(0), 0, Ecn::Ect1);
    }
    let mut short = [0; LENGTH / 2];
    bed.datagrams
        .write(at(50_000), &mut Writer::new(&mut short));
    bed.datagrams.drop_unsent();
    let counts = bed.counters[0].counts();
    assert_eq!((counts.marked, counts.dropped, counts.sent), (0, 3, 0));
}

#[test]
fn flows_share_by_weight_and_so_does_memory() {
    let weight = |weight| NonZeroU8::new(weight).unwrap();
    let mut bed = Bed::new(3, 60 * (LENGTH + OVERHEAD));
    let flows = bed.flows();
    flows.set_weight(0, weight(3));
    flows.set_weight(9, weight(5));
    let classic = Ecn::Ect0;
    let counts = bed.run(&[(1000, classic), (1000, classic), (100, classic)], 20);
    // 100 of 1000 belong to the third, and the others share 900.
    let sent = |flow| counts[&flow][0];
    assert!((13_300..=13_700).contains(&sent(0)), "{counts:?}");
    assert!((4_400..=4_700).contains(&sent(1)), "{counts:?}");
    assert!(sent(2) >= 1_998, "{counts:?}");
    // Most of the time, the first two have waiting datagrams, and the third has none.
    let busy = |flow: usize| bed.counters[flow].counts().busy;
    assert!(busy(0) > Duration::from_secs(19) && busy(0) <= Duration::from_secs(20));
    assert!(busy(2) < Duration::from_secs(4), "{:?}", busy(2));
    // A weight may change while datagrams wait, which updates the sum.
    let flows = bed.flows();
    assert_eq!(flows.busy(), 4);
    flows.set_weight(1, weight(200));
    assert_eq!(flows.busy(), 203);
    flows.clear();
    assert_eq!(flows.busy(), 0);
}
