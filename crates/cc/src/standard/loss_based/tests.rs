//! The common behaviour of all loss-based laws, tested with NewReno.

use crate::base::Duration;
use crate::law::Controller;
use crate::metrics::Phase;
use crate::standard::cubic::CubicController;
use crate::standard::newreno::NewReno;
use crate::testing::{acked, at, lost, ms, sent};

const RTT: Duration = Duration::from_millis(100);

#[test]
fn initial_window_follows_rfc_9002() {
    assert_eq!(NewReno::newreno(1200, None).window(), 12_000);
    assert_eq!(NewReno::newreno(1472, None).window(), 14_720);
    assert_eq!(NewReno::newreno(9000, None).window(), 18_000);
}

#[test]
fn one_cut_per_recovery_period() {
    // [9002 7.3.1 leave-slow-start] [9002 7.3.2 halve]
    let mut reno = NewReno::newreno(1000, Some(40));
    reno.on_loss(at(100), &lost(5, 39, RTT));
    assert_eq!(reno.window(), 20_000);
    assert_eq!(reno.metrics().phase, Phase::Recovery);
    // The rest of the same flight causes no further cut and no growth.
    reno.on_loss(at(110), &lost(39, 50, RTT));
    reno.on_ack(at(110), &acked(38, 10_000, RTT));
    assert_eq!(reno.window(), 20_000);
    // A packet sent after the cut ends the period, so the next loss cuts again.
    reno.on_ack(at(200), &acked(40, 1000, RTT));
    assert_eq!(reno.window(), 20_050);
    // A packet of the flight before the cut, whose loss is noticed only now, is already covered by
    // the cut.
    reno.on_loss(at(205), &lost(39, 60, RTT));
    assert_eq!(reno.window(), 20_050);
    reno.on_loss(at(210), &lost(41, 60, RTT));
    assert_eq!(reno.window(), 10_025);
}

#[test]
fn congestion_experienced_cuts_once_per_round() {
    // [9002 7.3.1 leave-slow-start]
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
    // [9002 7.6.2 minimum-window]
    let mut reno = NewReno::newreno(1000, Some(10));
    reno.on_sent(at(0), &sent(9, 10_000));
    reno.on_ack(at(100), &acked(9, 10_000, RTT));
    assert_eq!(reno.window(), 20_000);
    assert_eq!(reno.metrics().ssthresh, None);
    reno.on_persistent_congestion(at(200));
    assert_eq!(reno.window(), 2000);
    assert_eq!(reno.metrics().ssthresh, Some(10_000));
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
    // A loss can be undone only once, and not after a collapse.
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

/// After an idle time, CUBIC's curve continues as if the time had not passed (RFC 9438 §5.8).
#[test]
fn idle_time_is_none_of_the_curves() {
    let window_after = |idle: u64| {
        let mut cubic = CubicController::cubic(1000, Some(100));
        cubic.on_loss(at(100), &lost(5, 99, RTT));
        for n in 0..20 {
            cubic.on_ack(at(200 + 10 * n), &acked(100 + n, 1000, RTT));
        }
        if idle > 0 {
            cubic.on_restart(at(390 + idle), ms(idle + 50));
        }
        for n in 0..20 {
            cubic.on_ack(at(400 + idle + 10 * n), &acked(120 + n, 1000, RTT));
        }
        cubic.window()
    };
    let without = window_after(0);
    assert!(window_after(60_000).abs_diff(without) <= 100, "{without}");
}

/// A mark that was covered by a loss's cut remains covered if the loss turns out to be spurious.
#[test]
fn a_covered_mark_keeps_the_cut_of_a_spurious_loss() {
    let mut reno = NewReno::newreno(1000, Some(40));
    reno.on_loss(at(100), &lost(5, 39, RTT));
    reno.on_congestion_experienced(at(110), at(50), 39);
    reno.on_spurious_loss(at(150));
    assert_eq!(reno.window(), 20_000);
}

/// The window at a handover accounts for losses of earlier packets, and growth continues.
#[test]
fn losses_from_before_a_handover_cut_no_more() {
    let mut cubic = CubicController::cubic(1000, Some(100));
    cubic.on_sent(at(0), &sent(99, 1000));
    cubic.take_over_below(at(100), 40_000, 80_000);
    cubic.on_loss(at(110), &lost(60, 105, RTT));
    cubic.on_congestion_experienced(at(120), at(90), 105);
    assert_eq!(cubic.window(), 40_000);
    cubic.on_ack(at(130), &acked(70, 1000, RTT));
    assert_eq!(cubic.window(), 41_000);
    cubic.on_loss(at(210), &lost(101, 140, RTT));
    assert_eq!(cubic.window(), 28_700);
}
