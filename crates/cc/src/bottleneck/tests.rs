//! Tests on simulated paths with hops without feedback, lossy links, and changing routes.

mod declared;

use super::*;
use crate::testing::{acked, drawn, lost, ms};

const STEP: Step = Step {
    partly: 4,
    unknown: None,
};
const MTU: u64 = 1500;
const RTT: Duration = Duration::from_millis(100);

/// A path simulated by round trips, with a sender of `window` packets, a hop that forwards
/// `capacity` packets, and random loss.
struct Path {
    watch: HiddenHop,
    round: u64,
    number: u64,
    window: u64,
    capacity: u64,
    /// Random loss in 10^-6, in bursts of `burst` packets.
    loss: u64,
    burst: u64,
    random: u64,
    /// Queueing delay ahead in ms, depending on the window in packets.
    queue: fn(u64) -> u64,
    appeared: Option<TakeOver>,
    gone: u32,
    sent: u64,
    dropped: u64,
}

impl Path {
    fn new(window: u64, seed: u64) -> Self {
        Self {
            watch: HiddenHop::new(Instant::ZERO, MTU, STEP),
            round: 0,
            number: 0,
            window,
            capacity: u64::MAX,
            loss: 0,
            burst: 1,
            random: seed,
            queue: |_| 0,
            appeared: None,
            gone: 0,
            sent: 0,
            dropped: 0,
        }
    }

    fn draw(&mut self) -> u64 {
        drawn(&mut self.random) % 1_000_000
    }

    fn find(&mut self, finding: Finding) {
        match finding {
            Finding::Clear => {}
            Finding::Appeared(begin) => {
                self.appeared = Some(begin);
                self.window = begin.window / MTU;
            }
            Finding::Gone => self.gone += 1,
        }
    }

    /// Simulates one round trip. A trial's pace limits the sender.
    fn run_round(&mut self) {
        let begin = RTT * u32::try_from(self.round).unwrap();
        let paced = self.watch.pace().map_or(u64::MAX, |pace| pace / 10 / MTU);
        let packets = self.window.min(paced).max(2);
        let queue = (self.queue)(packets);
        let mut passed = 0;
        let mut burst = 0;
        for n in 0..packets {
            let now = Instant::ZERO + begin + RTT * u32::try_from(n).unwrap() / packets as u32;
            self.number += 1;
            self.watch.on_sent(self.number + packets);
            self.sent += 1;
            if burst == 0 && self.draw() < self.loss / self.burst {
                burst = self.burst;
            }
            let corrupted = burst > 0;
            burst = burst.saturating_sub(1);
            // The hop's capacity is spread evenly over the round trip.
            let room = self.capacity.saturating_mul(n + 1) / packets;
            let overflows = passed >= room.max(1).min(self.capacity);
            passed += u64::from(!overflows);
            let window = self.window * MTU;
            let finding = if corrupted || overflows {
                self.dropped += u64::from(overflows);
                let lost = lost(self.number, self.number + packets, RTT);
                self.watch.on_loss(now, &lost, ms(200), window)
            } else {
                let mut ack = acked(self.number, MTU, RTT + ms(queue));
                ack.min_rtt = RTT;
                self.watch.on_ack(now, &ack, ms(200), window)
            };
            self.find(finding);
        }
        self.round += 1;
    }

    fn run(&mut self, rounds: u64) -> &mut Self {
        for _ in 0..rounds {
            self.run_round();
        }
        self
    }

    /// Runs until a hop appears, in fewer than `rounds` round trips.
    #[track_caller]
    fn find_hop(&mut self, rounds: u64) -> TakeOver {
        while self.appeared.is_none() {
            self.run_round();
            assert!(self.round < rounds, "{} {}", self.window, self.capacity);
        }
        self.appeared.unwrap()
    }

    fn now(&self) -> Instant {
        Instant::ZERO + RTT * u32::try_from(self.round).unwrap()
    }
}

#[test]
fn a_hop_that_drops_a_tenth_or_more_is_found_and_given_no_more_than_it_takes() {
    for (window, capacity) in [(200, 180), (200, 100), (500, 250), (400, 40), (40, 20)] {
        let mut path = Path::new(window, 1);
        path.run(20);
        path.capacity = capacity;
        let begin = path.find_hop(80);
        let most = (capacity + 2).min(window * 7 / 10) * MTU;
        assert!(begin.window <= most, "{begin:?} {capacity}");
        assert!(begin.proven <= window * 7 / 10 * MTU, "{begin:?}");
        assert!(path.watch.rules());
    }
}

#[test]
fn random_loss_is_attested_and_routers_go_on_ruling() {
    let losses = [1_000, 10_000, 20_000, 50_000, 90_000].map(|loss| (loss, 1));
    for (loss, burst) in losses.into_iter().chain([(20_000, 5)]) {
        let mut misjudged = 0;
        for seed in 1..=10 {
            let mut path = Path::new(300, seed);
            (path.loss, path.burst) = (loss, burst);
            path.run(400);
            misjudged += u32::from(path.appeared.is_some());
        }
        assert!(misjudged <= 2, "{loss} in bursts of {burst}: {misjudged}");
    }
}

#[test]
fn more_loss_than_can_be_random_is_cubics_if_nobody_declares_it() {
    // Attesting a tenth takes more packets than a trial has at so few per round trip.
    for (window, loss) in [(12, 100_000), (300, 200_000)] {
        let mut path = Path::new(window, 3);
        path.loss = loss;
        path.run(200);
        let (appeared, gone) = (path.appeared, path.gone);
        assert!(path.watch.rules(), "{appeared:?} {gone} {:?}", path.watch);
    }
    let mut path = Path::new(300, 3);
    path.loss = 200_000;
    path.watch.declare(200_000, RTT);
    path.run(100);
    assert!(!path.watch.rules(), "declared, and attested");
}

#[test]
fn an_interruption_says_nothing_about_capacity() {
    for rounds in [1, 3] {
        let mut path = Path::new(300, 7);
        path.run(30);
        path.capacity = 0;
        let dead = path.window;
        path.window = 300;
        // Recovery declares all these packets lost at once.
        let now = Instant::ZERO + RTT * 30;
        let mut gap = lost(path.number + 300, path.number + 300, RTT);
        gap.packets = 300 * rounds;
        let finding = path.watch.on_loss(now, &gap, ms(200), dead * MTU);
        path.find(finding);
        path.capacity = u64::MAX;
        path.run(100);
        assert!(path.appeared.is_none() && path.watch.pace().is_none());
    }
}

#[test]
fn cubic_hands_back_once_its_window_is_well_beyond_the_last_loss() {
    let mut path = Path::new(200, 11);
    path.run(10);
    path.capacity = 100;
    path.run(40);
    assert!(path.watch.rules());
    assert!(path.window <= 100, "{}", path.window);
    path.capacity = u64::MAX;
    path.window = 120;
    path.run(30);
    assert_eq!(path.gone, 0, "within a quarter");
    path.window = 300;
    path.run(30);
    assert_eq!(path.gone, 1);
    assert!(!path.watch.rules());
}

#[test]
fn losses_that_a_router_announces_are_no_hidden_hops() {
    let mut path = Path::new(200, 1);
    path.run(20);
    path.capacity = 100;
    for _ in 0..60 {
        path.watch.on_over(path.now());
        path.run_round();
    }
    assert!(!path.watch.rules() && path.watch.pace().is_none());
    path.run(60);
    assert!(path.watch.rules(), "they are no longer announced");
}

/// This could be a sender misled by losses during its start. After that, losses in its own router's
/// short queue must not keep CUBIC in control longer than other routers' feedback would.
#[test]
fn losses_that_a_router_announces_do_not_keep_cubic_ruling() {
    for announces in [true, false] {
        let mut path = Path::new(200, 1);
        path.run(20);
        path.capacity = 100;
        path.find_hop(80);
        path.capacity = path.window * 9 / 10;
        let before = path.dropped;
        for _ in 0..40 {
            if announces {
                path.watch.on_over(path.now());
            }
            path.run_round();
        }
        assert!(path.dropped > before + 100, "it drops all the time");
        assert_eq!(path.gone, u32::from(announces));
        assert_eq!(path.watch.rules(), !announces);
    }
}

/// TTLs that show a hop without feedback don't say anything about its capacity.
#[test]
fn a_hop_that_shows_never_takes_the_window_by_itself() {
    for shown in [None, Some(false), Some(true)] {
        let mut path = Path::new(100, 13);
        path.watch.set_partly(shown, RTT);
        path.run(100);
        assert!(!path.watch.rules(), "{shown:?}");
        path.loss = 10_000;
        path.run(200);
        assert!(!path.watch.rules(), "{shown:?}, with random loss");
        path.capacity = 50;
        path.run(60);
        assert!(path.watch.rules(), "{shown:?}, a queue that overflows");
    }
}

#[test]
fn more_loss_than_can_be_random_takes_a_few_round_trips_to_tell() {
    for capacity in [10, 30, 60] {
        let mut path = Path::new(100, 1);
        path.run(20);
        path.capacity = capacity;
        let begin = path.find_hop(41);
        assert!(begin.window <= (capacity + 2) * MTU, "{begin:?}");
    }
}

#[test]
fn chance_in_random_loss_shows_no_hop() {
    let cases = [
        (1, 10_000),
        (2, 15_000),
        (3, 15_000),
        (4, 15_000),
        (5, 18_000),
    ];
    for (seed, loss) in cases {
        let mut path = Path::new(4000, seed);
        path.loss = loss;
        path.run(500);
        assert_eq!(path.appeared, None, "seed {seed}, {loss} in 10^-6");
    }
}

/// A start after packets that were sent one by one. Because they arrived as slowly as they were
/// sent, they don't show a narrow hop, and the full grant may be used. Packets spread by a hop do
/// show one.
#[test]
fn packets_that_were_sent_slowly_do_not_narrow_a_grant() {
    for (sent_us, queued_us, allowed) in [(1000, 0, 400_000), (0, 1000, 131_250)] {
        let mut watch = HiddenHop::new(Instant::ZERO, MTU, STEP);
        for number in 0..10 {
            let mut ack = acked(number, MTU, RTT + Duration::from_micros(number * queued_us));
            (ack.min_rtt, ack.srtt) = (RTT, RTT);
            ack.sent_at = Instant::from_micros(number * sent_us);
            ack.forward_delay = Some(Duration::from_micros(number * queued_us));
            watch.on_first_ack(&ack);
        }
        watch.allow(400_000, RTT);
        assert_eq!(watch.granted_window(RTT), allowed);
    }
}
