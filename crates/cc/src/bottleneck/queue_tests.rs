//! Tests of hidden hop detection at a queue shared with other senders, packet by packet.

use super::*;
use crate::testing::{acked, at, drawn, lost, ms};

const MTU: u64 = 1500;
const RTT: Duration = Duration::from_millis(100);
/// Time that a packet takes to leave the queue in µs, at 12 Mbit/s.
const SLOT: u64 = 1000;

/// A hop that serves one packet per slot. Others send a packet with a probability of `others`, and
/// this sender in every fifth slot.
struct Hop {
    watch: HiddenHop,
    random: u64,
    /// Packets that fit into the queue.
    room: u64,
    /// Probabilities in 10^-3.
    others: u64,
    loss: u64,
    queue: u64,
    slot: u64,
    number: u64,
    dropped: u64,
    appeared: Option<TakeOver>,
    /// True if losses were correlated with long delays beyond doubt.
    leant: bool,
}

impl Hop {
    fn new(seed: u64, step: Step) -> Self {
        Self {
            watch: HiddenHop::new(Instant::ZERO, MTU, step),
            random: seed,
            room: 1 << 20,
            others: 780,
            loss: 0,
            queue: 0,
            slot: 0,
            number: 0,
            dropped: 0,
            appeared: None,
            leant: false,
        }
    }

    fn draw(&mut self) -> u64 {
        drawn(&mut self.random) % 1000
    }

    /// Runs until this sender has sent `packets`.
    fn run(&mut self, packets: u64) {
        while self.number < packets {
            self.slot += 1;
            self.queue = self.queue.saturating_sub(1);
            if self.draw() < self.others {
                self.queue = self.room.min(self.queue + 1);
            }
            if self.slot.is_multiple_of(5) {
                self.send();
            }
        }
    }

    fn send(&mut self) {
        self.number += 1;
        let now = Instant::ZERO + RTT + Duration::from_micros(self.slot * SLOT);
        let window = 20 * MTU;
        self.watch.on_sent(self.number + 20);
        let full = self.queue >= self.room;
        self.dropped += u64::from(full);
        let finding = if full || self.draw() < self.loss {
            let lost = lost(self.number, self.number + 20, RTT);
            self.watch.on_loss(now, &lost, ms(200), window)
        } else {
            let queued = Duration::from_micros(self.queue * SLOT);
            let mut ack = acked(self.number, MTU, RTT + queued);
            (ack.min_rtt, ack.srtt, ack.forward_delay) = (RTT, RTT, Some(queued));
            self.queue += 1;
            self.watch.on_ack(now, &ack, ms(200), window)
        };
        self.leant |= self.watch.leaning_is_loss();
        if let Finding::Appeared(begin) = finding {
            self.appeared = Some(begin);
        }
    }
}

const ANY_STEP: Step = Step {
    partly: 4,
    unknown: None,
};

/// About 2 % are dropped in addition to 1 % of random loss. This is too little for a trial, and a
/// trial by one sender among several wouldn't change it.
#[test]
fn drops_of_a_short_queue_next_to_random_loss_are_no_random_loss() {
    for seed in 1..=20 {
        let mut hop = Hop::new(seed, ANY_STEP);
        (hop.room, hop.loss, hop.others) = (16, 10, 800);
        hop.run(20_000);
        let share = hop.dropped * 1000 / hop.number;
        assert!((8..=50).contains(&share), "{seed}: {share} of 1000");
        assert!(hop.appeared.is_some(), "{seed}: {share} of 1000");
    }
}

#[test]
fn random_loss_beside_a_queue_that_comes_and_goes_is_random() {
    for seed in 1..=20 {
        for loss in [10, 30, 50] {
            let mut hop = Hop::new(seed, ANY_STEP);
            (hop.loss, hop.others) = (loss, 700);
            hop.run(20_000);
            assert!(!hop.leant, "{seed}: {loss} of 1000");
        }
    }
}

/// While delays are short, one ACK acknowledges up to forty packets, and two while they are long. A
/// tenth of the packets is lost.
#[test]
fn random_loss_between_uneven_acknowledgements_is_random() {
    let leans = |seed: u64| {
        let mut hop = Hop::new(seed, ANY_STEP);
        let mut following = Following::new();
        let (mut number, mut arrived) = (0, 0);
        for n in 0..20_000 {
            let short = n / 100 % 2 == 0;
            let together = if short { 1 + hop.draw() % 40 } else { 2 };
            while arrived < together {
                number += 1;
                if hop.draw() < 100 {
                    following.on_loss(number);
                } else {
                    arrived += 1;
                }
            }
            let delay = hop.draw() * 1000 + if short { 0 } else { 5_000_000 };
            following.on_delay(number, arrived, delay, true);
            arrived = 0;
        }
        following.leans()
    };
    assert!(!(0..100).any(leans));
}

/// Delays are short while a router reports that its own queue is full, and losses at such times are
/// ignored. The packets must be ignored, too. Otherwise, all counted losses would seem to follow
/// long delays.
#[test]
fn packets_of_times_whose_losses_do_not_count_do_not_count_either() {
    let leans = |counts_while_announced: bool| {
        let mut hop = Hop::new(7, ANY_STEP);
        let mut following = Following::new();
        for number in 0..20_000 {
            let announced = number / 50 % 2 == 0;
            if !announced && hop.draw() < 50 {
                following.on_loss(number);
                continue;
            }
            let delay = hop.draw() * 1000 + if announced { 0 } else { 5_000_000 };
            let counts = !announced || counts_while_announced;
            following.on_delay(number, 1, delay, counts);
        }
        following.leans()
    };
    assert!(!leans(false));
    assert!(leans(true), "the delays are such that it matters");
}

/// A hop carries 100 packets per second, less than the XCP routers behind it would grant. Therefore
/// its queue makes round trips longer, not the path.
#[test]
fn a_queue_that_stands_is_no_reason_for_a_larger_window() {
    let step = Step {
        partly: 4,
        unknown: Some(8),
    };
    let mut watch = HiddenHop::new(Instant::ZERO, MTU, step);
    let mut arrive = |from: u64, to: u64, queued: fn(u64) -> u64| {
        for number in from..to {
            let now = at(100 + 10 * number);
            let queued = ms(queued(number));
            let mut ack = acked(number, MTU, RTT + queued);
            (ack.min_rtt, ack.srtt, ack.forward_delay) = (RTT, RTT + queued, Some(queued));
            ack.sent_at = at(10 * number);
            watch.on_ack(now, &ack, ms(200), 1000 * MTU);
        }
        watch.cap() / MTU
    };
    assert_eq!(arrive(1, 100, |_| 0), 80, "eight times ten packets");
    // Up to 130 packets arrive in a round trip of 1.3 s.
    let held = arrive(100, 600, |number| (10 * (number - 100)).min(1200));
    assert!(held <= 130 * 5 / 4 + 1, "{held}");
}
