//! A modem behind the router whose rate is not the configured one: the router measures it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cards::{Cards, next_line};

/// What hosts see while more packets arrive than the modem can carry.
#[derive(Debug)]
struct Seen {
    /// Round trips in milliseconds.
    p50: f64,
    p90: f64,
    /// Bits per second that arrive.
    goodput: f64,
}

/// Sends 33 Mbit/s for some seconds, and measures in the second half of this time.
fn flood(cards: &Cards, seconds: u64) -> Seen {
    let from = cards.lan.udp("10.0.1.2:0".parse().unwrap()).unwrap();
    let to = cards.wan.udp("203.0.113.2:0".parse().unwrap()).unwrap();
    from.connect(to.local_addr().unwrap()).unwrap();
    let wait = Duration::from_millis(10);
    to.set_read_timeout(Some(wait)).unwrap();
    let start = Instant::now();
    let half = Duration::from_secs(seconds) / 2;
    let is_over = AtomicBool::new(false);
    let (mut rtts, bytes) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) {
                // Packets that are due: one of 1200 bytes each 290 us.
                while sent * 290 < start.elapsed().as_micros() {
                    // If a queue on the way is full, it is lost as any other.
                    let _ = from.send(&[0; 1200]);
                    sent += 1;
                }
                // Packets of the next millisecond are not due yet.
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let receiver = scope.spawn(|| {
            let (mut bytes, mut packet) = (0, [0; 2000]);
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(length) = to.recv(&mut packet)
                    && start.elapsed() > half
                {
                    bytes += length + 28;
                }
            }
            bytes
        });
        let mut rtts = Vec::new();
        while start.elapsed() < 2 * half {
            let rtt = Cards::ping(&cards.lan, cards.hosts.wan[0].parse().unwrap());
            if start.elapsed() > half {
                rtts.push(rtt.as_secs_f64() * 1e3);
            }
            // Pings sample the queue, without filling it.
            std::thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Relaxed);
        (rtts, receiver.join().unwrap())
    });
    rtts.sort_by(f64::total_cmp);
    Seen {
        p50: rtts[rtts.len() / 2],
        p90: rtts[rtts.len() * 9 / 10],
        goodput: bytes as f64 * 8.0 / half.as_secs_f64(),
    }
}

/// A modem of 20 Mbit/s with a buffer of 200 ms, and a configured rate 30 % above it.
#[test]
fn a_queue_in_a_slower_modem_is_shown_and_avoided() {
    let mut cards = Cards::new();
    cards.let_ping();
    cards.does("tc qdisc add dev wan0 root tbf rate 20mbit burst 3000 limit 500000");
    let typed = "rate = \"26Mbit\"\ncontroller = \"vcp+bise\"\nprobe = \"203.0.113.2\"";
    cards.configure("", typed);
    cards.setup();
    cards.start();
    let seen = flood(&cards, 4);
    let shown = cards.link("wan")["delay_behind_ms"].as_f64().unwrap();
    println!("{seen:?}, shown {shown}");
    assert!(seen.p50 > 100.0 && shown > 100.0, "{seen:?} {shown}");
    let said = next_line(cards.router(), "behind the port");
    assert!(said.contains("lower `rate`, or add `floor`"), "{said}");

    cards.configure("", &format!("{typed}\nfloor = \"5Mbit\""));
    cards.reload();
    let seen = flood(&cards, 10);
    let rate = cards.link("wan")["rate_bps"].as_f64().unwrap();
    println!("{seen:?}, rate {rate}");
    assert!(seen.p50 < 20.0 && seen.p90 < 60.0, "{seen:?}");
    assert!(seen.goodput > 17e6, "{seen:?}");
    assert!((10e6..26e6).contains(&rate), "{rate}");

    // Without `floor`, the port has its own rate again.
    cards.configure("", typed);
    cards.reload();
    assert_eq!(cards.link("wan")["rate_bps"].as_f64(), Some(26e6));
}
