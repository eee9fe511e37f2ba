//! Sparse flows without feedback, along with larger ones.

use pathmark_cc::{Arrival, Carried, Instant};
use proptest::prelude::*;

use super::port::arrival;
use crate::port::Port;
use crate::queue::{CoDel, CoDelConfig, DropTail, Limit, Queue};
use crate::separation::Separation;
use crate::shaper::Shaper;
use crate::testing::{Log, VCP, packet};

const ROOM: Limit = Limit::Bytes(50_000);

/// A separated port of 10 Mbit/s with room for 50 kB.
fn port() -> Port<u32> {
    port_of(1_250_000, || Box::new(DropTail::new(ROOM)))
}

/// Creates a queue.
type Make = fn() -> Box<dyn Queue<u32>>;

/// A separated port with this rate in bytes per second and this kind of queues.
fn port_of(rate: u64, queue: Make) -> Port<u32> {
    let separation = Separation::new(queue(), queue(), ROOM);
    Port::separated(Instant::ZERO, separation, Shaper::new(Some(rate)))
}

/// Results of a flow from 5 s to 20 s: packets sent and arrived, and the maximum delay in us.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    sent: u64,
    arrived: u64,
    longest: u64,
}

/// Number of flows with feedback, and the bytes that one flow at a time sends per millisecond,
/// which fill the queue of their class.
#[derive(Clone, Copy)]
struct Others(u64, u32);
const NONE: Others = Others(0, 0);
const ONE: Others = Others(1, 1500);
/// 100 flows, so that all others have 1/33 of the link.
const MANY: Others = Others(100, 1250);

/// Sends `of(ms)` in each millisecond, as (flow, bytes), for 20 s.
fn fates(
    Others(heard, bytes): Others,
    mut of: impl FnMut(u64) -> Vec<(u32, u32)>,
) -> impl Fn(u32) -> Fate {
    let mut port = port();
    let mut log = Log::default();
    let mut fates = std::collections::HashMap::<u32, Fate>::new();
    // The flow of each packet, and its sending time in ms.
    let mut packets = Vec::new();
    for ms in 1..20_000 {
        let now = Instant::from_millis(ms);
        if heard > 0 {
            let own = Arrival {
                flow_hash: 1 + (ms % heard) as u32,
                ..arrival(bytes, VCP)
            };
            packets.push((u32::MAX, ms));
            port.arrive(now, own, packets.len() as u32 - 1, &mut log);
        }
        for (flow, bytes) in of(ms) {
            if ms >= 5_000 {
                fates.entry(flow).or_default().sent += 1;
            }
            packets.push((flow, ms));
            port.arrive(
                now,
                packet(flow, bytes, Carried::Foreign),
                packets.len() as u32 - 1,
                &mut log,
            );
        }
        log.drops.clear();
        while let Some(out) = port.poll(now, &mut log) {
            let (flow, since) = packets[out.packet as usize];
            if since >= 5_000 {
                let fate = fates.entry(flow).or_default();
                let waited = out.finished.as_nanos() / 1000 - since * 1000;
                fate.arrived += 1;
                fate.longest = fate.longest.max(waited);
            }
        }
    }
    move |flow| fates.get(&flow).copied().unwrap_or_default()
}

/// A call of 100 kbit/s and an unresponsive flow of 20 Mbit/s: the call must lose no packets,
/// and each must wait only for a few packets ahead, not for the queue of 40 ms.
#[test]
fn a_call_beside_a_flood_loses_nothing_and_does_not_wait() {
    for others in [NONE, ONE] {
        let fate = fates(others, |ms| {
            let mut sent = vec![(1, 1250), (1, 1250)];
            if ms % 20 == 0 {
                sent.push((2, 250));
            }
            sent
        });
        let call = fate(2);
        assert!(
            call.sent >= 740 && call.arrived >= call.sent - 1,
            "{call:?}"
        );
        assert!(call.longest < 6_000, "{call:?}");
        assert!(fate(1).longest > 30_000, "the flood fills the queue");
    }
}

/// The first packets of a new flow must count as sparse.
#[test]
fn the_first_packets_of_a_connection_do_not_wait() {
    let fate = fates(ONE, |ms| {
        let mut sent = vec![(1, 1250), (1, 1250)];
        if ms % 500 < 3 {
            sent.push((100 + (ms / 500) as u32, 1250));
        }
        sent
    });
    for flow in 111..139 {
        let begin = fate(flow);
        assert_eq!((begin.sent, begin.arrived), (3, 3), "{flow}");
        assert!(begin.longest < 8_000, "{begin:?}");
    }
}

/// Three unresponsive flows of 12, 6 and 2 Mbit/s: the one below half of a fair share must lose
/// nothing, although 10 Mbit/s are not enough for all.
#[test]
fn who_sends_less_than_half_of_a_share_loses_nothing() {
    let fate = fates(NONE, |ms| {
        let mut sent = vec![(1, 1500)];
        if ms % 2 == 0 {
            sent.push((2, 1500));
        }
        if ms % 8 == 0 {
            sent.push((3, 1500));
        }
        sent
    });
    let kept = |flow| {
        let Fate { sent, arrived, .. } = fate(flow);
        arrived as f64 / sent as f64
    };
    assert!(kept(3) > 0.99, "{}", kept(3));
    assert!(kept(1) < 0.75, "{}", kept(1));
}

/// Two thirds of the arriving packets are new flows each. They must not starve a steady flow,
/// whose packet arrives before, between or after theirs in each millisecond.
#[test]
fn new_flows_by_the_thousand_do_not_starve_the_others() {
    let fate = fates(NONE, |ms| {
        let name = 1_000 + 2 * ms as u32;
        let mut sent = vec![(name, 1250), (name + 1, 1250)];
        let place = ((ms as u32).wrapping_mul(0x9E37_79B1) >> 16) % 3;
        sent.insert(place as usize, (1, 1250));
        sent
    });
    let Fate { sent, arrived, .. } = fate(1);
    let kept = arrived as f64 / sent as f64;
    // A common queue would leave it a third.
    assert!((0.25..0.35).contains(&kept), "{kept}");
}

/// A flood with a new flow for each packet begins during two calls: none of the calls' packets
/// may be lost or wait behind the flood's.
#[test]
fn new_flows_by_the_thousand_do_not_hold_up_calls() {
    let fate = fates(NONE, |ms| {
        let name = 1_000 + 2 * ms as u32;
        let mut sent = Vec::new();
        if ms > 2_000 {
            sent.extend([(name, 1250), (name + 1, 1250)]);
        }
        if ms % 20 == 7 {
            sent.extend([(1, 250), (2, 500)]);
        }
        sent
    });
    for call in [fate(1), fate(2)] {
        assert!(
            call.sent >= 740 && call.arrived >= call.sent - 1 && call.longest < 15_000,
            "{call:?}"
        );
    }
}

/// A class with 1/33 of the link is full of flows that send so little that all are sparse. The
/// first packets of new connections must still pass.
#[test]
fn sparse_flows_leave_connections_that_begin_their_part() {
    let fate = fates(MANY, |ms| {
        let mut sent = Vec::new();
        if ms % 8 == 0 {
            sent.push((1 + (ms / 8 % 12) as u32, 1500));
        }
        if ms % 250 == 9 {
            sent.push((100 + (ms / 250) as u32, 1200));
        }
        sent
    });
    for flow in 120..176 {
        let begin = fate(flow);
        assert_eq!((begin.sent, begin.arrived), (1, 1), "{flow}");
        assert!(begin.longest < 50_000, "{flow}: {begin:?}");
    }
}

/// Twenty connections start within an epoch, during two large flows. Their first packets, one of
/// 1200 bytes and two small ones each, must neither wait nor get lost.
#[test]
fn handshakes_beside_large_flows_do_not_wait() {
    let fate = fates(NONE, |ms| {
        let mut sent = vec![(1, 1250), (2, 1250)];
        // Every 2 s, one after the other, with 30 ms between packets.
        let (since, group) = (ms % 2_000, (ms / 2_000) as u32);
        let step = since % 30;
        if since < 90 && step < 20 {
            let bytes = if since < 30 { 1200 } else { 80 };
            sent.push((100 + 20 * group + step as u32, bytes));
        }
        sent
    });
    for flow in 160..300 {
        let begin = fate(flow);
        assert_eq!((begin.sent, begin.arrived), (3, 3), "{flow}");
        assert!(begin.longest < 10_000, "{flow}: {begin:?}");
    }
}

/// Two calls of 160 kbit/s each, in a class with 1/33 of the link, 303 kbit/s. Half of this rate
/// must remain for the large flow, and for the calls' bytes above the other half.
#[test]
fn calls_do_not_starve_a_large_flow_in_a_small_class() {
    let fate = fates(MANY, |ms| {
        // All packets have the same size, so that they find room equally often.
        let mut sent = vec![(1, 400); 3];
        if ms % 20 == 0 {
            sent.extend([(2, 400), (3, 400)]);
        }
        sent
    });
    // Over 15 s.
    let bytes = fate(1).arrived * 400;
    let class = 15 * 1_250_000 / 33;
    assert!(
        bytes * 100 > class * 40 && bytes < class,
        "{bytes} of {class}"
    );
}

/// Hashes of `flows` flows in the same set of the table.
fn one_set(flows: usize) -> Vec<u32> {
    let set = |hash: &u32| hash.wrapping_mul(0x9E37_79B1) >> 23 == 7;
    (1..).filter(set).take(flows).collect()
}

/// One step of arrivals: ms since the last one, the flow, the bytes of each packet, and their
/// number.
type Step = (u64, usize, u32, usize);

/// Lets flows with these hashes send through the port, the first two flows with feedback, so that
/// each class pushes out the other's packets. No packet may overtake an earlier one of its flow.
/// Flows that are set aside meanwhile are exempt, because they wait in the other class.
fn keeps_order(mut port: Port<u32>, hashes: &[u32], steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut log = Log::default();
    let mut now = Instant::from_millis(1);
    let (mut flows, mut last) = (Vec::new(), vec![None; hashes.len()]);
    for (gap, flow, bytes, count) in steps {
        now += pathmark_cc::Duration::from_millis(gap);
        for _ in 0..count {
            let carried = if flow < 2 { VCP } else { Carried::Foreign };
            let packet = Arrival {
                flow_hash: hashes[flow],
                ..arrival(bytes, carried)
            };
            flows.push(flow);
            port.arrive(now, packet, flows.len() as u32 - 1, &mut log);
        }
        log.drops.clear();
        while let Some(out) = port.poll(now, &mut log) {
            let flow = flows[out.packet as usize];
            let before = last[flow].replace(out.packet);
            let kept = before < Some(out.packet) || port.times_set_aside() > 0;
            prop_assert!(kept, "flow {flow}: {before:?}, {}", out.packet);
        }
    }
    Ok(())
}

proptest! {
    /// This must hold however flows change between sparse and large, and whatever is dropped or
    /// pushed out.
    #[test]
    fn no_packet_overtakes_one_of_its_flow(
        steps in prop::collection::vec((0u64..40, 0usize..6, 40u32..3000, 1usize..12), 1..400),
    ) {
        let hashes: Vec<_> = (0..6).map(|flow| packet(flow, 0, VCP).flow_hash).collect();
        keeps_order(port(), &hashes, steps)?;
    }

    /// The same if flows find a place in the table late, and lose it again, because all are in
    /// one set.
    #[test]
    fn none_does_in_a_full_set(
        steps in prop::collection::vec((0u64..40, 0usize..12, 40u32..3000, 1usize..12), 1..400),
        codel in any::<bool>(),
    ) {
        let kinds: [Make; 2] = [
            || Box::new(DropTail::new(ROOM)),
            || Box::new(CoDel::new(CoDelConfig::new(ROOM))),
        ];
        let port = port_of(1_250_000, kinds[usize::from(codel)]);
        keeps_order(port, &one_set(12), steps)?;
    }

    /// The same at a port so slow that packets wait for longer than their flow is remembered.
    #[test]
    fn none_does_where_queues_last_longer_than_flows_are_known(
        steps in prop::collection::vec(
            (prop_oneof![9 => 0u64..2_000, 1 => 0u64..100_000], 0usize..6, 40u32..3000, 1usize..6),
            1..200,
        ),
    ) {
        let port = port_of(1_000, || Box::new(DropTail::new(ROOM)));
        keeps_order(port, &one_set(6), steps)?;
    }
}
