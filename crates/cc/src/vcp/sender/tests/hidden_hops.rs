//! Queues that no router announces, heavy loss, and requests while CUBIC rules.

use super::{MTU, RTT, ack, ack_with, at, codes, plain_ack, sender};
use crate::law::Controller;
use crate::testing::{acked, lost, ms};
use crate::vcp::sender::VcpSender;
use crate::vcp::wlte::Wlte;

/// Acknowledgements of a path with a queue of `queue(window)` ms and LOW codes, until `done` or for
/// 20 s.
fn queue_ahead(
    sender: &mut VcpSender<Wlte>,
    mut now: u64,
    queue: impl Fn(u64) -> u64,
    done: impl Fn(&VcpSender<Wlte>) -> bool,
) -> u64 {
    let end = now + 20_000;
    while now < end && !done(sender) {
        now += 10;
        let window = sender.window() / MTU;
        ack_with(sender, now, [0, 2, 0, 0], ms(100 + queue(window)));
    }
    now
}

/// A sender that routers steer with LOW until 2 s.
fn steered() -> VcpSender<Wlte> {
    let mut sender = sender(Wlte { pure: false });
    for now in (100..2000).step_by(10) {
        ack(&mut sender, now, [0, 2, 0, 0]);
    }
    sender
}

/// A hop without feedback drops half of the packets until CUBIC rules.
fn overflow(sender: &mut VcpSender<Wlte>, mut now: u64) -> u64 {
    let end = now + 20_000;
    while now < end && sender.metrics().explicit {
        now += 10;
        ack_with(sender, now, [0, 2, 0, 0], ms(140));
        let mut loss = lost(now, now + 100, RTT);
        loss.packets = 2;
        sender.on_loss(at(now), &loss);
    }
    assert_eq!(sender.metrics().ruling, "cubic");
    now
}

#[test]
fn a_queue_under_low_stops_mi() {
    let mut sender = steered();
    // Every RTT shows a queue, and every code is LOW.
    for now in (2000..2080).step_by(10) {
        ack_with(&mut sender, now, [0, 2, 0, 0], ms(140));
    }
    let held = sender.window();
    ack_with(&mut sender, 2080, [0, 2, 0, 0], ms(140));
    assert!(sender.window() <= held + MTU, "no MI on a queue");
}

#[test]
fn delay_that_stands_whatever_is_sent_is_none_of_ours() {
    let mut sender = steered();
    let before = sender.window();
    let fell_back = |sender: &VcpSender<Wlte>| !sender.metrics().explicit;
    let now = queue_ahead(&mut sender, 2000, |_| 40, fell_back);
    assert_eq!(now, 22_000);
    // This is a longer route, and growth goes on.
    assert!(sender.window() > before);
}

#[test]
fn a_queue_on_the_way_back_is_none_of_ours() {
    let mut sender = sender(Wlte { pure: false });
    let ack_behind = |sender: &mut VcpSender<Wlte>, now: u64, ahead: u64| {
        let mut ack = acked(now, 2 * MTU, ms(200));
        (ack.packets, ack.min_rtt) = (2, RTT);
        ack.forward_delay = Some(ms(ahead));
        sender.on_feedback(at(now), &codes([0, 2, 0, 0]), &ack);
        sender.on_ack(at(now), &ack);
    };
    ack(&mut sender, 100, [0, 2, 0, 0]);
    let mut now = 110;
    let window = sender.window();
    while now < 5000 {
        ack_behind(&mut sender, now, now % 3);
        now += 10;
    }
    assert!(sender.metrics().explicit && sender.window() > window * 3 / 2);
    // Requests state the time after which feedback takes effect.
    let stated = sender.request().min_rtt.unwrap();
    assert!((ms(195)..=ms(200)).contains(&stated), "{stated:?}");
}

#[test]
fn an_over_is_obeyed_while_cubic_rules_for_a_hidden_bottleneck() {
    let mut sender = steered();
    let now = overflow(&mut sender, 2000);
    let before = sender.window();
    ack_with(&mut sender, now + 10, [0, 0, 0, 2], ms(140));
    let cut = sender.window();
    assert!(cut.abs_diff(before * 7 / 10) < MTU, "{cut} {before}");
    ack_with(&mut sender, now + 20, [0, 0, 0, 2], ms(140));
    // One cut per interval and round trip.
    assert!(sender.window() >= cut);
}

#[test]
fn an_application_that_pauses_after_much_loss_keeps_its_window() {
    let mut sender = sender(Wlte { pure: false });
    let mut now = 100;
    // A round trip of `packets` packets under HIGH.
    let mut round = |sender: &mut VcpSender<Wlte>, packets: u64, lossy: bool| {
        for n in 0..packets {
            let mut ack = acked(2 * now + n, MTU, RTT);
            ack.window_limited = packets > 3;
            let time = at(now + n * 100 / packets);
            sender.on_feedback(time, &codes([0, 0, 1, 0]), &ack);
            sender.on_ack(time, &ack);
            if lossy {
                sender.on_loss(time, &lost(2 * now + n, 2 * now + 100, RTT));
            }
        }
        now += 100;
    };
    for _ in 0..5 {
        round(&mut sender, 80, false);
    }
    let full = sender.window();
    round(&mut sender, 20, true);
    round(&mut sender, 80, false);
    let held = sender.window();
    assert!(held < full, "{held} of {full}");
    for _ in 0..5 {
        round(&mut sender, 3, false);
    }
    assert!(sender.window() >= held, "{} of {held}", sender.window());
    sender.on_restart(at(2000), ms(150));
    assert!(sender.window() > held, "{} of {held}", sender.window());
}

#[test]
fn few_packets_ask_where_nobody_answers_and_all_do_again_at_the_first_mark() {
    let mut sender = sender(Wlte { pure: false });
    assert_eq!(sender.signal_every(), 1);
    for now in (100..=200).step_by(10) {
        assert_eq!(sender.signal_every(), 1, "{now}");
        ack(&mut sender, now, [2, 0, 0, 0]);
    }
    assert_eq!(sender.signal_every(), 32, "a quarter of a window of 100");
    for now in (220..1000).step_by(10) {
        ack(&mut sender, now, [40, 0, 0, 0]);
    }
    let packets = sender.window() / MTU;
    assert_eq!(u64::from(sender.signal_every()), packets / 4);
    ack(&mut sender, 1010, [0, 1, 0, 0]);
    assert_eq!(sender.signal_every(), 1);
    assert!(sender.metrics().explicit);
}

#[test]
fn some_packets_ask_while_cubic_rules_for_a_hidden_bottleneck() {
    let mut sender = sender(Wlte { pure: false });
    for now in (100..2000).step_by(10) {
        ack(&mut sender, now, [0, 2, 0, 0]);
        assert_eq!(sender.signal_every(), 1);
    }
    let mut now = overflow(&mut sender, 2000);
    let every = u64::from(sender.signal_every());
    assert_eq!(every, (sender.window() / MTU).min(64));
    // Acknowledgements of packets without a request carry no feedback, which does not count as
    // silence.
    for _ in 0..20 {
        now += 10;
        let mut ack = plain_ack(now);
        (ack.rtt, ack.srtt, ack.min_rtt) = (Some(ms(140)), ms(140), RTT);
        sender.on_ack(at(now), &ack);
    }
    assert_eq!(sender.metrics().ruling, "cubic");
    // The hop is gone, so CUBIC grows far beyond its window, and routers rule again.
    let from = now;
    while !sender.metrics().explicit {
        now += 10;
        sender.on_ack(at(now), &plain_ack(now));
        assert!(now < from + 60_000);
    }
    assert_eq!(sender.signal_every(), 1);
}
