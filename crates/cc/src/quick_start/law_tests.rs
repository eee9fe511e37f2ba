//! Grants beside a law: what the law makes of them, at a port and at a sender.

use super::*;
use crate::testing::{acked, lost, ms, sent};
use crate::{
    Acked, Answer, Arrival, Bise, BiseParams, Carried, Controller, Feedback, Instant, Interval,
    Limits, LinkController, Lost, Metrics, Phase, VcpCarried, VcpCode, VcpLink, VcpLinkParams,
    XcpCarried, XcpFeedback, XcpLink, XcpLinkParams, XcpParams, XcpSender,
};

/// 100 Mbit/s in bytes per second.
const CAPACITY: u64 = 12_500_000;
const MTU: u16 = 1472;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn carrying(flow: u32, carried: Carried) -> Arrival {
    Arrival {
        bytes: 1500,
        flow_hash: flow,
        carried,
    }
}

/// What is approved of a request for all, with an RTT of up to 128 ms.
fn ask(port: &mut impl LinkController, millis: u64, flow: u32) -> u64 {
    let request = carrying(
        flow,
        Carried::QuickStart(QuickStartCarried {
            rate: u64::MAX,
            rtt: Some(ms(128)),
            source: flow,
            keeps: false,
        }),
    );
    port.on_arrival(at(millis), &request, 0);
    match port.on_departure(at(millis), &request, 0) {
        Answer::QuickStart(answer) => answer.approved,
        other => panic!("{other:?}"),
    }
}

fn vcp() -> QuickStartLink<VcpLink<Bise>> {
    let params = VcpLinkParams {
        t_rho: Interval::Fixed(ms(200)),
        ..VcpLinkParams::with_bise()
    };
    let rule = Bise::new(BiseParams::default(), 1);
    let law = VcpLink::new(at(0), CAPACITY, params, rule);
    QuickStartLink::beside(at(0), CAPACITY, 7, law)
}

#[test]
fn a_grant_raises_the_load_of_the_whole_running_interval() {
    for late in [1, 100, 199] {
        let mut port = vcp();
        let mut granted = 0;
        for millis in 0..400 {
            if millis == 200 + late {
                granted = ask(&mut port, millis, 2);
            }
            // A half of the capacity.
            let run = Arrival {
                bytes: 6250,
                ..carrying(1, Carried::Foreign)
            };
            port.on_arrivals(at(millis), &run, 4, 0);
            if millis == 200 {
                port.on_timer(at(200), 0);
            }
        }
        assert!((CAPACITY / 3..CAPACITY / 2).contains(&granted), "{granted}");
        port.on_timer(at(400), 0);
        let load = port.metrics().load_ppb;
        // The earliest is given up shortly before the interval ends.
        assert!((815_000_000..870_000_000).contains(&load), "{late}: {load}");
        // Nothing of it comes: later intervals show what there is.
        for millis in 400..800 {
            let run = Arrival {
                bytes: 6250,
                ..carrying(1, Carried::Foreign)
            };
            port.on_arrivals(at(millis), &run, 4, 0);
            if millis % 200 == 0 {
                port.on_timer(at(millis), 0);
            }
        }
        port.on_timer(at(800), 0);
        let load = port.metrics().load_ppb;
        assert!((500_000_000..520_000_000).contains(&load), "{late}: {load}");
    }
}

#[test]
fn requests_under_false_names_take_nobodys_rate() {
    let mut port = vcp();
    let (mut worst, mut shown) = (0, 0);
    for millis in 0..60_000 {
        // Another address each time, and nothing is ever sent.
        if millis % 200 == 50 {
            let flow = u32::try_from(millis).unwrap();
            let _ = ask(&mut port, millis, flow);
        }
        let run = Arrival {
            bytes: 6250,
            ..carrying(1, Carried::Foreign)
        };
        port.on_arrivals(at(millis), &run, 4, 0);
        if millis % 200 == 0 {
            port.on_timer(at(millis), 0);
            worst = worst.max(port.metrics().load_ppb);
            if millis > 5000 {
                shown = shown.max(port.metrics().load_ppb);
            }
        }
    }
    assert!(worst > 800_000_000, "{worst}");
    assert!(shown < 530_000_000, "{shown}");
}

#[test]
fn growth_stops_as_soon_as_a_rate_is_granted() {
    let mut port = vcp();
    let _ = ask(&mut port, 0, 2);
    // Until then all of the link was for whoever came first.
    assert!(port.metrics().r_q32.unwrap() < 1 << 26);
}

fn header(delta: i64) -> Carried {
    Carried::Xcp(XcpCarried {
        rtt_us: 100_000,
        // Ten packets per round trip.
        x: 10_995_116_277,
        delta,
        covers: 1,
        cloud: None,
    })
}

/// What a flow's packet is given, in bytes per second.
fn given(port: &mut impl LinkController, millis: u64, flow: u32) -> i64 {
    let packet = carrying(flow, header(1 << 50));
    port.on_arrival(at(millis), &packet, 0);
    match port.on_departure(at(millis), &packet, 0) {
        Answer::Xcp(answer) => answer.delta >> 16,
        other => panic!("{other:?}"),
    }
}

fn xcp(params: XcpLinkParams) -> QuickStartLink<XcpLink> {
    let law = XcpLink::new(at(0), CAPACITY, params);
    QuickStartLink::beside(at(0), CAPACITY, 7, law)
}

#[test]
fn an_xcp_port_promises_no_more_than_it_has() {
    for asks_first in [true, false] {
        let mut port = xcp(XcpLinkParams::default());
        let mut sum = 0;
        if asks_first {
            sum += i64::try_from(ask(&mut port, 0, 1)).unwrap();
        }
        for n in 0..40 {
            sum += given(&mut port, n / 10, 2);
        }
        if !asks_first {
            sum += i64::try_from(ask(&mut port, 4, 1)).unwrap();
        }
        let all = i64::try_from(CAPACITY).unwrap();
        assert!(sum <= all, "{asks_first}: {sum}");
        assert!(sum >= all * 8 / 10, "{asks_first}: {sum}");
    }
}

/// Headers promised the rest of the link to the very flow whose answer was lost: it asks for a
/// total, and is granted it. What was promised to others is not.
#[test]
fn who_asks_again_is_granted_what_headers_promised_it_and_nobody_else() {
    for (other, expected) in [(1, CAPACITY * 85 / 100), (2, CAPACITY / 20)] {
        let mut port = xcp(XcpLinkParams::default());
        for _ in 0..20 {
            let _ = given(&mut port, 0, other);
        }
        let first = ask(&mut port, 0, 1);
        assert!(first < CAPACITY / 10, "{first}");
        let again = ask(&mut port, 60, 1);
        assert!(again.abs_diff(expected) < CAPACITY / 50, "{other}: {again}");
    }
}

/// A port that keeps plain packets apart does not tell its law that a question arrives.
#[test]
fn what_was_promised_before_a_pause_is_free_for_a_question_that_comes_first() {
    for (pause, used) in [(100, CAPACITY), (3000, 0), (1_000_000, 0)] {
        let mut port = xcp(XcpLinkParams::default());
        // A flow takes what the port has, and does not come.
        for n in 0..40 {
            let _ = given(&mut port, n / 10, 2);
        }
        let request = carrying(
            1,
            Carried::QuickStart(QuickStartCarried {
                rate: CAPACITY,
                rtt: Some(ms(128)),
                source: 1,
                keeps: false,
            }),
        );
        let Answer::QuickStart(answer) = port.on_departure(at(3 + pause), &request, 0) else {
            panic!("a question is answered");
        };
        let free = (CAPACITY * 85 / 100)
            .saturating_sub(used)
            .max(CAPACITY / 20);
        assert!(answer.approved.abs_diff(free) <= 1, "{pause}: {answer:?}");
    }
}

/// The first packets of a flow whose law is not settled yet carry VCP's codes, and an idle port
/// keeps a guest's share for it. That is no reason to refuse it, but one to refuse others.
#[test]
fn what_an_idle_xcp_port_keeps_for_a_guest_is_granted_to_it_and_to_nobody_else() {
    for code in [VcpCode::None, VcpCode::Low] {
        for asker in [1, 2] {
            let mut port = xcp(XcpLinkParams::default());
            let guest = Carried::Vcp(VcpCarried {
                code,
                min_rtt: None,
                bise: true,
                carries_r: true,
            });
            for _ in 0..3 {
                let packet = carrying(1, guest);
                port.on_arrival(at(0), &packet, 0);
                let _ = port.on_departure(at(0), &packet, 0);
            }
            let granted = ask(&mut port, 1, asker);
            let most = CAPACITY * 85 / 100;
            // Four packets within 200 ms are in use.
            let free = if asker == 1 {
                most - 30_000
            } else {
                CAPACITY / 20
            };
            assert!(granted.abs_diff(free) <= 1, "{code:?} {asker}: {granted}");
            // The rest is little: a second one has what newcomers may have at most.
            let next = ask(&mut port, 2, 3);
            assert!(next <= CAPACITY / 20, "{code:?} {asker}: {next}");
            let sum = granted + next;
            assert!(sum <= CAPACITY, "{code:?} {asker}: {sum}");
        }
    }
}

#[test]
fn a_policer_knows_of_grants() {
    let params = XcpLinkParams {
        police: true,
        ..XcpLinkParams::default()
    };
    let mut port = xcp(params);
    let granted = ask(&mut port, 0, 1);
    assert!(granted > CAPACITY * 8 / 10);
    // A round trip later it sends that, and says so.
    let packets = granted / 10 / 1500;
    let mut refused = 0;
    for n in 0..packets {
        let now = Instant::from_micros(100_000 + n * 100_000 / packets);
        let packet = carrying(
            1,
            Carried::Xcp(XcpCarried {
                rtt_us: 100_000,
                x: 109_951_162_777 / packets,
                delta: 0,
                covers: 1,
                cloud: None,
            }),
        );
        refused += u64::from(!port.admits(now, &packet));
        port.on_arrival(now, &packet, 0);
        let _ = port.on_departure(now, &packet, 0);
    }
    assert!(refused * 50 <= packets, "{refused} of {packets}");
}

/// An XCP sender that routers steer, with a granted window of 1000 packets.
fn granted() -> QuickStart<XcpSender> {
    granted_to(XcpSender::new(at(0), MTU, XcpParams::default()), true)
}

/// `law` with a granted window of 1000 packets; `heard`: an XCP router has answered by then.
fn granted_to<C: Startable>(law: C, heard: bool) -> QuickStart<C> {
    let mut sender = QuickStart::new(None, MTU, None, AfterGrant::Avoidance, law);
    sender.on_handshake_rtt(at(0), ms(100));
    let request = sender.ask(at(0), 77, &Limits::NONE).unwrap();
    for number in 0..10 {
        sender.on_sent(at(0), &sent(number, 1472));
    }
    let ack = acked(0, 1472, ms(100));
    let stamped = XcpFeedback {
        packets: 1,
        stamped: 1,
        bytes: 1472,
        ..XcpFeedback::default()
    };
    if heard {
        sender.on_feedback(at(100), &Feedback::Xcp(stamped), &ack);
    }
    let answer = QuickStartFeedback {
        packets: 1,
        bytes: 1472,
        rate: 15_000_000,
        ttl_difference: Some(request.ttl_difference),
        answered: true,
        nonce: request.nonce,
        nonce_bits: 48,
    };
    sender.on_feedback(at(100), &Feedback::QuickStart(answer), &ack);
    sender.on_ack(at(100), &ack);
    sender
}

/// Sends the granted flight.
fn fly<C: Startable>(sender: &mut QuickStart<C>) {
    for number in 10..1010 {
        let now = Instant::from_micros(100_000 + 100 * number);
        sender.on_sent(now, &sent(number, 1472));
    }
}

/// The answer may come before the first word of a router, in the same packet. Single losses of the
/// flight are the law's business then as well.
#[test]
fn routers_that_are_heard_behind_the_answer_steer_the_flight() {
    let law = || XcpSender::new(at(0), MTU, XcpParams::default());
    for late in [false, true] {
        let mut sender = granted_to(law(), !late);
        let stamped = XcpFeedback {
            packets: 1,
            stamped: 1,
            bytes: 1472,
            ..XcpFeedback::default()
        };
        let ack = acked(0, 1472, ms(100));
        sender.on_feedback(at(100), &Feedback::Xcp(stamped), &ack);
        fly(&mut sender);
        sender.on_ack(at(200), &acked(14, 1472, ms(100)));
        sender.on_loss(at(200), &lost(12, 1009, ms(100)));
        let told = sender.metrics().quick_start.unwrap();
        assert_eq!(told.revoked, 0, "{late}");
        assert!(sender.window() > 900 * 1472, "{late}: {}", sender.window());
    }
}

/// What headers gave is part of the answer to a question that was asked again.
#[test]
fn an_answer_to_a_repeated_question_takes_the_place_of_what_headers_gave() {
    let mut sender = XcpSender::new(at(0), MTU, XcpParams::default());
    sender.on_handshake_rtt(at(0), ms(100));
    let heard = |delta| {
        Feedback::Xcp(XcpFeedback {
            delta,
            packets: 1,
            stamped: 1,
            bytes: 1472,
            ..XcpFeedback::default()
        })
    };
    let mut state = sender.on_sent(at(0), &sent(0, 1472));
    for number in 1..10 {
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
    let ack = Acked {
        window_limited: true,
        ..acked(10, 1472, ms(100))
    };
    sender.on_ack(at(200), &ack);
    assert!(sender.window() >= window * 9 / 10);
}

/// No XCP router was heard yet, and what was granted is not sent.
#[test]
fn headers_state_no_granted_window_that_is_not_used() {
    let ends: [fn(&mut QuickStart<XcpSender>); 3] = [
        // The flow's first packet leaves when the grant's time is over.
        |sender| {
            sender.on_sent(at(400), &sent(10, 1472));
        },
        |sender| sender.on_probe_timeout(at(150)),
        |sender| sender.on_persistent_congestion(at(150)),
    ];
    for end in ends {
        let law = XcpSender::new(at(0), MTU, XcpParams::default());
        let mut sender = granted_to(law, false);
        let window = sender.window();
        assert!((990..=1010).contains(&(window / 1472)), "{window}");
        let stated = |sender: &QuickStart<XcpSender>| sender.request().xcp.unwrap().window;
        assert_eq!(stated(&sender), window);
        end(&mut sender);
        assert!(sender.window() < 100 * 1472);
        assert_eq!(stated(&sender), sender.window());
    }
}

/// A law that counts what it is told of losses.
#[derive(Debug, Default)]
struct Told {
    window: u64,
    /// Packets lost, and grants given up.
    lost: u64,
    given_up: u64,
    expected_ppm: u64,
    behind_hidden_hop: bool,
}

impl Controller for Told {
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
        Metrics::new("told", Phase::Avoidance, self.window)
    }
}

impl Startable for Told {
    fn may_start(&self) -> bool {
        !self.behind_hidden_hop
    }
    fn begin_with(&mut self, _now: Instant, window: u64) -> bool {
        self.window = window;
        true
    }
    fn start_with(&mut self, _now: Instant, _window: u64, _threshold: Option<u64>) {}
    fn give_up(&mut self, _now: Instant, _window: u64, _threshold: u64, _last_sent: u64) {
        self.given_up += 1;
    }
    fn raise_threshold(&mut self, _threshold: u64) {}
    fn expected_loss_ppm(&self) -> u64 {
        self.expected_ppm
    }
}

/// A hop that no router announces shows before the answer, or before the question: routers know
/// nothing of what it carries.
#[test]
fn behind_a_hidden_hop_nothing_is_asked_and_no_grant_used() {
    let law = Told {
        window: 14_720,
        behind_hidden_hop: true,
        ..Told::default()
    };
    // It showed once the question was on its way.
    let sender = granted_to(law, true);
    let metrics = sender.metrics().quick_start.unwrap();
    assert_eq!((metrics.approved, metrics.granted), (1, 0));
    assert_eq!(metrics.outcome, QuickStartOutcome::Unused);
    assert_eq!(sender.window(), 14_720);
    let mut sender = granted_to(Told::default(), true);
    assert_eq!(
        sender.metrics().quick_start.unwrap().outcome,
        QuickStartOutcome::Used
    );
    // After a pause another question would be due.
    sender.on_sent(at(10_000), &sent(10, 1472));
    sender.on_restart(at(20_000), ms(10_000));
    assert!(sender.asks());
    sender.law.behind_hidden_hop = true;
    assert!(!sender.asks());
}

/// The granted flight of a law that counts, of which 20 of 100 packets and more are lost.
fn lossy_flight(expected_ppm: u64) -> QuickStart<Told> {
    let law = Told {
        window: 14_720,
        expected_ppm,
        ..Told::default()
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

#[test]
fn the_law_is_told_of_each_loss_of_a_flight_given_up_or_not() {
    let sender = lossy_flight(0);
    assert_eq!((sender.law.given_up, sender.law.lost), (1, 100));
    let outcome = sender.metrics().quick_start.unwrap().outcome;
    assert_eq!(outcome, QuickStartOutcome::Revoked);
}

#[test]
fn a_flight_is_not_given_up_for_losses_that_were_expected() {
    let sender = lossy_flight(200_000);
    assert_eq!((sender.law.given_up, sender.law.lost), (0, 100));
    let outcome = sender.metrics().quick_start.unwrap().outcome;
    assert_eq!(outcome, QuickStartOutcome::Used);
}

#[test]
fn routers_steer_through_single_losses_of_the_flight_and_not_through_many() {
    let mut sender = granted();
    let window = sender.window();
    fly(&mut sender);
    sender.on_ack(at(205), &acked(400, 400 * 1472, ms(100)));
    sender.on_loss(at(206), &lost(100, 1009, ms(100)));
    assert!(sender.window() >= window * 9 / 10, "{}", sender.window());
    assert_eq!(sender.metrics().quick_start.unwrap().revoked, 0);
    for number in 101..240 {
        sender.on_loss(at(207), &lost(number, 1009, ms(100)));
    }
    assert_eq!(sender.metrics().quick_start.unwrap().revoked, 1);
    assert!(sender.window() <= 201 * 1472, "{}", sender.window());
}
