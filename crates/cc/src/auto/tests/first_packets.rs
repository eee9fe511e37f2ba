//! The first packets limit a granted start with either law.

use super::*;
use crate::testing::at;

const MTU_BYTES: u64 = MTU as u64;

/// Sends the first ten packets, of which the first returns without any router's feedback.
fn asked() -> (QuickStart<AutoSender>, QuickStartRequest) {
    let mut sender = started();
    let request = question(&mut sender, Instant::ZERO, 0);
    let mut ack = acked(0, MTU_BYTES, RTT);
    ack.in_flight_before = 10 * MTU_BYTES;
    sender.on_ack(at(100), &ack);
    (sender, request)
}

/// The answer arrives before any router's header. Until enough of the first packets have arrived to
/// measure the path's capacity, a grant is limited to an initial window.
#[test]
fn a_grant_that_no_router_steers_waits_for_the_first_packets() {
    let (mut sender, request) = asked();
    let now = at(101);
    let mut nothing = acked(0, 0, RTT);
    (nothing.packets, nothing.rtt) = (0, None);
    sender.on_feedback(now, &approved(&request, 10_000_000), &nothing);
    assert_eq!(sender.metrics().quick_start.unwrap().approved, 1);
    let window = sender.window();
    assert!(window <= 12 * MTU_BYTES, "{window}");
    let most = 12 * MTU_BYTES * 10;
    let pace = sender.pacing_rate();
    assert!(pace <= Some(most), "{pace:?}");

    // They arrive 1 ms apart: 1.2 MB/s, 120 kB per round trip, and seven eighths of this.
    for n in 1..10 {
        let mut ack = acked(n, MTU_BYTES, RTT + ms(n));
        (ack.min_rtt, ack.srtt) = (RTT, RTT);
        ack.in_flight_before = (10 - n) * MTU_BYTES;
        sender.on_ack(now, &ack);
    }
    let window = sender.window();
    assert!((95_000..=125_000).contains(&window), "{window}");
}

/// If all first packets arrive at once, the grant is used.
#[test]
fn first_packets_that_come_at_once_bound_no_grant() {
    let (mut sender, request) = asked();
    let now = at(101);
    for n in 1..10 {
        let mut ack = acked(n, MTU_BYTES, RTT);
        ack.in_flight_before = (10 - n) * MTU_BYTES;
        if n == 1 {
            sender.on_feedback(now, &approved(&request, 10_000_000), &ack);
        }
        sender.on_ack(now, &ack);
    }
    assert!(sender.window() > 900_000, "{}", sender.window());
}

/// Most first packets are lost, so none of the grant is sent.
#[test]
fn a_grant_that_no_router_steers_ends_with_the_loss_of_the_first_packets() {
    let (mut sender, request) = asked();
    let now = at(101);
    let mut ack = acked(1, MTU_BYTES, RTT);
    ack.in_flight_before = 9 * MTU_BYTES;
    sender.on_feedback(now, &approved(&request, 10_000_000), &ack);
    sender.on_ack(now, &ack);
    sender.on_sent(now, &sent(10, MTU_BYTES));
    let mut gone = lost(9, 10, RTT);
    (gone.packets, gone.bytes) = (8, 8 * MTU_BYTES);
    sender.on_loss(now + ms(50), &gone);
    let metrics = sender.metrics().quick_start.unwrap();
    assert_eq!(metrics.revoked, 1);
    assert!(sender.window() <= 10 * MTU_BYTES);
}

/// XCP routers answer, and eight of the first ten packets are lost. The grants, or the rest after
/// the loss, are used as in slow start.
#[test]
fn after_most_first_packets_were_lost_the_window_grows_as_in_a_slow_start() {
    let mut law = AutoSender::new(Instant::ZERO, MTU, None, FallbackLaw::Cubic);
    let heard = xcp(1, 100_000, false).unwrap();
    let now = at(100);
    for n in 0..2 {
        let mut ack = acked(n, MTU_BYTES, RTT);
        ack.in_flight_before = (10 - n) * MTU_BYTES;
        law.on_feedback(now, &heard, &ack);
        law.on_ack(now, &ack);
    }
    let mut gone = lost(9, 12, RTT);
    (gone.packets, gone.bytes) = (8, 8 * MTU_BYTES);
    law.on_loss(now + ms(50), &gone);
    assert!(law.window() <= 10 * MTU_BYTES, "{}", law.window());

    let (mut number, mut window, mut at) = (12, law.window(), at(100));
    for _ in 0..4 {
        // Paced packets arrive as they were sent, so they don't show a hop.
        let packets = window / MTU_BYTES;
        for n in 0..packets {
            number += 1;
            let mut ack = acked(number, MTU_BYTES, RTT);
            ack.sent_at = at;
            ack.in_flight_before = window;
            at += RTT / u32::try_from(packets).unwrap();
            let _ = law.on_sent(at, &sent(number, MTU_BYTES));
            law.on_feedback(at, &heard, &ack);
            law.on_ack(at, &ack);
            let now = law.window();
            assert!(
                now <= 2 * window + 2 * MTU_BYTES,
                "{n}: {now} after {window}"
            );
        }
        window = law.window();
    }
}
