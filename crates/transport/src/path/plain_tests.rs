//! Paths that drop shims, and paths that only lose packets.

use super::*;
use crate::{Duration, Instant};

/// Sends packet `number`, which is lost or arrives at once.
fn send(path: &mut PlainPath, now: Instant, (number, shim): (u64, bool), lost: bool) {
    path.on_sent(number, shim);
    if lost {
        let _ = path.on_lost(now, number, shim);
    } else {
        path.on_acked(number, shim);
    }
}

struct Path {
    plain: PlainPath,
    now: Instant,
    next: u64,
}

impl Path {
    fn new() -> Self {
        Self {
            plain: PlainPath::new(),
            now: Instant::from_millis(1),
            next: 0,
        }
    }

    /// Sends `flight` packets, then two probes, of which those that `passes` selects arrive.
    /// Returns true if the path became plain.
    fn round(&mut self, flight: u8, passes: impl Fn(bool) -> bool) -> bool {
        let sent = (0..flight + 2).map(|i| {
            let shim = self.plain.wants_shim(self.now, i.checked_sub(flight));
            let number = self.next;
            self.plain.on_sent(number, shim);
            self.next += 1;
            (number, shim)
        });
        let sent: Vec<(u64, bool)> = sent.collect();
        self.now += Duration::from_millis(100);
        for &(number, shim) in sent.iter().rev().filter(|p| passes(p.1)) {
            self.plain.on_acked(number, shim);
        }
        let mut turned = false;
        for &(number, shim) in sent.iter().filter(|p| !passes(p.1)) {
            turned |= self.plain.on_lost(self.now, number, shim);
        }
        turned | self.plain.settle(self.now)
    }
}

#[test]
fn three_pairs_make_a_path_plain() {
    let mut path = Path::new();
    assert!(!path.round(10, |_| true));
    assert!(!path.round(10, |shim| !shim));
    assert!(!path.round(10, |shim| !shim));
    assert!(path.plain.passes_shims());
    assert!(path.round(10, |shim| !shim), "third pair");
    assert!(!path.plain.passes_shims() && !path.plain.wants_shim(path.now, None));
}

#[test]
fn a_shim_that_gets_through_starts_over() {
    let mut path = Path::new();
    for _ in 0..20 {
        assert!(!path.round(10, |shim| !shim));
        assert!(!path.round(10, |shim| !shim));
        assert!(!path.round(1, |_| true));
    }
    // If everything is lost, this is an outage.
    for _ in 0..20 {
        assert!(!path.round(10, |_| false));
    }
    assert!(path.plain.passes_shims());
}

#[test]
fn plain_paths_are_tried_again_ever_more_rarely() {
    let mut path = Path::new();
    while !path.round(3, |shim| !shim) {}
    let mut waits = Vec::new();
    for _ in 0..7 {
        let from = path.now;
        while !path.plain.wants_shim(path.now, None) {
            path.now += Duration::from_secs(1);
        }
        waits.push((path.now - from).as_secs());
        let mut tries = 0;
        // One shim at a time, three in total.
        while !path.round(3, |shim| !shim) {
            tries += 1;
        }
        assert_eq!(tries, 2);
        assert!(!path.plain.passes_shims());
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600]);
    path.now += Duration::from_secs(600);
    assert!(!path.round(3, |_| true));
    assert!(path.plain.passes_shims());
}

/// While a single shim tests the path, losses of packets without one don't count.
#[test]
fn plain_packets_that_are_lost_end_no_trial() {
    let mut path = Path::new();
    while !path.round(3, |shim| !shim) {}
    path.now += Duration::from_secs(30);
    assert!(path.plain.wants_shim(path.now, None));
    let first = path.next;
    path.plain.on_sent(first, true);
    for number in first + 1..first + 10 {
        path.plain.on_sent(number, false);
        assert!(!path.plain.on_lost(path.now, number, false));
        assert!(path.plain.is_tried() && !path.plain.wants_shim(path.now, None));
    }
    path.plain.on_acked(first, true);
    assert!(path.plain.passes_shims());
}

#[test]
fn plain_packets_from_before_the_first_shim_prove_nothing() {
    let mut path = Path::new();
    for n in 0..10 {
        send(&mut path.plain, path.now, (n, n >= 5), n >= 5);
    }
    assert!(!path.plain.settle(path.now));
    assert!(path.plain.passes_shims());
}

#[test]
fn late_news_of_earlier_packets_is_ignored() {
    let mut path = Path::new();
    while !path.round(3, |shim| !shim) {}
    for number in 0..path.next {
        path.plain.on_acked(number, true);
        assert!(!path.plain.passes_shims(), "sent before the path was plain");
    }
    let mut path = Path::new();
    path.plain.on_sent(0, true);
    path.plain.on_sent(1, true);
    path.plain.on_sent(2, false);
    path.plain.on_acked(2, false);
    path.plain.on_acked(1, true);
    for _ in 0..5 {
        path.plain.on_lost(path.now, 0, true);
        path.plain.on_acked(2, false);
        assert!(!path.plain.settle(path.now));
    }
}

#[test]
fn shims_lost_with_many_plain_packets_prove_nothing() {
    // In each round, one of eight packets has a shim. All shims are lost, as are the plain packets
    // that `lost` selects.
    let rounds = |lost: fn(u64) -> bool| {
        let mut path = Path::new();
        path.plain.on_sent(0, true);
        path.plain.on_acked(0, true);
        for round in 0..12u64 {
            let numbers = 1 + 8 * round..9 + 8 * round;
            for number in numbers.clone() {
                path.plain.on_sent(number, number % 8 == 1);
            }
            for number in numbers.clone().filter(|n| n % 8 != 1 && !lost(*n)) {
                path.plain.on_acked(number, false);
            }
            for number in numbers.filter(|n| n % 8 == 1 || lost(*n)) {
                path.plain.on_lost(path.now, number, number % 8 == 1);
            }
            path.plain.settle(path.now);
        }
        path.plain.passes_shims()
    };
    assert!(rounds(|n| n % 2 == 0), "half of all is lost");
    assert!(!rounds(|_| false));
    assert!(!rounds(|n| n % 8 == 2), "a seventh: eleven shims in a row");
}

/// A path without losses begins to lose half of all packets, so lost shims aren't surprising. They
/// are, however, if the other packets get through.
#[test]
fn heavy_loss_after_a_good_time_does_not_make_a_path_plain() {
    let plain_after = |lost: fn(u64) -> bool| {
        let mut path = Path::new();
        for number in 0..2000 {
            send(&mut path.plain, path.now, (number, number % 8 == 0), false);
        }
        (0..40u64).position(|round| {
            for n in 0..8 {
                let number = 2000 + 8 * round + n;
                let (sent, loses) = ((number, n == 0), n == 0 || lost(n));
                send(&mut path.plain, path.now, sent, loses);
            }
            path.plain.settle(path.now)
        })
    };
    assert_eq!(plain_after(|n| n % 2 == 1), None);
    assert_eq!(plain_after(|n| n > 4), None);
    assert!(plain_after(|n| n == 1).is_some());
    assert_eq!(plain_after(|_| false), Some(2), "the third");
}

/// Every nth packet has a shim, and packets are lost at random. With thousands of shims per second,
/// three consecutive shims are soon lost.
#[test]
fn random_loss_does_not_make_a_path_plain_on_which_few_packets_bear_shims() {
    for (every, loss_ppm) in [(3, 50_000), (8, 10_000), (8, 50_000), (8, 300_000)] {
        let mut path = PlainPath::new();
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let now = Instant::from_millis(1);
        for number in 0..2_000_000_u64 {
            let shim = number % every == 0 && path.wants_shim(now, None);
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            send(&mut path, now, (number, shim), state % 1_000_000 < loss_ppm);
            assert!(!path.settle(now), "1 in {every}, {loss_ppm} ppm: {number}");
        }
        // If the path begins to drop shims, this is nevertheless detected.
        let found = (2_000_000..).position(|number| {
            let shim = number % every == 0;
            send(&mut path, now, (number, shim), shim);
            path.settle(now)
        });
        assert!(found.is_some_and(|packets| packets < 160), "{found:?}");
    }
}
