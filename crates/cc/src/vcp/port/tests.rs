//! Tests of the port: intervals and marks.

use proptest::prelude::*;

use super::VcpLink;
use crate::base::{Duration, Instant};
use crate::law::LinkController;
use crate::signals::{Answer, Arrival, Carried, VcpAnswer, VcpCarried, VcpCode};
use crate::testing::{arrival, at, foreign, header, ms};
use crate::vcp::bise::{Bise, BiseParams};
use crate::vcp::load::{LinkRule, Plain};
use crate::vcp::params::{Interval, QueueFilter, VcpLinkParams};

const CAPACITY: u64 = 12_500_000;

fn packet(bytes: u32) -> Arrival {
    let carried = VcpCarried {
        code: VcpCode::Low,
        min_rtt: Some(ms(50)),
        bise: true,
        carries_r: true,
    };
    arrival(bytes, 7, Carried::Vcp(carried))
}

fn plain(restart: bool) -> VcpLink<Plain> {
    let params = VcpLinkParams {
        restart,
        ..VcpLinkParams::default()
    };
    VcpLink::new(at(0), CAPACITY, params, Plain)
}

/// A port without restarts that computes its persistent queue with this filter.
fn filtering(queue: QueueFilter) -> VcpLink<Plain> {
    let params = VcpLinkParams {
        restart: false,
        queue,
        ..VcpLinkParams::default()
    };
    VcpLink::new(at(0), CAPACITY, params, Plain)
}

/// A port with BISE whose interval is 200 ms.
fn bise(foresee_ppm: u64) -> VcpLink<Bise> {
    let params = VcpLinkParams {
        t_rho: Interval::Fixed(ms(200)),
        foresee_ppm,
        ..VcpLinkParams::with_bise()
    };
    VcpLink::new(at(0), CAPACITY, params, Bise::new(BiseParams::default(), 1))
}

fn answer(link: &mut impl LinkController, now: Instant) -> VcpAnswer {
    match link.on_departure(now, &packet(1500), 0) {
        Answer::Vcp(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// Offers `bytes` spread over an interval of 200 ms that begins at `start`.
fn offer(link: &mut impl LinkController, start: u64, bytes: u64) {
    let parts = 100;
    for part in 0..parts {
        let share = bytes * (part + 1) / parts - bytes * part / parts;
        let now = Instant::from_micros(start * 1000 + part * 2000);
        link.on_arrival(now, &foreign(u32::try_from(share).unwrap()), 0);
    }
}

#[test]
fn foreign_bytes_count_but_get_no_mark() {
    let mut link = plain(false);
    offer(&mut link, 0, 2_000_000);
    assert_eq!(link.deadline(), Some(at(200)));
    link.on_timer(at(200), 0);
    assert_eq!(link.metrics().load_ppb, 816_326_530);
    assert_eq!(link.on_departure(at(201), &foreign(1500), 0), Answer::None);
    let answer = answer(&mut link, at(201));
    assert_eq!(answer.code, VcpCode::High);
    assert_eq!(answer.t_rho_ms, 200);
    assert_eq!(answer.load_128, 104);
    assert_eq!(answer.r, None);
    assert_eq!(link.metrics().marked, [0, 0, 1, 0]);
}

#[test]
fn erased_codes_stay_erased() {
    let mut link = plain(false);
    let mut erased = packet(1500);
    erased.carried = Carried::Vcp(VcpCarried::default());
    assert_eq!(link.on_departure(at(1), &erased, 0), Answer::None);
}

#[test]
fn the_true_time_is_used_when_the_timer_is_late() {
    let mut link = plain(false);
    offer(&mut link, 0, 2_450_000);
    link.on_timer(at(400), 0);
    assert_eq!(link.metrics().load_ppb, 500_000_000);
    assert_eq!(link.deadline(), Some(at(600)));
}

#[test]
fn a_standing_queue_alone_is_over() {
    let mut link = filtering(QueueFilter::Mean);
    link.on_timer(at(200), 5_000_000);
    assert_eq!(link.metrics().persistent_queue, 5_000_000);
    assert_eq!(link.metrics().code, VcpCode::Over);
    assert_eq!(link.metrics().load_ppb, 1_020_408_163);
}

#[test]
fn queue_samples_are_those_between_events() {
    // The queue is 10 000 B from 0 to 100 ms and 30 000 B afterwards: ten samples each.
    for (filter, expected) in [(QueueFilter::Mean, 20_000), (QueueFilter::Min, 10_000)] {
        let mut link = filtering(filter);
        link.on_arrival(at(100), &foreign(20_000), 10_000);
        link.on_timer(at(200), 30_000);
        assert_eq!(link.metrics().persistent_queue, expected);
    }
}

#[test]
fn an_idle_port_sleeps_and_begins_with_the_next_packet() {
    let mut link = plain(true);
    assert_eq!(link.deadline(), None);
    link.on_arrival(at(1230), &packet(1500), 0);
    assert_eq!(link.deadline(), Some(at(1430)));
    offer(&mut link, 1230, 2_000_000);
    link.on_timer(at(1430), 0);
    assert_eq!(link.metrics().code, VcpCode::High);
    // After a whole interval without packets the port is asleep again, and forgets the old code on
    // waking.
    link.on_timer(at(1630), 0);
    assert_eq!(link.deadline(), None);
    link.on_arrival(at(9000), &packet(1500), 0);
    assert_eq!(link.metrics().code, VcpCode::Low);
}

#[test]
fn an_interval_closes_early_once_it_is_full() {
    let mut link = plain(true);
    // γ·C·t_ρ = 2 450 000 B within 80 ms.
    for n in 0..40u64 {
        link.on_arrival(at(2 * n), &foreign(60_000), 0);
        assert_eq!(link.metrics().code, VcpCode::Low);
    }
    link.on_arrival(at(80), &foreign(50_000), 0);
    assert_eq!(link.metrics().code, VcpCode::Over);
    assert_eq!(link.deadline(), Some(at(280)));
}

/// After a tail drop, packets leave with OVER until a whole interval has passed without a drop,
/// with and without BISE, and XCP packets get negative feedback.
#[test]
fn tail_drops_are_over_until_an_interval_without_them() {
    fn drops<R: LinkRule>(mut link: VcpLink<R>) {
        let code = |link: &mut VcpLink<R>, now: u64| {
            link.on_arrival(at(now), &packet(1500), 0);
            answer(link, at(now)).code
        };
        let end = |link: &mut VcpLink<R>, now: u64| link.on_timer(at(now), 0);
        assert_eq!(code(&mut link, 0), VcpCode::Low);
        link.on_drop(at(50), &packet(1500));
        assert_eq!(code(&mut link, 60), VcpCode::Over);
        end(&mut link, 200);
        // For the length of an interval from then on, with another drop near its end.
        assert_eq!(code(&mut link, 210), VcpCode::Over);
        link.on_drop(at(240), &packet(1500));
        end(&mut link, 400);
        assert_eq!(code(&mut link, 439), VcpCode::Over);
        let asks = Arrival {
            carried: Carried::Xcp(header(100_000, 1 << 30, 1 << 40)),
            ..packet(1500)
        };
        let Answer::Xcp(answer) = link.on_departure(at(439), &asks, 0) else {
            panic!("no XCP answer")
        };
        assert!(answer.delta < 0, "{}", answer.delta);
        assert_eq!(code(&mut link, 440), VcpCode::Low);
        assert_eq!(link.metrics().code, VcpCode::Low);
    }
    drops(plain(true));
    drops(bise(500_000));
}

#[test]
fn what_is_measured_is_what_is_advertised() {
    let (params, rule) = (VcpLinkParams::with_bise(), BiseParams::default());
    let mut link = VcpLink::new(at(0), CAPACITY, params, Bise::new(rule, 1));
    let mut short = packet(1500);
    link.on_arrival(at(0), &foreign(1500), 0);
    assert_eq!(answer(&mut link, at(1)).t_rho_ms, 1000);
    if let Carried::Vcp(carried) = &mut short.carried {
        carried.min_rtt = Some(ms(100));
    }
    link.on_arrival(at(10), &short, 0);
    assert_eq!(answer(&mut link, at(11)).t_rho_ms, 230);
    assert_eq!(link.deadline(), Some(at(230)));
    assert_eq!(link.metrics().interval, ms(230));
}

#[test]
fn the_first_interval_does_not_promise_what_it_has_already_used() {
    let mut link = bise(500_000);
    link.on_arrival(at(0), &packet(1500), 0);
    assert_eq!(answer(&mut link, at(0)).r, Some(u16::MAX));
    // Half a full load has arrived, so r has the value for ρ = 0.5, and not 1.
    for n in 0..50u64 {
        link.on_arrival(at(n), &packet(25_000), 0);
    }
    let r = answer(&mut link, at(51)).r.unwrap();
    assert!((1900..=3300).contains(&r), "{r}");
}

#[test]
fn while_mi_rules_half_of_what_has_come_lowers_r_within_the_interval() {
    let r = |foresee_ppm: u64, first: u32| {
        let mut link = bise(foresee_ppm);
        link.on_arrival(at(0), &packet(first), 0);
        link.on_timer(at(200), 0);
        // Half a full load within a quarter of the next interval.
        for n in 0..50u64 {
            link.on_arrival(at(200 + n), &packet(25_000), 0);
        }
        answer(&mut link, at(251)).r.unwrap()
    };
    // With a load of 0.006, r is 1. Half of the half load that arrived since then gives r the value
    // for ρ = 0.25: 0.099.
    assert_eq!(r(0, 15_000), u16::MAX);
    let foreseen = r(500_000, 15_000);
    assert!((6300..=8200).contains(&foreseen), "{foreseen}");
    // A load of 0.1 gives an estimate, so r does not change.
    let known = r(0, 250_000);
    assert!((17_000..=20_000).contains(&known), "{known}");
    assert_eq!(r(500_000, 250_000), known);
}

#[test]
fn a_changing_capacity_counts_for_as_long_as_it_lasted() {
    let mut link = plain(false);
    // For a quarter of the interval the capacity is a tenth: 0.775 of the capacity on average, of
    // which 0.7 of the capacity is a load of 0.92.
    link.on_capacity(at(100), CAPACITY / 10);
    link.on_capacity(at(150), CAPACITY);
    link.on_arrival(at(160), &packet(1_750_000), 0);
    link.on_timer(at(200), 0);
    assert_eq!(link.metrics().code, VcpCode::High);
    let expected = 0.7 / (0.775 * 0.98);
    let measured = link.metrics().load_ppb as f64 / 1e9;
    assert!((measured - expected).abs() < 1e-3, "{measured} {expected}");
    // The capacity is a tenth for the whole interval.
    link.on_capacity(at(200), CAPACITY / 10);
    link.on_arrival(at(300), &packet(250_000), 0);
    link.on_timer(at(400), 0);
    assert_eq!(link.metrics().code, VcpCode::Over);
}

#[test]
fn over_is_not_for_a_flow_with_little() {
    let of = |flow_hash, carries_r| {
        let mut packet = packet(1500);
        packet.flow_hash = flow_hash;
        if let Carried::Vcp(carried) = &mut packet.carried {
            carried.carries_r = carries_r;
        }
        packet
    };
    let (large, medium, small) = (1, 2, 3);
    let mut link = bise(500_000);
    // The medium flow has three tenths, and the small flow one tenth.
    let mut interval = |begin: u64, packets: u64| {
        for n in 0..packets {
            let flow = match n % 10 {
                0 => small,
                1..=3 => medium,
                _ => large,
            };
            let now = at(begin) + Duration::from_micros(n * 198_000 / packets);
            link.on_arrival(now, &of(flow, true), 0);
        }
        link.on_timer(at(begin + 201), 0);
        let packets = [
            of(large, true),
            of(medium, true),
            of(small, true),
            of(small, false),
        ];
        packets.map(
            |packet| match link.on_departure(at(begin + 202), &packet, 0) {
                Answer::Vcp(answer) => (answer.code, answer.load_128 >= 128),
                other => panic!("{other:?}"),
            },
        )
    };
    // 1.02 of the capacity that γ leaves. A flow that cannot read the load always gets OVER.
    use VcpCode::{High, Low, Over};
    let marks = interval(0, 1683);
    assert_eq!(marks.map(|(code, _)| code), [Over, High, Low, Over]);
    assert!(marks.iter().all(|(_, full)| *full));
    // At a load that must leave a queue, the small flow has to wait as well.
    let codes = interval(201, 1900).map(|(code, _)| code);
    assert_eq!(codes, [Over, High, High, Over]);
    let header = header(100_000, 1 << 30, 1 << 50);
    let mut delta = |flow_hash| {
        let packet = Arrival {
            carried: Carried::Xcp(header),
            ..of(flow_hash, true)
        };
        match link.on_departure(at(502), &packet, 0) {
            Answer::Xcp(answer) => answer.delta,
            other => panic!("{other:?}"),
        }
    };
    assert!(delta(large) < 0 && delta(small) > 0);
}

#[test]
fn a_capacity_told_again_and_again_leaves_the_interval_alone() {
    let mut link = plain(true);
    link.on_arrival(at(0), &packet(250_000), 0);
    for tick in 1..4 {
        // The rest of the capacity varies slightly every 50 ms.
        link.on_capacity(at(50 * tick), CAPACITY - tick * 1000);
        assert_eq!(link.metrics().load_ppb, 0);
        assert_eq!(link.deadline(), Some(at(200)));
    }
    link.on_timer(at(200), 0);
    let measured = link.metrics().load_ppb as f64 / 1e9;
    assert!((measured - 0.1 / 0.98).abs() < 1e-3, "{measured}");
}

#[test]
fn a_run_counts_as_its_packets_do() {
    let (mut whole, mut single) = (plain(false), plain(false));
    for millis in (0..200).step_by(5) {
        let run = packet(40_123);
        whole.on_arrivals(at(millis), &run, 28, 0);
        let sizes: Vec<u32> = run.each(28).map(|one| one.bytes).collect();
        assert_eq!(sizes[..27], [1432; 27]);
        assert_eq!(sizes.iter().sum::<u32>(), 40_123);
        for bytes in sizes {
            single.on_arrival(at(millis), &packet(bytes), 0);
        }
    }
    for link in [&mut whole, &mut single] {
        link.on_timer(at(200), 0);
    }
    // 40 runs: 1 604 920 of 0.98 * 2 500 000 bytes.
    assert_eq!(whole.metrics().load_ppb, 655_069_387);
    assert_eq!(single.metrics().load_ppb, 655_069_387);
}

#[test]
fn intervals_are_rounded_up() {
    let millis = VcpAnswer::whole_millis;
    assert_eq!(millis(Duration::ZERO), 0);
    assert_eq!(millis(Duration::from_nanos(200_000_001)), 201);
    assert_eq!(millis(ms(200)), 200);
    assert_eq!(millis(ms(65_535)), 65_535);
    assert_eq!(millis(Duration::from_secs(70)), 65_535);
    assert_eq!(millis(Duration::MAX), 65_535);
}

proptest! {
    /// Any arrivals at any time do not panic, deadlines advance, and marks are counted.
    #[test]
    fn any_traffic_is_survived(
        events in prop::collection::vec(
            (0u64..2_000_000_000, 0u32..10_000_000, any::<u32>(), 0u8..4, any::<u64>()),
            1..200,
        ),
        capacity in 1u64..1_000_000_000_000,
        bise: bool,
    ) {
        let mut link: Box<dyn LinkController> = if bise {
            let rule = Bise::new(BiseParams::default(), 3);
            Box::new(VcpLink::new(at(0), capacity, VcpLinkParams::with_bise(), rule))
        } else {
            Box::new(VcpLink::new(at(0), capacity, VcpLinkParams::default(), Plain))
        };
        let mut now = 0u64;
        let mut departures = 0;
        for (gap, bytes, flow_hash, code, queue) in events {
            now += gap;
            let instant = Instant::from_nanos(now);
            if let Some(due) = link.deadline().filter(|due| *due <= instant) {
                link.on_timer(instant, queue);
                prop_assert!(link.deadline().is_none_or(|next| next > due));
            }
            let arrival = arrival(bytes, flow_hash, Carried::Vcp(VcpCarried {
                    code: VcpCode::from_bits(code),
                    min_rtt: Some(Duration::from_nanos(queue)),
                    bise: flow_hash & 1 == 0,
                    carries_r: flow_hash & 2 == 0,
                }));
            link.on_arrival(instant, &arrival, queue);
            match link.on_departure(instant, &arrival, queue) {
                Answer::Vcp(answer) => {
                    departures += 1;
                    prop_assert!(code != 0);
                    prop_assert!(answer.code >= VcpCode::Low);
                    prop_assert!(answer.t_rho_ms <= 10_000);
                    let advertised = Duration::from_millis(answer.t_rho_ms.into());
                    let rounded = advertised - link.metrics().interval;
                    prop_assert!(rounded < Duration::from_millis(1));
                }
                Answer::None => prop_assert_eq!(code, 0),
                other => prop_assert!(false, "{other:?} to a VCP packet"),
            }
        }
        prop_assert_eq!(link.metrics().marked.iter().sum::<u64>(), departures);
    }
}

/// If packets may wait on purpose, a full link is not overloaded before they do.
#[test]
fn what_may_wait_counts_as_capacity() {
    let load = |wait: Duration, restart: bool| {
        let mut link = plain(restart);
        link.on_variation(wait);
        offer(&mut link, 0, 2_500_000);
        link.on_timer(at(200), 0);
        link.metrics().load_ppb
    };
    // 2.5 MB in 200 ms at 12.5 MB/s: 1 / 0.98, or a hundredth more if an interval ends some packets
    // early. Waiting for 40 ms, halved by κ, is a tenth of the time.
    let near = |load: u64, per_mille: u64| load / 1_000_000 - per_mille <= 12;
    assert!(near(load(Duration::ZERO, true), 1020));
    assert!(near(load(ms(40), true), 925));
    assert!(near(load(ms(40), false), 1020), "the papers' port");
}
