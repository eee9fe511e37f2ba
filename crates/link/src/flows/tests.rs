use pathmark_cc::{Carried, Duration};
use proptest::prelude::*;

use super::*;
use crate::testing::{VCP, packet};

const RATE: u64 = 2_500_000;

fn heard(kind: Kind) -> bool {
    kind == Kind::Heard
}

/// The classes' worth after 10 s in which `arrivals` adds the packets of each millisecond.
fn worth(mut arrivals: impl FnMut(u64, &mut Flows)) -> Worth {
    let (mut flows, mut worth) = (Flows::new(), Worth::default());
    for ms in 1..10_000 {
        arrivals(ms, &mut flows);
        if let Some(settled) = flows.poll(Instant::from_millis(ms), RATE) {
            worth = settled;
        }
    }
    worth
}

fn flows_of(q8: u64) -> f64 {
    q8 as f64 / ONE_FLOW_Q8 as f64
}

#[test]
fn a_flow_belongs_to_the_class_as_long_as_it_carries_feedback() {
    let mut flows = Flows::new();
    let at = Instant::from_millis;
    assert!(
        !heard(flows.note(at(1), &packet(0, 1000, Carried::Foreign))),
        "an empty place is no flow's"
    );
    assert!(!heard(
        flows.note(at(1), &packet(7, 1000, Carried::Foreign))
    ));
    assert!(heard(flows.note(at(2), &packet(7, 1000, VCP))));
    assert!(heard(
        flows.note(at(4000), &packet(7, 1000, Carried::Foreign))
    ));
    assert!(flows.knows(at(4000), &packet(7, 1000, Carried::Foreign)));
    assert!(!heard(
        flows.note(at(4000), &packet(8, 1000, Carried::Foreign))
    ));
    // A "millisecond" here is 2^20 ns.
    assert!(!heard(
        flows.note(at(5300), &packet(7, 1000, Carried::Foreign))
    ));
}

#[test]
fn equal_flows_are_worth_their_number() {
    let worth = worth(|ms, flows| {
        let now = Instant::from_millis(ms);
        flows.note(now, &packet(100, 1000, VCP));
        let foreign = packet((ms % 20) as u32, 1000, Carried::Foreign);
        flows.note(now, &foreign);
    });
    assert!((flows_of(worth.heard_q8) - 1.0).abs() < 0.01);
    assert!((flows_of(worth.foreign_q8) - 20.0).abs() < 0.3, "{worth:?}");
}

#[test]
fn a_new_flow_with_each_packet_is_worth_one_in_all() {
    for carried in [VCP, Carried::Foreign] {
        let worth = worth(|ms, flows| {
            let now = Instant::from_millis(ms);
            for n in 0..3 {
                flows.note(now, &packet(1000 + 3 * ms as u32 + n, 1200, carried));
            }
        });
        assert!(
            flows_of(worth.heard_q8.max(worth.foreign_q8)) < 1.5,
            "{worth:?}"
        );
    }
}

#[test]
fn small_flows_that_last_buy_nothing_for_a_large_one() {
    let worth = worth(|ms, flows| {
        let now = Instant::from_millis(ms);
        flows.note(now, &packet(1, 1500, Carried::Foreign));
        flows.note(now, &packet(100 + (ms % 100) as u32, 60, Carried::Foreign));
        // Nor for one that uses another flow hash for each packet.
        flows.note(now, &packet(2, 50, VCP));
        flows.note(now, &packet(1000 + ms as u32, 1500, VCP));
        flows.note(now, &packet(200 + (ms % 50) as u32, 60, VCP));
    });
    assert!(flows_of(worth.foreign_q8) < 1.2, "{worth:?}");
    assert!(flows_of(worth.heard_q8) < 4.0, "{worth:?}");
}

/// Fifty flows of 20 kB/s are worth `expected` flows if `lost` percent of their packets are
/// dropped. `round_trip` is the law's interval in milliseconds, if it has one.
fn assert_worth(carried: Carried, round_trip: Option<u64>, lost: u64, expected: f64) {
    let heard = carried == VCP;
    let worth = worth(|ms, flows| {
        if let Some(round_trip) = round_trip {
            flows.watch.set_interval(Duration::from_millis(round_trip));
        }
        let packet = packet((ms % 50) as u32, 1000, carried);
        flows.note(Instant::from_millis(ms), &packet);
        if ms % 100 < lost {
            flows.dropped(heard, 1000);
        }
    });
    let worth = if heard {
        worth.heard_q8
    } else {
        worth.foreign_q8
    };
    let got = flows_of(worth);
    assert!(
        (got / expected - 1.0).abs() < 0.2,
        "{carried:?}, {round_trip:?} ms, {lost} %: {got}"
    );
}

#[test]
fn flows_that_heed_no_losses_are_worth_one() {
    for (lost, flows) in [(10, 50.0), (18, 25.0), (60, 1.0)] {
        assert_worth(Carried::Foreign, None, lost, flows);
    }
}

#[test]
fn flows_with_feedback_are_worth_less_from_a_quarter_of_losses_on() {
    for (lost, flows) in [(18, 50.0), (37, 25.0), (60, 1.0)] {
        assert_worth(VCP, None, lost, flows);
    }
}

/// With half a packet each per round trip, flows cannot send less, but with 13 they can.
#[test]
fn losses_of_flows_with_small_windows_do_not_count() {
    for (round_trip, flows) in [(40, 50.0), (450, 25.0), (1000, 1.0)] {
        assert_worth(VCP, Some(round_trip), 60, flows);
    }
}

#[test]
fn a_full_table_keeps_the_flows_that_last() {
    let mut heard_after = 0;
    let worth = worth(|ms, flows| {
        let now = Instant::from_millis(ms);
        let own = packet(
            (ms % 10) as u32,
            1000,
            if ms % 70 < 10 { VCP } else { Carried::Foreign },
        );
        if heard(flows.note(now, &own)) && ms > 1000 {
            heard_after += 1;
        }
        for n in 0..20 {
            let flood = packet(1_000 + 20 * ms as u32 + n, 64, Carried::Foreign);
            flows.note(now, &flood);
        }
    });
    assert_eq!(heard_after, 8999);
    assert!((flows_of(worth.heard_q8) - 10.0).abs() < 0.3, "{worth:?}");
}

#[test]
fn after_silence_nothing_is_known() {
    let mut flows = Flows::new();
    for ms in 1..5000 {
        flows.note(
            Instant::from_millis(ms),
            &packet((ms % 9) as u32, 1500, VCP),
        );
        let _ = flows.poll(Instant::from_millis(ms), RATE);
    }
    let later = flows.poll(Instant::from_millis(20_000), RATE);
    assert_eq!(later, Some(Worth::default()));
}

proptest! {
    /// With any input, a class must be worth at least one flow and at most as many as the table
    /// holds.
    #[test]
    fn is_bounded(
        steps in prop::collection::vec(
            (0u64..300, any::<u16>(), 0u32..=u32::MAX, any::<bool>()), 1..300,
        ),
    ) {
        let (mut flows, mut ms) = (Flows::new(), 1);
        for (gap, flow, bytes, heard) in steps {
            ms += gap;
            let carried = if heard { VCP } else { Carried::Foreign };
            let now = Instant::from_millis(ms);
            flows.note(now, &packet(u32::from(flow % 40), bytes, carried));
            flows.dropped(heard, u64::from(bytes / 8));
            if let Some(worth) = flows.poll(now, u64::from(bytes)) {
                for q8 in [worth.heard_q8, worth.foreign_q8] {
                    prop_assert!((ONE_FLOW_Q8..=(SETS * WAYS) as u64 * ONE_FLOW_Q8).contains(&q8));
                }
            }
        }
    }
}
