use proptest::prelude::*;

use super::*;
use crate::law::Limit;
use crate::testing::{acked, at, lost, ms, sent};

const MTU: u64 = 1000;

/// A path with a fixed round trip, of which one packet in a fixed number comes back marked.
struct Path {
    law: Prague,
    now: Instant,
    next: u64,
    /// Share of marked packets, and the remainder.
    share: f64,
    owed: f64,
}

impl Path {
    fn new(window: u64) -> Self {
        let mut law = Prague::new(1000, None);
        law.cubic.take_over(window * MTU);
        Self {
            law,
            now: at(0),
            next: 0,
            share: 0.0,
            owed: 0.0,
        }
    }

    fn send(&mut self) -> u64 {
        let first = self.next;
        for _ in 0..(self.law.window() / MTU).max(1) {
            let sent = Sent {
                limit: Limit::Window,
                ..sent(self.next, MTU)
            };
            self.law.on_sent(self.now, &sent);
            self.next += 1;
        }
        first
    }

    /// A round trip of `rtt`, with an ACK for every other packet. Returns its window in packets.
    fn round(&mut self, rtt: Duration, min: Duration) -> f64 {
        let window = self.law.window() as f64 / MTU as f64;
        let (mut number, last) = (self.send(), self.next);
        let (began, packets) = (self.now, last - number);
        self.now += rtt;
        let start = self.now;
        while number < last {
            let count = (last - number).min(2);
            number += count;
            self.owed += self.share * count as f64;
            let marked = self.owed as u64;
            self.owed -= marked as f64;
            let done = packets - (last - number);
            let part = (rtt / 4).mul_f64(done as f64 / packets as f64);
            self.now = start + part;
            let ack = Acked {
                packets: count,
                marked,
                sent_at: began,
                min_rtt: min,
                ..acked(number - 1, count * MTU, rtt)
            };
            self.law.on_ack(self.now, &ack);
        }
        self.now = start;
        window
    }

    /// The mean window over the last of `rounds`.
    fn mean(&mut self, share: f64, rtt: Duration, rounds: u32) -> f64 {
        self.share = share;
        for _ in 0..rounds {
            self.round(rtt, rtt);
        }
        (0..rounds).map(|_| self.round(rtt, rtt)).sum::<f64>() / f64::from(rounds)
    }
}

/// W = 2/p packets, because each round trip adds a packet for what is not marked, and takes p/2 of
/// the window away. Below 25 ms, the rate is that of a path of 25 ms. The window is up to a quarter
/// larger, because the first mark after a round trip takes a while to come.
#[test]
fn the_steady_state_is_the_law_of_scalable_senders() {
    for rtt in [5, 10, 25, 50, 100] {
        for share in [0.02, 0.05, 0.2] {
            let whole = 2.0 * (1.0 - share) / share;
            let expected = whole * rtt as f64 / rtt.max(25) as f64;
            if expected < 4.0 {
                continue;
            }
            let mean = Path::new(50).mean(share, ms(rtt), 2000);
            let ratio = mean / expected;
            assert!(
                (0.9..1.3).contains(&ratio),
                "{rtt} ms, {share}: {mean} of {expected}"
            );
        }
    }
}

/// The first mark halves the window. A round trip later, it is what arrived in between. After that,
/// α begins at 0 and rises to the share by a sixteenth per round, so that cuts are small.
#[test]
fn the_first_mark_drains_the_queue_and_the_window_becomes_what_the_path_carries() {
    let mut path = Path::new(100);
    path.share = 0.1;
    path.round(ms(50), ms(50));
    let cut = path.law.window();
    assert!((50 * MTU..52 * MTU).contains(&cut), "{cut}");
    path.round(ms(50), ms(50));
    let carried = path.law.window();
    assert!((85 * MTU..105 * MTU).contains(&carried), "{carried}");
    for round in 1..=16 {
        let before = path.law.window();
        path.round(ms(50), ms(50));
        let alpha = 0.1 * (1.0 - (15.0f64 / 16.0).powi(round));
        let least = before as f64 * (1.0 - alpha / 2.0) - MTU as f64;
        let after = path.law.window() as f64;
        assert!(
            (least..before as f64 + 1.1 * MTU as f64).contains(&after),
            "{round}: {after}"
        );
    }
}

/// One mark per second is nothing but an occasional loss of half a packet's share.
#[test]
fn a_rare_mark_costs_little() {
    let mut path = Path::new(100);
    path.mean(0.02, ms(50), 200);
    let before = path.law.window();
    for round in 0..200 {
        path.share = if round % 20 == 0 { 0.01 } else { 0.0 };
        path.round(ms(50), ms(50));
    }
    assert!(path.law.window() > before + 100 * MTU);
}

/// Without marks, the law is CUBIC: slow start, losses, growth.
#[test]
fn without_marks_it_is_cubic() {
    let (mut prague, mut cubic) = (Prague::new(1000, None), CubicController::cubic(1000, None));
    let laws: [&mut dyn Controller; 2] = [&mut prague, &mut cubic];
    let windows = laws.map(|law| {
        let mut windows = Vec::new();
        for number in 0..4000u64 {
            let now = at(number * 5);
            law.on_sent(now, &sent(number, MTU));
            if number % 700 == 600 {
                law.on_loss(now, &lost(number - 5, number, ms(40)));
            } else if number > 10 {
                law.on_ack(now, &acked(number - 10, MTU, ms(40)));
            }
            windows.push((law.window(), law.pacing_rate()));
        }
        windows
    });
    assert!(windows[0] == windows[1]);
}

/// After a loss, CUBIC's growth lasts until the next mark.
#[test]
fn a_loss_cuts_as_in_cubic_and_a_mark_returns() {
    let mut path = Path::new(100);
    path.mean(0.04, ms(50), 100);
    assert_eq!(path.law.metrics().ruling, "prague");
    let (window, last) = (path.law.window(), path.next - 1);
    path.law.on_loss(path.now, &lost(last, last, ms(50)));
    assert_eq!(path.law.window(), window * 7 / 10);
    assert_eq!(path.law.metrics().ruling, "cubic");
    // Marks of the round trip with the loss don't cut again.
    path.share = 1.0;
    path.law.on_ack(
        path.now,
        &Acked {
            marked: 1,
            ..acked(last, MTU, ms(50))
        },
    );
    assert_eq!(path.law.window(), window * 7 / 10);
    path.round(ms(50), ms(50));
    path.round(ms(50), ms(50));
    assert_eq!(path.law.metrics().ruling, "prague");
}

/// A queue of 20 ms is one for senders that halve their window.
#[test]
fn marks_of_a_long_queue_count_as_classic_until_they_come_from_a_short_one() {
    let mut path = Path::new(100);
    path.share = 0.02;
    for _ in 0..40 {
        path.round(ms(70), ms(50));
    }
    assert_eq!(path.law.metrics().ruling, "cubic");
    path.share = 1.0;
    let before = path.law.window();
    path.round(ms(70), ms(50));
    path.round(ms(70), ms(50));
    assert!(path.law.window() <= before * 8 / 10);
    path.share = 0.1;
    for _ in 0..40 {
        path.round(ms(51), ms(50));
    }
    assert_eq!(path.law.metrics().ruling, "prague");
}

/// A slow link's single packet waits for long without being a queue.
#[test]
fn a_packet_on_a_slow_link_is_no_classic_queue() {
    let mut path = Path::new(4);
    path.share = 0.3;
    for _ in 0..40 {
        path.round(ms(40), ms(28));
    }
    assert_eq!(path.law.metrics().ruling, "prague");
}

proptest! {
    /// Whatever a receiver claims, the window stays in its range.
    #[test]
    fn any_sequence_of_events_is_survived(
        events in prop::collection::vec((0u8..7, any::<u64>(), any::<u64>()), 1..200),
    ) {
        let mut law = Prague::new(1200, None);
        let mut now = at(0);
        for (event, a, b) in events {
            now += Duration::from_micros(a % 1_000_000);
            match event {
                0 => { law.on_sent(now, &sent(a >> 2, b >> 4)); }
                1 | 2 => {
                    let rtt = Duration::from_nanos(b >> (a % 64));
                    let (packets, marked) = (b % 100, a % 150);
                    let claim = Acked { packets, marked, ..acked(b >> 2, a >> 8, rtt) };
                    law.on_ack(now, &claim);
                }
                3 => law.on_loss(now, &lost(a >> 2, b >> 2, ms(50))),
                4 => law.on_persistent_congestion(now),
                5 => law.on_mtu((a & 0xffff) as u16),
                _ => { law.on_spurious_loss(now); law.on_restart(now, ms(a % 5000)); }
            }
            prop_assert!(law.window() >= 2 && law.window() <= crate::base::arith::MAX_BYTES);
            let _ = (law.pacing_rate(), law.metrics());
        }
    }
}
