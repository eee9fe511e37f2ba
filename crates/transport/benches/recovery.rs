//! The cost of loss recovery per packet: acknowledgements over long, fat and lossy paths, received
//! ranges, and the pacer.

use core::{hint::black_box, ops::RangeInclusive};
use std::collections::VecDeque;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use pathmark_cc::PacketState;
use pathmark_transport::{
    Duration, Ecn, Instant,
    ack::{AckDelay, ReceivedRanges},
    recovery::{Pacer, PathNumber, Probe, Recovery, SentPacket},
    wire::SpaceId,
};

/// Packets between two ACK frames.
const PER_ACK: u64 = 256;
const RTT: Duration = Duration::from_millis(720);

/// A sender in the steady state of a full window, and the receiver's view of its packets.
struct Flow {
    recovery: Recovery<[u64; 3]>,
    received: ReceivedRanges,
    /// Packets in flight.
    path: VecDeque<u64>,
    /// One packet in this many is lost; 0 means none.
    lose_every: u64,
    next: u64,
    now: Instant,
    gap: Duration,
}

impl Flow {
    fn new(window: u64, lose_every: u64) -> Self {
        let mut recovery = Recovery::new(true, Instant::ZERO);
        recovery.on_handshake_confirmed();
        let mut flow = Self {
            recovery,
            received: ReceivedRanges::default(),
            path: VecDeque::new(),
            lose_every,
            next: 0,
            now: Instant::from_nanos(1),
            gap: RTT / u32::try_from(window).unwrap_or(u32::MAX),
        };
        for _ in 0..window {
            flow.send();
        }
        // After two windows, losses are remembered and forgotten at the same rate.
        for _ in 0..4 * window / PER_ACK {
            flow.round();
        }
        flow
    }

    fn send(&mut self) {
        self.now += self.gap;
        let packet = SentPacket {
            sent_at: self.now,
            state: PacketState::default(),
            size: 1452,
            ack_eliciting: true,
            in_flight: true,
            shim: true,
            probe: Probe::Nothing,
            path: PathNumber::default(),
            ecn: Ecn::NotEct,
            frames: [self.next; 3],
        };
        self.recovery.on_sent(SpaceId::Data, self.next, packet);
        self.path.push_back(self.next);
        self.next += 1;
    }

    /// Sends 256 packets and delivers 256, which one ACK frame with up to 512 ranges reports.
    fn round(&mut self) -> u64 {
        for _ in 0..PER_ACK {
            self.send();
            if let Some(number) = self.path.pop_front()
                && (self.lose_every == 0 || number % self.lose_every != 0)
            {
                self.received.insert(number);
            }
        }
        let mut resolved = 0;
        let ranges = self.received.descending().take(512);
        let outcome = self.recovery.on_ack(
            self.now,
            SpaceId::Data,
            ranges,
            Duration::ZERO,
            |_, _, packet| resolved += packet.frames[0] & 1,
        );
        debug_assert!(outcome.is_ok());
        resolved
    }
}

fn acks(c: &mut Criterion) {
    let mut group = c.benchmark_group("recovery/sent_and_acked");
    group.throughput(Throughput::Elements(PER_ACK));
    for (name, window, lose_every) in [
        ("1k in flight", 1_000, 0),
        ("100k in flight", 100_000, 0),
        ("600k in flight", 600_000, 0),
        ("100k in flight, 1 % lost, 512 ranges", 100_000, 100),
        ("600k in flight, 5 % lost, 512 ranges", 600_000, 20),
    ] {
        let mut flow = Flow::new(window, lose_every);
        group.bench_function(name, |b| b.iter(|| black_box(flow.round())));
    }
    group.finish();
}

/// The cost of an ACK frame with 512 ranges that contains nothing new, as in a flood.
fn stale(c: &mut Criterion) {
    let mut flow = Flow::new(100_000, 100);
    let ranges: Vec<RangeInclusive<u64>> = flow.received.descending().take(512).collect();
    c.bench_function("recovery/stale ACK of 512 ranges", |b| {
        b.iter(|| {
            let outcome = flow.recovery.on_ack(
                flow.now,
                SpaceId::Data,
                ranges.iter().cloned(),
                Duration::ZERO,
                |_, _, _| {},
            );
            black_box(outcome.is_ok())
        });
    });
}

fn received(c: &mut Criterion) {
    let mut group = c.benchmark_group("ack");
    group.throughput(Throughput::Elements(1000));
    for (name, lose_every, swap) in [
        ("insert and schedule, in order", u64::MAX, false),
        ("insert and schedule, 1 % missing", 100, false),
        ("insert and schedule, pairs swapped", u64::MAX, true),
    ] {
        let mut ranges = ReceivedRanges::default();
        let mut delay = AckDelay::new(Duration::from_millis(25));
        let mut next = 1u64;
        group.bench_function(name, |b| {
            b.iter(|| {
                for _ in 0..1000 {
                    next += 1;
                    let number = if swap { next ^ 1 } else { next };
                    if number % lose_every != 0 && ranges.insert(number) {
                        delay.on_packet(Instant::ZERO, number, true, false, &ranges);
                    }
                }
                delay.on_ack_sent(next);
                black_box(ranges.len())
            });
        });
    }
    group.finish();
}

fn pacer(c: &mut Criterion) {
    c.bench_function("pacer/batch", |b| {
        b.iter_batched_ref(
            || {
                let mut pacer = Pacer::new(Instant::ZERO, 1452);
                pacer.set(Instant::ZERO, 0, None, Some(1_250_000_000));
                (pacer, Instant::ZERO)
            },
            |(pacer, now)| {
                for _ in 0..100 {
                    let batch = pacer.batch();
                    if let Some(at) = pacer.next(*now, batch) {
                        *now = at;
                    }
                    pacer.on_sent(*now, batch);
                }
            },
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, acks, stale, received, pacer);
criterion_main!(benches);
