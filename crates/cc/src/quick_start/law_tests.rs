//! Grants at a port, and how its law counts them.

use super::*;
use crate::base::Instant;
use crate::law::LinkController;
use crate::signals::{Answer, Arrival, Carried, VcpCarried, VcpCode};
use crate::testing::{approved, arrival, asking, at, foreign, header, ms};
use crate::vcp::{Bise, BiseParams};
use crate::vcp::{Interval, VcpLink, VcpLinkParams};
use crate::xcp::{XcpLink, XcpLinkParams};

/// 100 Mbit/s in bytes per second.
const CAPACITY: u64 = 12_500_000;

fn carrying(flow: u32, carried: Carried) -> Arrival {
    arrival(1500, flow, carried)
}

/// Returns the approved rate for a request of everything, with an RTT of up to 128 ms.
fn ask(port: &mut impl LinkController, millis: u64, flow: u32) -> u64 {
    ask_over(port, millis, flow, 128)
}

/// The same with an RTT of up to `rtt` milliseconds.
fn ask_over(port: &mut impl LinkController, millis: u64, flow: u32, rtt: u64) -> u64 {
    approved(port, millis, &asking(flow, u64::MAX, rtt)).unwrap()
}

fn vcp() -> QuickStartLink<VcpLink<Bise>> {
    let params = VcpLinkParams {
        t_rho: Interval::Fixed(ms(200)),
        ..VcpLinkParams::with_bise()
    };
    let rule = Bise::new(BiseParams::default(), 1);
    let law = VcpLink::new(at(0), CAPACITY, params, rule);
    QuickStartLink::with_law(at(0), CAPACITY, 7, law)
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
            // Half of the capacity.
            port.on_arrivals(at(millis), &foreign(6250), 4, 0);
            if millis == 200 {
                port.on_timer(at(200), 0);
            }
        }
        assert!((CAPACITY / 3..CAPACITY / 2).contains(&granted), "{granted}");
        port.on_timer(at(400), 0);
        let load = port.metrics().load_ppb;
        // The earliest grant is given up shortly before the interval ends.
        assert!((815_000_000..870_000_000).contains(&load), "{late}: {load}");
        // Nothing arrives, and later intervals only show actual traffic.
        for millis in 400..800 {
            port.on_arrivals(at(millis), &foreign(6250), 4, 0);
            if millis % 200 == 0 {
                port.on_timer(at(millis), 0);
            }
        }
        port.on_timer(at(800), 0);
        let load = port.metrics().load_ppb;
        assert!((500_000_000..520_000_000).contains(&load), "{late}: {load}");
    }
}

/// A link in use doesn't grant anything on credit to a flight that would arrive after its grant has
/// ended, and only little to a source that leaves its grants unused, however often it asks.
#[test]
fn forged_questions_take_little_of_a_link_in_use() {
    for (rtt, least, most) in [(80_000, 0.0, 0.0), (2_100, 0.0, 0.0), (1_000, 0.3, 0.6)] {
        let mut port = vcp();
        let mut granted = 0;
        for millis in 0..13_000 {
            if millis > 1000 && millis % 1000 == 0 {
                granted += ask_over(&mut port, millis, 2, rtt);
            }
            for _ in 0..8 {
                let data = carrying(1, Carried::Vcp(VcpCarried::default()));
                port.on_arrival(at(millis), &data, 0);
            }
            port.on_timer(at(millis), 0);
        }
        let part = granted as f64 / CAPACITY as f64;
        assert!(part >= least && part <= most, "{rtt} ms: {part}");
    }
}

/// A hop behind the port doesn't take part, so the flow must not use its grant, and continues with
/// a few packets.
#[test]
fn a_grant_that_a_flow_goes_on_without_counts_for_nothing() {
    let mut port = vcp();
    let mut before = None;
    for millis in 0..400 {
        if millis == 205 {
            before = port.metrics().r_q32;
            assert!(ask(&mut port, millis, 2) > CAPACITY / 3);
            assert!(port.metrics().r_q32 < before);
        }
        port.on_arrivals(at(millis), &foreign(6250), 4, 0);
        if millis > 205 && millis % 5 == 0 {
            port.on_arrival(at(millis), &carrying(2, Carried::Foreign), 0);
        }
        if millis == 200 {
            port.on_timer(at(200), 0);
        }
    }
    assert_eq!(port.metrics().r_q32, before);
    port.on_timer(at(400), 0);
    let load = port.metrics().load_ppb;
    assert!((500_000_000..560_000_000).contains(&load), "{load}");
}

#[test]
fn requests_under_false_names_take_nobodys_rate() {
    let mut port = vcp();
    let (mut worst, mut shown) = (0, 0);
    for millis in 0..60_000 {
        // The address changes each time, and nothing is ever sent.
        if millis % 200 == 50 {
            let flow = u32::try_from(millis).unwrap();
            let _ = ask(&mut port, millis, flow);
        }
        port.on_arrivals(at(millis), &foreign(6250), 4, 0);
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
    // Before that, the whole link was granted to the first flow.
    assert!(port.metrics().r_q32.unwrap() < 1 << 26);
}

/// Returns the rate given to a flow's packet in bytes per second.
fn given(port: &mut impl LinkController, millis: u64, flow: u32) -> i64 {
    // Ten packets per round trip.
    let packet = carrying(flow, Carried::Xcp(header(100_000, 10_995_116_277, 1 << 50)));
    port.on_arrival(at(millis), &packet, 0);
    match port.on_departure(at(millis), &packet, 0) {
        Answer::Xcp(answer) => answer.delta >> 16,
        other => panic!("{other:?}"),
    }
}

fn xcp(params: XcpLinkParams) -> QuickStartLink<XcpLink> {
    let law = XcpLink::new(at(0), CAPACITY, params);
    QuickStartLink::with_law(at(0), CAPACITY, 7, law)
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

/// Headers promised the rest of the link to a flow whose answer was lost. Because it asks for a
/// total, it is granted the rate promised to it, but not the rate promised to others.
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

/// A port that keeps plain packets apart doesn't report a question's arrival to its law.
#[test]
fn what_was_promised_before_a_pause_is_free_for_a_question_that_comes_first() {
    for (pause, used) in [(100, CAPACITY), (3000, 0), (1_000_000, 0)] {
        let mut port = xcp(XcpLinkParams::default());
        // A flow is given all that the port has, but doesn't send it.
        for n in 0..40 {
            let _ = given(&mut port, n / 10, 2);
        }
        let asks = asking(1, CAPACITY, 128);
        let Answer::QuickStart(answer) = port.on_departure(at(3 + pause), &asks, 0) else {
            panic!("a question is answered");
        };
        let free = CAPACITY * 85 / 100;
        let free = free.saturating_sub(used).max(CAPACITY / 20);
        assert!(answer.approved.abs_diff(free) <= 1, "{pause}: {answer:?}");
    }
}

/// The first packets of a flow whose law isn't settled yet carry VCP's codes, and an idle port
/// keeps a guest's share for it. This share must be granted to this flow, but not to others.
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
            // Four packets within 200 ms count as used.
            let free = [CAPACITY / 20, most - 30_000][usize::from(asker == 1)];
            assert!(granted.abs_diff(free) <= 1, "{code:?} {asker}: {granted}");
            // Little remains: a second flow gets the maximum for newcomers.
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
    // A round trip later, it sends at this rate and states it.
    let packets = granted / 10 / 1500;
    let mut refused = 0;
    for n in 0..packets {
        let now = Instant::from_micros(100_000 + n * 100_000 / packets);
        let header = header(100_000, 109_951_162_777 / packets, 0);
        let packet = carrying(1, Carried::Xcp(header));
        refused += u64::from(!port.admits(now, &packet));
        port.on_arrival(now, &packet, 0);
        let _ = port.on_departure(now, &packet, 0);
    }
    assert!(refused * 50 <= packets, "{refused} of {packets}");
}
