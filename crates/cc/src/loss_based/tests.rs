//! What all loss-based laws share, seen through NewReno.

use crate::testing::{acked, lost, ms, sent};
use crate::{Controller, CubicController, Duration, Instant, NewReno, Phase};

const RTT: Duration = Duration::from_millis(100);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

#[test]
fn initial_window_follows_rfc_9002() {
    assert_eq!(NewReno::newreno(1200, None).window(), 12_000);
    assert_eq!(NewReno::newreno(1472, None).window(), 14_720);
    assert_eq!(NewReno::newreno(9000, None).window(), 18_000);
}

#[test]
fn one_cut_per_recovery_period() {
    let mut reno = NewReno::newreno(1000, Some(40));
    reno.on_loss(at(100), &lost(5, 39, RTT));
    assert_eq!(reno.window(), 20_000);
    assert_eq!(reno.metrics().phase, Phase::Recovery);
    // The rest of the same flight: no further cut, no growth.
    reno.on_loss(at(110), &lost(39, 50, RTT));
    reno.on_ack(at(110), &acked(38, 10_000, RTT));
    assert_eq!(reno.window(), 20_000);
    // A packet sent after the cut ends the period; the next loss cuts again.
    reno.on_ack(at(200), &acked(40, 1000, RTT));
    assert_eq!(reno.window(), 20_050);
    // A packet of the flight before the cut that is missed only now is part of what the cut
    // answered.
    reno.on_loss(at(205), &lost(39, 60, RTT));
    assert_eq!(reno.window(), 20_050);
    reno.on_loss(at(210), &lost(41, 60, RTT));
    assert_eq!(reno.window(), 10_025);
}

#[test]
fn congestion_experienced_cuts_once_per_round() {
    let mut reno = NewReno::newreno(1000, Some(40));
    reno.on_congestion_experienced(at(100), at(0), 40);
    reno.on_congestion_experienced(at(150), at(100), 60);
    assert_eq!(reno.window(), 20_000);
    reno.on_congestion_experienced(at(250), at(101), 80);
    assert_eq!(reno.window(), 10_000);
    // Marks are never spurious.
    reno.on_spurious_loss(at(260));
    assert_eq!(reno.window(), 10_000);
}

#[test]
fn slow_start_grows_by_what_is_acknowledged_until_the_threshold() {
    let mut reno = NewReno::newreno(1000, Some(10));
    reno.on_sent(at(0), &sent(9, 10_000));
    reno.on_ack(at(100), &acked(9, 10_000, RTT));
    assert_eq!(reno.window(), 20_000);
    assert_eq!(reno.metrics().ssthresh, None);
    reno.on_persistent_congestion(at(200));
    assert_eq!(
        (reno.window(), reno.metrics().ssthresh),
        (2000, Some(10_000))
    );
    reno.on_ack(at(300), &acked(30, 50_000, RTT));
    assert_eq!(reno.window(), 10_000, "growth stops at the threshold");
    reno.on_ack(at(400), &acked(40, 10_000, RTT));
    assert_eq!(reno.window(), 11_000, "then one datagram per round");
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut reno = NewReno::newreno(1000, Some(10));
    let mut ack = acked(9, 10_000, RTT);
    ack.window_limited = false;
    reno.on_ack(at(100), &ack);
    assert_eq!(reno.window(), 10_000);
}

#[test]
fn a_spurious_loss_is_undone() {
    let mut cubic = CubicController::cubic(1000, Some(100));
    cubic.on_loss(at(100), &lost(5, 99, RTT));
    assert_eq!(cubic.window(), 70_000);
    cubic.on_spurious_loss(at(150));
    assert_eq!(cubic.window(), 100_000);
    assert_eq!(cubic.metrics().phase, Phase::Startup);
    // Nothing to undo twice, and nothing after a collapse.
    cubic.on_spurious_loss(at(160));
    assert_eq!(cubic.window(), 100_000);
    cubic.on_loss(at(300), &lost(105, 120, RTT));
    cubic.on_persistent_congestion(at(400));
    cubic.on_spurious_loss(at(410));
    assert_eq!(cubic.window(), 2000);
}

#[test]
fn the_floor_is_two_datagrams() {
    let mut cubic = CubicController::cubic(1000, Some(1));
    for n in 0..20u64 {
        cubic.on_loss(at(100 * n), &lost(10 * n + 1, 10 * n + 5, RTT));
    }
    assert_eq!(cubic.window(), 2000);
    cubic.on_mtu(1400);
    assert_eq!(cubic.window(), 2800);
}

#[test]
fn slow_start_is_paced_at_twice_the_rate() {
    let mut reno = NewReno::newreno(1000, Some(10));
    assert_eq!(reno.pacing_rate(), None);
    reno.on_ack(at(100), &acked(1, 1000, RTT));
    assert_eq!(reno.pacing_rate(), Some(220_000));
    reno.on_loss(at(100), &lost(5, 9, ms(100)));
    assert_eq!(reno.pacing_rate(), Some(68_750));
}
