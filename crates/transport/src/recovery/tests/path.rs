//! A sender that retransmits lost data over a simulated path with fixed delay, loss and
//! reordering.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::ack::ReceivedRanges;

/// xorshift64*: pseudorandom loss that is the same everywhere.
struct Dice(u64);

impl Dice {
    fn per_mille(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % 1000
    }
}

#[derive(Default)]
struct Run {
    /// Until all data was acknowledged.
    took: Duration,
    probes: u64,
    sent: u64,
    spurious: u64,
    most_remembered: usize,
    longest_span: usize,
}

/// Sends `pieces` of data in separate packets, one per `gap`, at most `window` in flight, until
/// all are acknowledged. Packets are lost or late with these probabilities. The receiver
/// acknowledges every 8 arrivals with at most 64 ranges.
fn transfer(
    pieces: u64,
    window: u64,
    rtt: Duration,
    gap: Duration,
    loss: u64,
    late: u64,
    lateness: Duration,
) -> Run {
    let mut dice = Dice(1);
    let mut recovery: Recovery<u64> = Recovery::new(true, Instant::ZERO);
    recovery.on_handshake_confirmed();
    recovery.set_max_ack_delay(rtt);
    let mut received = ReceivedRanges::default();
    let (mut next_number, mut next_piece) = (0u64, 0u64);
    let mut repeat: VecDeque<u64> = VecDeque::new();
    let mut done = vec![false; usize::try_from(pieces).unwrap()];
    let mut left = pieces;
    let mut arrivals: BTreeMap<(Instant, u64), ()> = BTreeMap::new();
    let mut acks: VecDeque<(Instant, Vec<core::ops::RangeInclusive<u64>>)> = VecDeque::new();
    let mut since_ack = 0;
    let mut now = Instant::ZERO;
    let mut run = Run::default();
    while left > 0 {
        now += gap;
        assert!(now < at(600_000), "stuck with {left} left");
        let mut out = Vec::new();
        let mut probes = 0;
        while recovery.deadline().is_some_and(|at| at <= now) {
            match recovery.on_timeout(now, |fate, _, p| out.push((fate, p.frames))) {
                Timeout::Probe(_) => probes += Recovery::<u64>::PROBES,
                Timeout::Lost(_) => {}
                Timeout::None => break,
            }
        }
        while let Some((at, _)) = acks.front()
            && *at <= now
        {
            let (_, ranges) = acks.pop_front().unwrap();
            let outcome = recovery
                .on_ack(now, SpaceId::Data, ranges, Duration::ZERO, |fate, _, p| {
                    out.push((fate, p.frames));
                })
                .unwrap();
            run.spurious += outcome.newly.spurious;
        }
        for (fate, piece) in out {
            let seen = &mut done[usize::try_from(piece).unwrap()];
            match fate {
                Fate::Acked if !*seen => {
                    *seen = true;
                    left -= 1;
                }
                Fate::Lost if !*seen => repeat.push_back(piece),
                Fate::Acked | Fate::Lost => {}
            }
        }
        run.probes += u64::from(probes > 0);
        let may = u32::from(recovery.bytes_in_flight() < window * 1000) + u32::from(probes);
        for _ in 0..may {
            let oldest = || {
                let mut iter = recovery.space(SpaceId::Data).sent().iter();
                iter.next().map(|(_, p)| p.frames)
            };
            let piece = match repeat.pop_front() {
                Some(piece) => piece,
                None if next_piece < pieces => {
                    next_piece += 1;
                    next_piece - 1
                }
                None => match oldest().filter(|_| probes > 0) {
                    Some(piece) => piece,
                    None => break,
                },
            };
            recovery.on_sent(SpaceId::Data, next_number, packet(now, 1000, piece));
            run.sent += 1;
            if dice.per_mille() >= loss {
                let is_late = dice.per_mille() < late;
                let extra = if is_late { lateness } else { Duration::ZERO };
                arrivals.insert((now + rtt / 2 + extra, next_number), ());
            }
            next_number += 1;
        }
        while let Some((&(at, number), ())) = arrivals.first_key_value()
            && at <= now
        {
            arrivals.remove(&(at, number));
            received.insert(number);
            since_ack += 1;
        }
        // The receiver's delay timer, when nothing else is in flight.
        if since_ack >= 8 || (since_ack > 0 && arrivals.is_empty()) {
            since_ack = 0;
            acks.push_back((now + rtt / 2, received.descending().take(64).collect()));
        }
        let space = recovery.space(SpaceId::Data);
        run.most_remembered = run.most_remembered.max(space.remembered());
        run.longest_span = run.longest_span.max(space.sent().span());
    }
    run.took = now - Instant::ZERO;
    run
}

/// The loss of a retransmission is detected just as early as any other. The transfer therefore
/// takes little longer than its packets, and only the tail needs probe timeouts.
#[test]
fn lost_retransmissions_cost_a_round_trip_not_a_timeout() {
    let gap = Duration::from_micros(500);
    for loss in [10, 50, 200] {
        let run = transfer(20_000, 4_000, ms(720), gap, loss, 0, Duration::ZERO);
        let least = gap * u32::try_from(run.sent).unwrap();
        let took = run.took;
        assert!(took < least + ms(720) * 9, "{loss}: {took:?} for {least:?}");
        assert!(run.probes <= 6, "{loss}: {} probe timeouts", run.probes);
        assert_eq!(run.spurious, 0);
        assert!(run.sent < 20_000 * 1000 / (1000 - loss) * 102 / 100);
        assert!(run.longest_span <= 6_000, "{}", run.longest_span);
        assert!(run.most_remembered <= 6_000);
    }
}

/// Every tenth packet takes a detour. After a few spurious losses, the thresholds have widened.
#[test]
fn reordering_is_learnt() {
    let gap = Duration::from_micros(500);
    let run = transfer(20_000, 400, ms(100), gap, 0, 100, ms(20));
    assert!(run.spurious > 0 && run.spurious < 60, "{}", run.spurious);
    assert_eq!(run.sent, 20_000 + run.spurious);
}
