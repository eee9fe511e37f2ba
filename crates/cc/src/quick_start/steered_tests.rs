//! Grants at a sender whose law is under the control of routers.

use super::sender_tests::quick_start;
use super::*;
use crate::base::Instant;
use crate::law::{Acked, Controller, Limits, Lost, PacketState};
use crate::metrics::QuickStartOutcome;
use crate::metrics::{Metrics, Phase};
use crate::signals::Feedback;
use crate::testing::{acked, approval, at, lost, ms, sent, stamped};
use crate::xcp::{XcpParams, XcpSender};

const MTU: u16 = 1472;

fn xcp() -> XcpSender {
    XcpSender::new(at(0), MTU, XcpParams::default())
}

/// Creates an XCP sender under the control of routers with a granted window of 1000 packets.
fn granted() -> QuickStart<XcpSender> {
    granted_to(xcp(), true)
}

/// Grants 1000 packets to `law`. `heard` is true if an XCP router has already answered.
fn granted_to<C: Startable>(law: C, heard: bool) -> QuickStart<C> {
    granted_behind(law, heard, 15_000_000, 0)
}

/// Grants `rate` bytes per second to `law` on a path on which TTLs show `plain` hops that don't
/// take part.
fn granted_behind<C: Startable>(law: C, heard: bool, rate: u64, plain: u8) -> QuickStart<C> {
    let mut sender = QuickStart::new(None, MTU, None, AfterGrant::Avoidance, law);
    sender.on_handshake_rtt(at(0), ms(100));
    let request = sender.ask(at(0), 77, &Limits::NONE).unwrap();
    for number in 0..10 {
        sender.on_sent(at(0), &sent(number, 1472));
    }
    let ack = acked(0, 1472, ms(100));
    if heard {
        sender.on_feedback(at(100), &Feedback::Xcp(stamped(0)), &ack);
    }
    let mut answer = approval(&request, rate);
    answer.ttl_difference = Some(request.ttl_difference.wrapping_sub(plain));
    sender.on_feedback(at(100), &Feedback::QuickStart(answer), &ack);
    sender.on_ack(at(100), &ack);
    sender
}

fn fly<C: Startable>(sender: &mut QuickStart<C>) {
    for number in 10..1010 {
        let now = Instant::from_micros(100_000 + 100 * number);
        sender.on_sent(now, &sent(number, 1472));
    }
}

/// The answer may arrive before a router's first feedback, in the same packet. The law must then
/// still handle single losses of the flight.
#[test]
fn routers_that_are_heard_behind_the_answer_steer_the_flight() {
    for late in [false, true] {
        let mut sender = granted_to(xcp(), !late);
        let ack = acked(0, 1472, ms(100));
        sender.on_feedback(at(100), &Feedback::Xcp(stamped(0)), &ack);
        fly(&mut sender);
        sender.on_ack(at(200), &acked(14, 1472, ms(100)));
        sender.on_loss(at(200), &lost(12, 1009, ms(100)));
        let quick_start = quick_start(&sender);
        assert_eq!(quick_start.revoked, 0, "{late}");
        assert!(sender.window() > 900 * 1472, "{late}: {}", sender.window());
    }
}

/// Behind a hop that doesn't take part, a flight has half of the grant, or an initial window if
/// this is more. Deliveries of the flight confirm the rest.
#[test]
fn deliveries_confirm_what_half_a_start_left_of_the_grant() {
    for (packets, first) in [(1000, 500), (16, 10)] {
        let rate = packets * u64::from(MTU) * 10;
        let mut sender = granted_behind(xcp(), true, rate, 1);
        let quick_start = quick_start(&sender);
        assert_eq!(quick_start.outcome, QuickStartOutcome::Used);
        let window = |sender: &QuickStart<XcpSender>| sender.window() / u64::from(MTU);
        let half = window(&sender);
        assert!((first * 9 / 10..=first).contains(&half), "{half} {first}");
        for number in 10..10 + first {
            sender.on_sent(at(101), &sent(number, 1472));
        }
        for number in 10..10 + first {
            sender.on_ack(at(201), &acked(number, 1472, ms(100)));
        }
        let whole = window(&sender);
        assert!((packets * 9 / 10..=packets).contains(&whole), "{whole}");
    }
}

/// The answer to a repeated question includes the rate given in headers.
#[test]
fn an_answer_to_a_repeated_question_takes_the_place_of_what_headers_gave() {
    let mut sender = xcp();
    sender.on_handshake_rtt(at(0), ms(100));
    let heard = |delta| Feedback::Xcp(stamped(delta));
    let mut state = PacketState::default();
    for number in 0..10 {
        state = sender.on_sent(at(0), &sent(number, 1472));
    }
    let mut ack = acked(9, 14_720, ms(100));
    ack.state = state;
    sender.on_feedback(at(100), &heard(1_000_000 << 16), &ack);
    sender.on_ack(at(100), &ack);
    let given = sender.window();
    assert!(given > 100_000, "{given}");
    let mut first = sender.clone();
    assert!(first.begin_with(at(100), 1_000_000) && sender.begin_again_with(at(100), 1_000_000));
    assert_eq!(first.window(), 1_000_000 + given - 14_720);
    assert_eq!(sender.window(), 1_000_000);
}

#[test]
fn headers_state_the_granted_window_from_the_first_packet_on() {
    let mut sender = granted();
    let window = sender.window();
    assert!((990..=1010).contains(&(window / 1472)), "{window}");
    let stated = sender.request().xcp.unwrap().window;
    assert_eq!(stated, window);
    fly(&mut sender);
    let ack = acked(10, 1472, ms(100));
    sender.on_ack(at(200), &ack);
    assert!(sender.window() >= window * 9 / 10);
}

/// No XCP router's feedback has arrived yet, and the grant isn't used.
#[test]
fn headers_state_no_granted_window_that_is_not_used() {
    let ends: [fn(&mut QuickStart<XcpSender>); 3] = [
        // The flow's first packet is only sent when the grant has expired.
        |sender| {
            sender.on_sent(at(400), &sent(10, 1472));
        },
        |sender| sender.on_probe_timeout(at(150)),
        |sender| sender.on_persistent_congestion(at(150)),
    ];
    for end in ends {
        let mut sender = granted_to(xcp(), false);
        let window = sender.window();
        assert!((990..=1010).contains(&(window / 1472)), "{window}");
        let stated = |sender: &QuickStart<XcpSender>| sender.request().xcp.unwrap().window;
        assert_eq!(stated(&sender), window);
        end(&mut sender);
        assert!(sender.window() < 100 * 1472);
        assert_eq!(stated(&sender), sender.window());
    }
}

/// A law that counts reported losses.
#[derive(Debug, Default)]
struct LossLog {
    window: u64,
    /// Packets lost, and grants given up.
    lost: u64,
    given_up: u64,
    expected_ppm: u64,
    behind_hidden_hop: bool,
}

impl Controller for LossLog {
    fn on_ack(&mut self, _now: Instant, _acked: &Acked) {}
    fn on_loss(&mut self, _now: Instant, lost: &Lost) {
        self.lost += lost.packets;
    }
    fn on_persistent_congestion(&mut self, _now: Instant) {}
    fn on_mtu(&mut self, _mtu: u16) {}
    fn window(&self) -> u64 {
        self.window
    }
    fn metrics(&self) -> Metrics {
        Metrics::new("loss log", Phase::Avoidance, self.window)
    }
}

impl Startable for LossLog {
    fn may_start(&self) -> bool {
        !self.behind_hidden_hop
    }
    fn begin_with(&mut self, _now: Instant, window: u64) -> bool {
        self.window = window;
        true
    }
    fn start_with(&mut self, _now: Instant, _window: u64, _threshold: Option<u64>) {}
    fn give_back(&mut self, _now: Instant, window: u64) {
        self.window = window;
    }
    fn give_up(&mut self, _now: Instant, _window: u64, _threshold: u64, _last_sent: u64) {
        self.given_up += 1;
    }
    fn raise_threshold(&mut self, _threshold: u64) {}
    fn expected_loss_ppm(&self) -> u64 {
        self.expected_ppm
    }
}

/// A hop that no router announces is detected before the answer or before the question. Routers'
/// grants don't consider its capacity.
#[test]
fn behind_a_hidden_hop_nothing_is_asked_and_no_grant_used() {
    let law = LossLog {
        window: 14_720,
        behind_hidden_hop: true,
        ..LossLog::default()
    };
    // It was detected while the question was in flight.
    let sender = granted_to(law, true);
    let metrics = quick_start(&sender);
    assert_eq!((metrics.approved, metrics.granted), (1, 0));
    assert_eq!(metrics.outcome, QuickStartOutcome::Unused);
    assert_eq!(sender.window(), 14_720);
    let mut sender = granted_to(LossLog::default(), true);
    assert_eq!(quick_start(&sender).outcome, QuickStartOutcome::Used);
    // After a pause, the sender would ask again.
    sender.on_sent(at(10_000), &sent(10, 1472));
    sender.on_restart(at(20_000), ms(10_000));
    assert!(sender.asks());
    sender.law.behind_hidden_hop = true;
    assert!(!sender.asks());
}

/// Creates a granted flight of this law, of which 20 in every 100 packets are lost.
fn lossy_flight(expected_ppm: u64) -> QuickStart<LossLog> {
    let law = LossLog {
        window: 14_720,
        expected_ppm,
        ..LossLog::default()
    };
    let mut sender = granted_to(law, true);
    fly(&mut sender);
    for hundred in 0..5 {
        let first = 10 + 100 * hundred;
        sender.on_ack(at(205), &acked(first + 99, 80 * 1472, ms(100)));
        for number in 0..20 {
            sender.on_loss(at(206), &lost(first + number, 1009, ms(100)));
        }
    }
    sender
}

/// A flight is not given up for losses that were expected.
#[test]
fn the_law_is_told_of_each_loss_of_a_flight_given_up_or_not() {
    for (expected_ppm, given_up, outcome) in [
        (0, 1, QuickStartOutcome::Revoked),
        (200_000, 0, QuickStartOutcome::Used),
    ] {
        let sender = lossy_flight(expected_ppm);
        assert_eq!((sender.law.given_up, sender.law.lost), (given_up, 100));
        assert_eq!(quick_start(&sender).outcome, outcome);
    }
}

#[test]
fn routers_steer_through_single_losses_of_the_flight_and_not_through_many() {
    let mut sender = granted();
    let window = sender.window();
    fly(&mut sender);
    sender.on_ack(at(205), &acked(400, 400 * 1472, ms(100)));
    sender.on_loss(at(206), &lost(100, 1009, ms(100)));
    assert!(sender.window() >= window * 9 / 10, "{}", sender.window());
    assert_eq!(quick_start(&sender).revoked, 0);
    for number in 101..240 {
        sender.on_loss(at(207), &lost(number, 1009, ms(100)));
    }
    assert_eq!(quick_start(&sender).revoked, 1);
    assert!(sender.window() <= 201 * 1472, "{}", sender.window());
}
