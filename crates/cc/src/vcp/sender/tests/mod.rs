//! Tests which law rules, and the effect of losses.

mod ecn;
mod hidden_hops;
mod properties;

use super::VcpSender;
use crate::base::Duration;
use crate::law::{Acked, Controller, Halving, LossRule};
use crate::names::Algorithm;
use crate::signals::{Feedback, VcpFeedback};
use crate::testing::{acked, at, lost, ms, sent};
use crate::vcp::params::VcpParams;
use crate::vcp::wlte::Wlte;

const MTU: u64 = 1500;
const RTT: Duration = Duration::from_millis(100);

fn codes(packets: [u64; 4]) -> Feedback {
    Feedback::Vcp(VcpFeedback {
        t_rho: ms(200),
        hops: 1,
        bise: true,
        ..crate::testing::codes(packets, MTU)
    })
}

fn sender<L: LossRule>(loss_rule: L) -> VcpSender<L> {
    sender_with(100, loss_rule)
}

fn sender_with<L: LossRule>(packets: u32, loss_rule: L) -> VcpSender<L> {
    let params = VcpParams {
        initial_window: Some(packets),
        ..VcpParams::default()
    };
    VcpSender::new("vcp", at(0), 1500, params, loss_rule)
}

fn algorithm(text: &str) -> Box<dyn Controller> {
    Algorithm::parse(text).unwrap().controller(at(0), 1500)
}

fn ack(sender: &mut (impl Controller + ?Sized), now: u64, packets: [u64; 4]) {
    ack_with(sender, now, packets, RTT);
}

fn ack_with<C>(sender: &mut C, now: u64, packets: [u64; 4], rtt: Duration)
where
    C: Controller + ?Sized,
{
    let total: u64 = packets.iter().sum();
    let mut ack = acked(now, total * MTU, rtt);
    ack.packets = total;
    ack.min_rtt = RTT;
    sender.on_feedback(at(now), &codes(packets), &ack);
    sender.on_ack(at(now), &ack);
}

fn plain_ack(now: u64) -> Acked {
    acked(now, MTU, RTT)
}

#[test]
fn cubic_rules_until_the_first_mark() {
    let mut sender = sender(Halving);
    let mut cubic = algorithm("cubic[iw=100]");
    for now in [100, 101, 102] {
        sender.on_ack(at(now), &plain_ack(now));
        cubic.on_ack(at(now), &plain_ack(now));
        assert_eq!(sender.window(), cubic.window());
    }
    // Packets without a code are not a signal.
    ack(&mut sender, 103, [5, 0, 0, 0]);
    assert_eq!(sender.metrics().ruling, "cubic");
    ack(&mut sender, 104, [0, 1, 0, 0]);
    assert_eq!(sender.metrics().ruling, "vcp");
    assert!(sender.metrics().explicit);
}

/// BBR instead of routers behaves like `bbr` until the first mark, and with the routers' window
/// after the marks end.
#[test]
fn bbr_rules_where_it_is_the_fallback() {
    let mut sender = algorithm("vcp+bise+wlte[fallback=bbr,iw=100]");
    let mut bbr = algorithm("bbr[iw=100]");
    for law in [&mut sender, &mut bbr] {
        law.on_handshake_rtt(at(0), RTT);
    }
    assert_eq!(sender.pacing_rate(), bbr.pacing_rate());
    for now in 100..300 {
        for law in [&mut sender, &mut bbr] {
            let state = law.on_sent(at(now), &sent(now, MTU));
            let mut ack = plain_ack(now);
            ack.state = state;
            ack.sent_at = at(now - 100);
            law.on_ack(at(now), &ack);
        }
        assert_eq!(sender.window(), bbr.window());
        assert_eq!(sender.pacing_rate(), bbr.pacing_rate());
    }
    assert_eq!(sender.metrics().ruling, "bbr");
    ack(&mut *sender, 300, [0, 2, 0, 0]);
    assert_eq!(sender.metrics().ruling, "vcp+bise+wlte");
    let mut now = 310;
    while sender.metrics().explicit {
        let window = sender.window();
        ack(&mut *sender, now, [2, 0, 0, 0]);
        now += 10;
        if !sender.metrics().explicit {
            assert_eq!(sender.metrics().ruling, "bbr");
            assert!(sender.window() <= window + 2 * MTU);
            // 99 % of a window per round trip.
            let pace = sender.pacing_rate().unwrap();
            let range = window * 8..=window * 11;
            assert!(range.contains(&pace), "{pace} of {window}");
        }
        assert!(now < 600);
    }
}

#[test]
fn unmarked_acks_for_a_round_trip_bring_cubic_back_and_two_of_marks_end_it() {
    let mut sender = sender(Halving);
    ack(&mut sender, 100, [0, 1, 0, 0]);
    let mut now = 110;
    while sender.metrics().explicit {
        ack(&mut sender, now, [2, 0, 0, 0]);
        now += 10;
        assert!(now < 400);
    }
    assert!(now >= 210, "after a round trip of it: {now}");
    let window = sender.window();
    let mut marked = 0;
    while !sender.metrics().explicit {
        ack(&mut sender, now, [0, 2, 0, 0]);
        now += 10;
        marked += 10;
        assert!(marked < 400);
    }
    assert!(marked >= 200, "after two round trips of it: {marked}");
    assert!(sender.window() >= window);
}

#[test]
fn a_path_that_eats_feedback_means_cubic() {
    let mut sender = sender(Halving);
    ack(&mut sender, 100, [0, 1, 0, 0]);
    let mut now = 110;
    while sender.metrics().explicit {
        sender.on_ack(at(now), &plain_ack(now));
        now += 10;
        assert!(now < 600);
    }
    assert!(now >= 300, "{now}");
}

#[test]
fn a_lone_unmarked_packet_changes_nothing() {
    let mut sender = sender(Halving);
    for now in (100..2000).step_by(10) {
        ack(&mut sender, now, [u64::from(now % 50 == 0), 1, 0, 0]);
        assert!(sender.metrics().explicit);
    }
}

#[test]
fn losses_halve_once_per_round_trip() {
    let mut sender = sender(Halving);
    ack(&mut sender, 100, [0, 0, 1, 0]);
    let before = sender.window();
    sender.on_loss(at(110), &lost(120, 150, RTT));
    assert_eq!(sender.window(), before / 2);
    sender.on_loss(at(111), &lost(149, 160, RTT));
    assert_eq!(sender.window(), before / 2);
    sender.on_spurious_loss(at(112));
    assert_eq!(sender.window(), before);
    sender.on_loss(at(300), &lost(161, 200, RTT));
    assert_eq!(sender.window(), before / 2);
}

#[test]
fn wlte_keeps_its_window_through_corruption() {
    for pure in [false, true] {
        let mut sender = sender(Wlte { pure });
        ack(&mut sender, 100, [0, 0, 50, 0]);
        for n in 1..200u64 {
            let before = sender.window();
            ack(&mut sender, 100 + 10 * n, [0, 0, 50, 0]);
            assert!(sender.window() >= before);
            let before = sender.window();
            sender.on_loss(at(100 + 10 * n), &lost(100 + 10 * n, 200 + 10 * n, RTT));
            assert_eq!(sender.window(), before, "loss {n}");
        }
        sender.on_persistent_congestion(at(5000));
        assert_eq!(sender.window(), MTU);
    }
}

/// A single packet could be a probe without a shim.
#[test]
fn wlte_believes_losses_on_a_path_that_stops_marking() {
    for (unmarked, halves) in [(10, true), (1, false)] {
        let mut sender = sender(Wlte { pure: false });
        ack(&mut sender, 100, [0, 0, 10, 0]);
        ack(&mut sender, 110, [unmarked, 0, 0, 0]);
        let before = sender.window();
        sender.on_loss(at(120), &lost(120, 150, RTT));
        let after = if halves { before / 2 } else { before };
        assert_eq!(sender.window(), after, "{unmarked}");
    }
}

#[test]
fn marks_in_the_ip_header_cut_as_cubic_would() {
    let mut sender = sender(Wlte { pure: false });
    ack(&mut sender, 100, [0, 0, 10, 0]);
    let before = sender.window();
    sender.on_congestion_experienced(at(110), at(50), 10);
    let cut = sender.window();
    assert!(cut.abs_diff(before * 7 / 10) <= 1);
    sender.on_congestion_experienced(at(120), at(100), 20);
    assert_eq!(sender.window(), cut, "same round trip");
    ack(&mut sender, 130, [0, 0, 0, 10]);
    assert!(sender.window() >= cut, "an OVER in FREEZE is the same news");
}

#[test]
fn idleness_leaves_twice_what_the_path_has_carried() {
    let mut sender = sender(Halving);
    ack(&mut sender, 100, [0, 20, 0, 0]);
    assert!(sender.window() > 100 * MTU);
    sender.on_restart(at(150), ms(50));
    assert!(sender.window() > 100 * MTU);
    let mut sender = sender_with(10, Halving);
    for now in (100..8900).step_by(5) {
        ack(&mut sender, now, [0, 2, 0, 0]);
    }
    assert!(sender.window() > 100 * MTU, "{}", sender.window());
    sender.on_restart(at(9000), ms(6000));
    let window = sender.window() / MTU;
    // 2 × 40 packets per round trip.
    assert!((76..=84).contains(&window), "{window}");
}

/// α grows while no OVER arrives, but not during idleness.
#[test]
fn alpha_does_not_grow_by_idleness() {
    let growth_after = |idle: u64| {
        let mut sender = sender(Halving);
        ack(&mut sender, 100, [0, 0, 10, 0]);
        if idle > 0 {
            sender.on_restart(at(100 + idle), ms(idle));
        }
        let before = sender.window();
        ack(&mut sender, 200 + idle, [0, 0, 10, 0]);
        sender.window() - before
    };
    assert!(growth_after(0) > 0);
    assert!(growth_after(10_000) <= growth_after(0) * 3 / 2);
}

/// A cut by a mark or another law since a loss remains if the loss was spurious.
#[test]
fn a_spurious_loss_undoes_no_later_cut() {
    let halved = || {
        let mut sender = sender(Halving);
        ack(&mut sender, 100, [0, 0, 10, 0]);
        sender.on_loss(at(110), &lost(10, 50, RTT));
        sender
    };
    let mut alone = halved();
    let window = alone.window();
    alone.on_spurious_loss(at(120));
    assert!(alone.window() > window);
    let mut marked = halved();
    marked.on_congestion_experienced(at(120), at(50), 50);
    let window = marked.window();
    marked.on_spurious_loss(at(130));
    assert_eq!(marked.window(), window);
    let mut over = halved();
    ack(&mut over, 120, [0, 0, 0, 10]);
    let window = over.window();
    over.on_spurious_loss(at(130));
    assert_eq!(over.window(), window);
}

#[test]
fn requests_tell_the_least_rtt_and_who_follows_r() {
    let mut plain = algorithm("vcp");
    assert_eq!(plain.request().min_rtt, None);
    plain.on_ack(at(100), &plain_ack(1));
    assert_eq!(plain.request().min_rtt, Some(RTT));
    assert!(!plain.request().bise);
    assert!(algorithm("vcp+bise+wlte").request().bise);
}
