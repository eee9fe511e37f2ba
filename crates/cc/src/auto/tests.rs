mod first_packets;

use super::AutoSender;
use crate::base::{Duration, Instant};
use crate::law::{Controller, Limits};
use crate::quick_start::{AfterGrant, QuickStart, Startable};
use crate::signals::{
    Carrier, Explicit, Feedback, QuickStartPurpose, QuickStartRequest, VcpFeedback, XcpFeedback,
    XcpForm,
};
use crate::supervise::FallbackLaw;
use crate::testing::{acked, approval, at, codes, lost, ms, sent, stamped};

const MTU: u16 = 1200;
const RTT: Duration = Duration::from_millis(100);

/// A path over which ten packets return per round trip.
struct Path {
    law: AutoSender,
    now: Instant,
    number: u64,
}

impl Path {
    fn new() -> Self {
        Self {
            law: AutoSender::new(Instant::ZERO, MTU, None, FallbackLaw::Cubic),
            now: Instant::ZERO,
            number: 0,
        }
    }

    /// A tenth of a round trip: a packet is sent, and an earlier packet returns with this feedback.
    fn step(&mut self, feedback: Option<Feedback>) {
        self.now += ms(10);
        self.law.on_limits(self.now, &Limits::NONE);
        let _ = self.law.request();
        let state = self.law.on_sent(self.now, &sent(self.number, 1200));
        let mut acked = acked(self.number.saturating_sub(10), 1200, RTT);
        acked.state = state;
        if let Some(feedback) = feedback {
            self.law.on_feedback(self.now, &feedback, &acked);
        }
        self.law.on_ack(self.now, &acked);
        self.number += 1;
    }

    fn rounds(&mut self, rounds: u32, feedback: Option<Feedback>) {
        for _ in 0..10 * rounds {
            self.step(feedback);
        }
    }

    fn asks_in(&self) -> Explicit {
        self.law.request().signal.unwrap()
    }

    fn asks_xcp(&self) -> bool {
        matches!(self.asks_in(), Explicit::Xcp(_))
    }
}

fn xcp(stamped: u64, delta: i64, translated: bool) -> Option<Feedback> {
    Some(Feedback::Xcp(XcpFeedback {
        delta: delta << 16,
        stamped,
        hops: 1,
        translated,
        // A port names itself if it lowers the request.
        router: u16::from(delta > 0),
        ..self::stamped(0)
    }))
}

/// One packet with `code`.
fn vcp(code: usize, translated: bool) -> Option<Feedback> {
    let mut packets = [0; 4];
    packets[code] = 1;
    Some(Feedback::Vcp(VcpFeedback {
        t_rho: ms(200),
        hops: 1,
        bise: true,
        carried_r: true,
        translated,
        ..codes(packets, 1200)
    }))
}

#[test]
fn it_asks_in_xcp_until_a_port_of_vcp_bounds_it_and_keeps_its_window() {
    let mut path = Path::new();
    assert!(path.asks_xcp());
    path.rounds(3, xcp(1, 1000, false));
    assert!(path.asks_xcp());
    assert_eq!(path.law.metrics().ruling, "xcp");
    let before = path.law.window();
    path.rounds(3, xcp(1, 0, true));
    assert_eq!(path.asks_in(), Explicit::Vcp(Carrier::Shim));
    assert_eq!(path.law.window(), before);
    // XCP feedback still in flight counts as an answer, but doesn't change anything.
    path.rounds(1, xcp(1, 50_000, true));
    assert_eq!(path.law.window(), before);
    assert!(path.law.metrics().explicit);
    path.rounds(1, vcp(2, false));
    assert_eq!(path.law.metrics().ruling, "vcp+bise+wlte");
    let grown = path.law.window();
    assert!((before..=before + 2 * u64::from(MTU)).contains(&grown));
    // The port changes to XCP.
    for _ in 0..12 {
        if !path.asks_xcp() {
            path.rounds(1, vcp(2, true));
        }
    }
    assert!(path.asks_xcp());
    let before = path.law.window();
    path.rounds(3, xcp(1, 10_000, false));
    assert_eq!(path.law.metrics().ruling, "xcp");
    assert!(path.law.window() > before);
}

#[test]
fn the_first_answer_of_a_path_decides_at_once() {
    let mut path = Path::new();
    path.step(xcp(1, 1000, true));
    assert_eq!(path.asks_in(), Explicit::Vcp(Carrier::Shim));
    path.step(vcp(1, false));
    // Routers rule from the first on.
    assert!(path.law.metrics().explicit);
}

/// `feedback` over a path on which TTLs show a hop that isn't one of this library's routers.
fn shown(feedback: Option<Feedback>) -> Option<Feedback> {
    let mut feedback = feedback?;
    match &mut feedback {
        Feedback::Xcp(xcp) => xcp.unmarked_hop = Some(true),
        Feedback::Vcp(vcp) => vcp.unmarked_hop = Some(true),
        _ => {}
    }
    Some(feedback)
}

/// If a server writes a few small streams before its data, its first headers don't request
/// anything. The port still indicates its law, which the sender follows immediately.
#[test]
fn a_port_that_was_asked_for_nothing_is_known_by_its_answers() {
    let mut path = Path::new();
    path.step(shown(xcp(1, 0, true)));
    assert_eq!(path.asks_in(), Explicit::Vcp(Carrier::Shim));
    path.rounds(1, shown(vcp(1, false)));
    assert_eq!(path.law.metrics().ruling, "vcp+bise+wlte");
}

/// A hop drops half of the packets until CUBIC controls the window.
fn overflow(path: &mut Path, feedback: Option<Feedback>) {
    let end = path.now + RTT * 200;
    while path.law.metrics().explicit {
        path.step(feedback);
        let mut loss = lost(path.number - 5, path.number, RTT);
        loss.packets = 2;
        path.law.on_loss(path.now, &loss);
        assert!(path.now < end, "half of all packets are lost");
    }
    assert_eq!(path.law.metrics().ruling, "cubic");
}

/// The active law is that of the answering port, whatever happened before. From each of these
/// states, 20 round trips of answers of either kind lead to this kind's law. If CUBIC controls the
/// window, it remains in control.
#[test]
fn from_every_state_answers_of_either_kind_lead_to_its_law() {
    type Step = fn(&mut Path);
    let states: [(&str, Step); 7] = [
        ("new", |_| {}),
        ("xcp", |path| path.rounds(4, xcp(1, 1000, false))),
        ("vcp", |path| {
            path.step(xcp(1, 1000, true));
            path.rounds(4, vcp(1, false));
        }),
        ("silent", |path| path.rounds(6, xcp(0, 0, false))),
        ("hidden hop under xcp", |path| {
            path.rounds(4, shown(xcp(1, 1000, false)));
            overflow(path, shown(xcp(1, 1000, false)));
        }),
        ("hidden hop under vcp", |path| {
            path.step(shown(xcp(1, 1000, true)));
            path.rounds(4, shown(vcp(1, false)));
            overflow(path, shown(vcp(1, false)));
        }),
        ("marked", |path| {
            path.rounds(4, xcp(1, 1000, false));
            let now = path.now;
            path.law.on_congestion_experienced(now, now, path.number);
        }),
    ];
    for (state, prepare) in states {
        for kinds in [[true, false], [false, true]] {
            let mut path = Path::new();
            prepare(&mut path);
            for by_vcp in kinds {
                for _ in 0..200 {
                    let before = (path.asks_xcp(), path.law.may_start());
                    // A port answers in the requested protocol.
                    let answer = if before.0 {
                        xcp(1, 0, by_vcp)
                    } else {
                        vcp(2, !by_vcp)
                    };
                    path.step(answer);
                    if path.asks_xcp() != before.0 {
                        assert_eq!(path.law.may_start(), before.1, "{state}, {kinds:?}");
                    }
                }
                assert_eq!(path.asks_xcp(), !by_vcp, "{state}, {kinds:?}");
            }
        }
    }
}

#[test]
fn without_routers_cubic_rules_and_one_that_comes_is_found() {
    let mut path = Path::new();
    path.rounds(4, xcp(0, 0, false));
    assert_eq!(path.law.metrics().ruling, "cubic");
    assert!(path.law.signal_every() >= 32);
    let before = path.law.window();
    path.step(xcp(1, 1000, true));
    assert_eq!(path.asks_in(), Explicit::Vcp(Carrier::Shim));
    path.rounds(4, vcp(2, false));
    assert_eq!(path.law.metrics().ruling, "vcp+bise+wlte");
    assert!(path.law.window() >= before);
    // The router disappears again.
    path.rounds(4, vcp(0, false));
    assert_eq!(path.law.metrics().ruling, "cubic");
}

#[test]
fn a_peer_that_knows_one_language_has_that_one() {
    let mut path = Path::new();
    path.rounds(8, vcp(1, false));
    assert_eq!(path.asks_in(), Explicit::Vcp(Carrier::Shim));
    assert_eq!(path.law.metrics().ruling, "vcp+bise+wlte");
    // Permanently, because there's no alternative.
    path.rounds(40, vcp(1, true));
    assert_eq!(path.asks_in(), Explicit::Vcp(Carrier::Shim));
}

#[test]
fn headers_cost_no_more_than_vcps_sixteen_bytes() {
    let bytes = |form| match form {
        // Over IPv6; over IPv4 it's 36.
        XcpForm::Full => 48,
        XcpForm::Compact => 16,
    };
    for rtt in [ms(2), ms(20), ms(500)] {
        for packets in [1_u32, 5, 11, 12, 30, 100, 1000, 10_000] {
            let mut law = AutoSender::new(Instant::ZERO, MTU, Some(packets), FallbackLaw::Cubic);
            law.on_handshake_rtt(Instant::ZERO, rtt);
            let Some(Explicit::Xcp(form)) = law.request().signal else {
                panic!("it begins with XCP");
            };
            let every = law.signal_every();
            assert!(bytes(form) <= 16 * every, "{packets} {rtt:?}");
            let headers = packets / every;
            assert!(headers >= 10 || every <= 3, "{packets} {rtt:?}: {headers}");
        }
    }
}

/// Routers' declarations are only in the full form, and must be known before losses are judged.
#[test]
fn declared_loss_is_asked_about_after_losses_also_where_windows_are_small() {
    // Returns which of eight packets use the full form.
    let full = |path: &mut Path| {
        let is_full = |path: &Path| path.asks_in() == Explicit::Xcp(XcpForm::Full);
        let each = (0..8).map(|_| {
            let full = is_full(path);
            assert_eq!(path.law.signal_every(), 1);
            path.number += 1;
            let _ = path.law.on_sent(path.now, &sent(path.number, 1200));
            full
        });
        each.filter(|full| *full).count()
    };
    let mut path = Path::new();
    path.rounds(1, xcp(1, 0, false));
    assert_eq!(full(&mut path), 0);
    path.law.on_loss(path.now, &lost(3, 9, RTT));
    assert_eq!(full(&mut path), 2);
    path.rounds(3, xcp(1, 0, false));
    assert_eq!(full(&mut path), 2);
    path.rounds(2, xcp(1, 0, false));
    assert_eq!(full(&mut path), 0);
}

#[test]
fn a_granted_window_goes_over_to_the_other_law_and_waits_for_its_measure() {
    let mut path = Path::new();
    path.step(xcp(1, 1000, false));
    assert!(path.law.begin_with(path.now, 1_000_000));
    path.rounds(2, xcp(1, 0, true));
    assert_eq!(path.asks_in(), Explicit::Vcp(Carrier::Shim));
    let window = path.law.window();
    assert!(window >= 1_000_000);
    // LOW doesn't reflect the grant yet.
    path.rounds(1, vcp(1, false));
    assert_eq!(path.law.window(), window);
    path.law.give_up(path.now, 12_000, 50_000, path.number);
    assert_eq!(path.law.window(), 50_000);
    path.law.raise_threshold(60_000);
    assert_eq!(path.law.window(), 60_000);
    path.law.start_with(path.now, 30_000, None);
    assert_eq!(path.law.window(), 30_000);
}

/// Whatever arrives in whatever order, there's no panic, and the window has at least one packet and
/// never grows to more than eight times its previous size.
#[test]
fn anything_may_come_at_any_time() {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for _ in 0..200 {
        let mut path = Path::new();
        for _ in 0..600 {
            let before = path.law.window();
            let translated = next(2) == 0;
            match next(12) {
                0..=4 => path.step(xcp(next(2), (next(4000) as i64) - 2000, translated)),
                5..=9 => path.step(vcp(next(4) as usize, translated)),
                10 => path.step(None),
                _ => {
                    let number = path.number;
                    path.law.on_loss(path.now, &lost(number, number, RTT));
                    match next(4) {
                        0 => path.law.on_persistent_congestion(path.now),
                        1 => path.law.on_restart(path.now, ms(next(1000))),
                        2 => path.law.on_probe_timeout(path.now),
                        _ => {
                            let now = path.now;
                            path.law.on_congestion_experienced(now, now, number);
                        }
                    }
                }
            }
            let window = path.law.window();
            assert!(window >= u64::from(MTU).min(before));
            assert!(window <= before.saturating_mul(8), "{before} {window}");
        }
    }
}

fn started() -> QuickStart<AutoSender> {
    let law = AutoSender::new(Instant::ZERO, MTU, None, FallbackLaw::Cubic);
    let mut sender = QuickStart::new(None, MTU, None, AfterGrant::SlowStart, law);
    sender.on_handshake_rtt(Instant::ZERO, RTT);
    sender
}

/// Asks with the next packet, which is `number`, and sends nine others.
fn question(sender: &mut QuickStart<AutoSender>, now: Instant, number: u64) -> QuickStartRequest {
    assert!(sender.asks(), "{number}");
    let request = sender.ask(now, number, &Limits::NONE).unwrap();
    for number in number..number + 10 {
        sender.on_sent(now, &sent(number, 1200));
    }
    request
}

fn hear(sender: &mut QuickStart<AutoSender>, now: Instant, number: u64, feedback: &Feedback) {
    let ack = acked(number, 1200, RTT);
    sender.on_feedback(now, feedback, &ack);
    sender.on_ack(now, &ack);
}

fn approved(request: &QuickStartRequest, rate: u64) -> Feedback {
    Feedback::QuickStart(approval(request, rate))
}

/// Asks for a starting rate, hears from the port if it is `ruled`, and then that `rate` is
/// approved. XCP's headers return first, translated or not, and reveal the port's law before the
/// question is answered.
fn answered(ruled: Option<Feedback>, rate: u64) -> QuickStart<AutoSender> {
    let mut sender = started();
    let first = question(&mut sender, Instant::ZERO, 0);
    if let Some(feedback) = &ruled {
        hear(&mut sender, at(100), 1, feedback);
    }
    hear(&mut sender, at(100), 0, &approved(&first, rate));
    sender
}

#[test]
fn a_granted_start_is_asked_about_again_and_given_back() {
    for ruled in [None, xcp(1, 0, true), xcp(1, 0, false)] {
        let mut sender = answered(ruled, 10_000_000);
        // Packets sent before the port is known aren't covered by a port's answer.
        let mut number = 10;
        let mut now = at(100);
        let mut second = None;
        for _ in 0..20 {
            if sender.asks() {
                second = Some(question(&mut sender, now, number));
                break;
            }
            for number in number..number + 500 {
                sender.on_sent(now, &sent(number, 1200));
            }
            now += ms(10);
            // Feedback of packets before the flight, followed by feedback of the flight.
            let old = xcp(1, 0, true).unwrap();
            hear(&mut sender, now, 2, &old);
            hear(&mut sender, now, number, &vcp(1, false).unwrap());
            number += 500;
        }
        let second = second.unwrap_or_else(|| panic!("{ruled:?}: no second question"));
        assert_eq!(second.purpose, QuickStartPurpose::Keep, "{ruled:?}");
        let before = sender.window();
        assert!(before > 400_000, "{ruled:?}: {before}");
        let later = now + RTT;
        hear(&mut sender, later, number, &approved(&second, 1_000_000));
        let window = sender.window();
        assert!(window <= 101_000, "{ruled:?}: {window} of {before}");
        assert_eq!(sender.metrics().quick_start.unwrap().lowered, 1);
    }
}

#[test]
fn a_denied_start_is_asked_for_twice_more() {
    for ruled in [None, xcp(1, 0, true)] {
        let mut sender = answered(ruled, 0);
        for round in 1..=2 {
            assert!(sender.asks(), "{ruled:?}, {round}");
            let now = at(100) + RTT * (round - 1);
            let number = 10 * u64::from(round);
            let again = question(&mut sender, now, number);
            assert_eq!(again.purpose, QuickStartPurpose::Start);
            hear(&mut sender, now + RTT, number, &approved(&again, 0));
        }
        assert!(!sender.asks(), "{ruled:?}");
    }
}

/// Routers are in control when the answer arrives.
#[test]
fn what_is_taken_back_is_given_back_under_either_law() {
    for law in [xcp(1, 1000, false), vcp(2, false)] {
        let mut path = Path::new();
        path.rounds(8, law);
        assert!(path.law.begin_with(path.now, 1_000_000), "{law:?}");
        assert!(path.law.window() >= 1_000_000, "{law:?}");
        path.law.give_back(path.now, 200_000);
        let window = path.law.window();
        assert!((200_000..=201_000).contains(&window), "{law:?}: {window}");
    }
}
