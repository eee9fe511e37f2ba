//! Who rules when, and what losses do.

use super::params::{Carrier, VcpParams};
use super::sender::VcpSender;
use proptest::prelude::*;

use crate::testing::{acked, lost, ms, sent};
use crate::{
    Acked, Algorithm, Controller, Duration, Feedback, Halving, Instant, LossRule, VcpFeedback, Wlte,
};

const MTU: u64 = 1500;
const RTT: Duration = Duration::from_millis(100);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn codes(packets: [u64; 4]) -> Feedback {
    let [none, low, high, over] = packets;
    Feedback::Vcp(VcpFeedback {
        packets,
        bytes: [none * MTU, low * MTU, high * MTU, over * MTU],
        sum_r: low << 16,
        t_rho: ms(200),
        hops: 1,
        bise: true,
        ..VcpFeedback::default()
    })
}

fn sender<L: LossRule>(loss_rule: L) -> VcpSender<L> {
    let params = VcpParams {
        initial_window: Some(100),
        ..VcpParams::default()
    };
    VcpSender::new("vcp", at(0), 1500, params, loss_rule)
}

/// One acknowledgement with codes.
fn ack(sender: &mut impl Controller, now: u64, packets: [u64; 4]) {
    ack_with(sender, now, packets, RTT);
}

fn ack_with(sender: &mut impl Controller, now: u64, packets: [u64; 4], rtt: Duration) {
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
    let mut cubic = Algorithm::parse("cubic[iw=100]")
        .unwrap()
        .controller(at(0), 1500);
    for now in [100, 101, 102] {
        sender.on_ack(at(now), &plain_ack(now));
        cubic.on_ack(at(now), &plain_ack(now));
        assert_eq!(sender.window(), cubic.window());
    }
    // Unmarked codes are no signal, however low.
    ack(&mut sender, 103, [5, 0, 0, 0]);
    assert_eq!(sender.metrics().ruling, "cubic");
    ack(&mut sender, 104, [0, 1, 0, 0]);
    assert_eq!(sender.metrics().ruling, "vcp");
    assert!(sender.metrics().explicit);
}

/// BBR in the routers' place: as `bbr` by itself until the first mark, and with the routers' window
/// after them.
#[test]
fn bbr_rules_where_it_is_the_fallback() {
    let algorithm = |text: &str| Algorithm::parse(text).unwrap().controller(at(0), 1500);
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
    let ack = |sender: &mut dyn Controller, now: u64, packets: [u64; 4]| {
        let mut ack = acked(now, 2 * MTU, RTT);
        ack.packets = 2;
        sender.on_feedback(at(now), &codes(packets), &ack);
        sender.on_ack(at(now), &ack);
    };
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
            assert!(
                pace <= window * 11 && pace >= window * 8,
                "{pace} of {window}"
            );
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

#[test]
fn wlte_believes_losses_on_a_path_that_stops_marking() {
    let mut sender = sender(Wlte { pure: false });
    ack(&mut sender, 100, [0, 0, 10, 0]);
    ack(&mut sender, 110, [10, 0, 0, 0]);
    let before = sender.window();
    sender.on_loss(at(120), &lost(120, 150, RTT));
    assert_eq!(sender.window(), before / 2);
}

#[test]
fn a_probe_without_a_shim_does_not_make_losses_congestion() {
    let mut sender = sender(Wlte { pure: false });
    ack(&mut sender, 100, [0, 0, 10, 0]);
    ack(&mut sender, 110, [1, 0, 0, 0]);
    let before = sender.window();
    sender.on_loss(at(120), &lost(120, 150, RTT));
    assert_eq!(sender.window(), before);
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
    let mut sender = sender_with_small_start();
    for now in (100..8900).step_by(5) {
        ack(&mut sender, now, [0, 2, 0, 0]);
    }
    assert!(sender.window() > 100 * MTU, "{}", sender.window());
    sender.on_restart(at(9000), ms(6000));
    let window = sender.window() / MTU;
    assert!(
        (76..=84).contains(&window),
        "2 × 40 packets per round trip: {window}"
    );
}

fn sender_with_small_start() -> VcpSender<Halving> {
    let params = VcpParams {
        initial_window: Some(10),
        ..VcpParams::default()
    };
    VcpSender::new("vcp", at(0), 1500, params, Halving)
}

/// Acknowledgements of a path that queues `queue(window)` ms ahead, codes LOW, until `done` or 20 s
/// later.
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

/// A queue that this sender keeps full: it is gone with a twentieth less.
fn own_queue(sender: &mut VcpSender<Wlte>, now: u64) -> u64 {
    let full = sender.window() / MTU;
    queue_ahead(
        sender,
        now,
        |window| if window >= full * 19 / 20 { 40 } else { 0 },
        |sender| !sender.metrics().explicit,
    )
}

#[test]
fn a_queue_under_low_stops_mi_and_hands_over_if_it_goes_when_less_is_sent() {
    let mut sender = sender(Wlte { pure: false });
    for now in (100..2000).step_by(10) {
        ack(&mut sender, now, [0, 2, 0, 0]);
    }
    // Every RTT shows a queue, every code says LOW.
    for now in (2000..2080).step_by(10) {
        ack_with(&mut sender, now, [0, 2, 0, 0], ms(140));
    }
    let held = sender.window();
    ack_with(&mut sender, 2080, [0, 2, 0, 0], ms(140));
    assert!(sender.window() <= held + MTU, "no MI on a queue");
    let now = own_queue(&mut sender, 2080);
    assert_eq!(sender.metrics().ruling, "cubic");
    assert!(now < 5000, "{now}");
}

#[test]
fn delay_that_stands_whatever_is_sent_is_none_of_ours() {
    let mut sender = sender(Wlte { pure: false });
    for now in (100..2000).step_by(10) {
        ack(&mut sender, now, [0, 2, 0, 0]);
    }
    let before = sender.window();
    let now = queue_ahead(
        &mut sender,
        2000,
        |_| 40,
        |sender| !sender.metrics().explicit,
    );
    assert_eq!(now, 22_000);
    assert!(
        sender.window() > before,
        "a longer route, and growth goes on"
    );
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
    // Routers are told of the time that their word takes.
    let told = sender.request().min_rtt.unwrap();
    assert!((ms(195)..=ms(200)).contains(&told), "{told:?}");
}

#[test]
fn an_over_is_obeyed_while_cubic_rules_for_a_hidden_bottleneck() {
    let mut sender = sender(Wlte { pure: false });
    for now in (100..2000).step_by(10) {
        ack(&mut sender, now, [0, 2, 0, 0]);
    }
    let now = own_queue(&mut sender, 2000);
    let before = sender.window();
    ack_with(&mut sender, now + 10, [0, 0, 0, 2], ms(140));
    let cut = sender.window();
    assert!(cut.abs_diff(before * 7 / 10) < MTU, "{cut} {before}");
    ack_with(&mut sender, now + 20, [0, 0, 0, 2], ms(140));
    assert!(
        sender.window() >= cut,
        "one cut per interval and round trip"
    );
}

#[test]
fn an_application_that_pauses_after_much_loss_keeps_its_window() {
    let mut sender = sender(Wlte { pure: false });
    let mut now = 100;
    // A round trip of some packets, under HIGH.
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
    let mut now = own_queue(&mut sender, 2000);
    let every = u64::from(sender.signal_every());
    assert_eq!(every, (sender.window() / MTU).min(64));
    // Acknowledgements of the packets between bring no feedback, and that is no silence.
    for _ in 0..20 {
        now += 10;
        let mut ack = plain_ack(now);
        (ack.rtt, ack.srtt, ack.min_rtt) = (Some(ms(140)), ms(140), RTT);
        sender.on_ack(at(now), &ack);
    }
    assert_eq!(sender.metrics().ruling, "cubic");
    // The hop is gone: CUBIC grows well beyond, and routers rule again.
    let from = now;
    while !sender.metrics().explicit {
        now += 10;
        sender.on_ack(at(now), &plain_ack(now));
        assert!(now < from + 60_000);
    }
    assert_eq!(sender.signal_every(), 1);
}

// --- The ECN carrier
// -------------------------------------------------------------------------------------------------

fn ecn() -> VcpSender<Halving> {
    let params = VcpParams {
        carrier: Carrier::Ecn,
        initial_window: Some(100),
        ..VcpParams::default()
    };
    VcpSender::new("vcp", at(0), 1500, params, Halving)
}

/// As the ECN field tells it: no hop count, no interval, no flags.
fn ecn_ack(sender: &mut impl Controller, now: u64, packets: [u64; 4]) {
    let total: u64 = packets.iter().sum();
    let mut ack = acked(now, total * MTU, RTT);
    ack.packets = total;
    let [none, low, high, over] = packets;
    let feedback = Feedback::Vcp(VcpFeedback {
        packets,
        bytes: [none * MTU, low * MTU, high * MTU, over * MTU],
        sum_r: low << 16,
        ..VcpFeedback::default()
    });
    sender.on_feedback(at(now), &feedback, &ack);
    sender.on_ack(at(now), &ack);
}

#[test]
fn on_ecn_low_alone_proves_nothing() {
    let mut sender = ecn();
    for now in (100..3000).step_by(20) {
        ecn_ack(&mut sender, now, [0, 2, 0, 0]);
        assert!(!sender.metrics().explicit);
    }
    ecn_ack(&mut sender, 3000, [0, 1, 1, 0]);
    assert!(sender.metrics().explicit);
}

#[test]
fn a_constant_ecn_field_is_found_within_three_round_trips() {
    for constant in [[0, 0, 2, 0], [0, 0, 0, 2]] {
        let mut sender = ecn();
        for now in (100..400).step_by(20) {
            ecn_ack(&mut sender, now, constant);
        }
        assert!(!sender.metrics().explicit, "{constant:?}");
        for now in (400..3000).step_by(20) {
            ecn_ack(&mut sender, now, constant);
            assert!(!sender.metrics().explicit);
        }
        // Another code proves that it lives.
        for now in (3000..3500).step_by(20) {
            ecn_ack(&mut sender, now, [0, 1, 1, 0]);
        }
        assert!(sender.metrics().explicit);
    }
}

#[test]
fn a_bleached_ecn_field_is_found_within_three_round_trips() {
    let mut sender = ecn();
    ecn_ack(&mut sender, 100, [0, 1, 1, 0]);
    assert!(sender.metrics().explicit);
    for now in (120..400).step_by(20) {
        ecn_ack(&mut sender, now, [2, 0, 0, 0]);
    }
    assert!(!sender.metrics().explicit);
}

#[test]
fn requests_tell_the_least_rtt_and_who_follows_r() {
    let mut plain = Algorithm::parse("vcp").unwrap().controller(at(0), 1500);
    assert_eq!(plain.request().min_rtt, None);
    plain.on_ack(at(100), &plain_ack(1));
    assert_eq!(plain.request().min_rtt, Some(RTT));
    assert!(!plain.request().bise);
    let steep = Algorithm::parse("vcp+bise+wlte")
        .unwrap()
        .controller(at(0), 1500);
    assert!(steep.request().bise);
}

// --- Anything at all
// -------------------------------------------------------------------------------------------------

proptest! {
    /// No order of events and no field's value takes any controller below its floor, to nonsense,
    /// or to a panic.
    #[test]
    fn any_events_are_survived(
        name in prop::sample::select(Algorithm::NAMES),
        mtu in 512u16..=9000,
        events in prop::collection::vec((0u8..10, any::<u64>(), any::<u64>(), any::<u64>(), 0u32..64), 1..200),
    ) {
        let mut controller = Algorithm::parse(name).unwrap().controller(at(0), mtu);
        let mut now = Instant::ZERO;
        let mut floor = u64::from(mtu);
        for (kind, a, b, c, shift) in events {
            now += Duration::from_nanos(a >> shift);
            let mut ack = acked(a >> shift, b >> shift, Duration::from_nanos(c >> shift));
            ack.packets = b >> shift;
            ack.min_rtt = Duration::from_nanos(b >> shift);
            ack.window_limited = a & 1 == 0;
            match kind {
                0 => { let _ = controller.on_sent(now, &sent(a >> shift, b >> shift)); }
                1 | 2 => controller.on_ack(now, &ack),
                3 | 4 => controller.on_feedback(now, &Feedback::Vcp(VcpFeedback {
                    packets: [a >> shift & 1, b >> shift, c >> shift, a >> shift],
                    bytes: [a, b, c, a],
                    sum_r: c,
                    t_rho: Duration::from_nanos(b >> shift),
                    hops: 1,
                    bise: c & 1 == 0,
                    ..VcpFeedback::default()
                }), &ack),
                5 => controller.on_loss(now, &lost(a >> shift, b >> shift, Duration::from_nanos(c >> shift))),
                6 => controller.on_congestion_experienced(now, Instant::from_nanos(a >> shift), b),
                7 => controller.on_persistent_congestion(now),
                8 => controller.on_spurious_loss(now),
                _ => {
                    controller.on_restart(now, Duration::from_nanos(b));
                    let smaller = mtu / 2 + 256;
                    controller.on_mtu(smaller);
                    floor = floor.min(u64::from(smaller));
                }
            }
            prop_assert!(controller.window() >= floor);
            prop_assert!(controller.window() < 1 << 58);
            prop_assert!(controller.pacing_rate().is_none_or(|rate| rate >= 1));
            let metrics = controller.metrics();
            prop_assert_eq!(metrics.window, controller.window());
        }
    }
}

/// What happens to a sender.
#[derive(Clone, Copy, Debug)]
struct Event {
    /// Time since the last one.
    after: u64,
    /// 0 to 3: acknowledged packets with this code; 4: without a word; 5: a loss.
    kind: usize,
    packets: u64,
    /// Milliseconds in queues.
    queued: u64,
}

proptest! {
    /// Whatever routers, delays and losses say, a sender that has something to send sends a packet
    /// per round trip: what it learns next, it learns from acknowledgements.
    #[test]
    fn no_word_and_no_trial_stops_a_sender(
        events in proptest::collection::vec(
            (
                prop_oneof![1 => Just(0u64), 6 => 1..200u64, 1 => 200..20_000u64],
                0..6usize,
                prop_oneof![0..3u64, 0..40u64],
                prop_oneof![Just(0), 0..400u64, 200..300u64],
            ),
            1..200,
        ),
    ) {
        let events = events.into_iter().map(|(after, kind, packets, queued)| {
            Event { after, kind, packets, queued }
        });
        let mut sender = sender(Wlte::default());
        let (mut now, mut number) = (0, 0);
        for event in events {
            now += event.after;
            let srtt = RTT + ms(event.queued);
            for _ in 0..event.packets {
                number += 1;
                sender.on_sent(at(now), &sent(number, MTU));
            }
            if event.kind == 5 {
                if event.packets > 0 {
                    let mut loss = lost(number, number, srtt);
                    loss.packets = event.packets;
                    loss.min_rtt = RTT;
                    sender.on_loss(at(now), &loss);
                }
            } else {
                let mut ack = acked(number, event.packets * MTU, srtt);
                ack.packets = event.packets;
                ack.min_rtt = RTT;
                ack.forward_delay = Some(ms(event.queued));
                if event.kind < 4 {
                    let mut packets = [0; 4];
                    packets[event.kind] = event.packets;
                    sender.on_feedback(at(now), &codes(packets), &ack);
                }
                sender.on_ack(at(now), &ack);
            }
            let round = u128::from(srtt.as_nanos() as u64);
            if let Some(pace) = sender.pacing_rate() {
                let bytes = u128::from(pace) * round / 1_000_000_000;
                prop_assert!(bytes + 10 >= u128::from(MTU) / 5, "{bytes} bytes per round trip");
            }
            prop_assert!(sender.window() >= MTU);
        }
    }
}
