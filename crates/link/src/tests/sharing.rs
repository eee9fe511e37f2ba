//! The shares of packets with and without feedback in one port.

use pathmark_cc::{Answer, Arrival, Carried, Duration, Instant};

use super::port::{Witness, arrival};
use crate::port::Port;
use crate::queue::{CoDel, CoDelConfig, Limit};
use crate::separation::Separation;
use crate::shaper::Shaper;
use crate::stats::DropCause;
use crate::testing::{Log, Steady, VCP, packet, separated};

/// Keeps both classes backlogged, and returns the bytes that each has sent.
fn compete(heard_bytes: u32, foreign_bytes: u32) -> (u64, u64) {
    let mut port = separated(1_000_000, Limit::Bytes(100_000));
    let (mut log, mut now, mut sent) = (Log::default(), Instant::ZERO, (0, 0));
    while now < Instant::from_millis(5_000) {
        for _ in 0..4 {
            port.arrive(now, arrival(heard_bytes, VCP), 0, &mut log);
            port.arrive(now, arrival(foreign_bytes, Carried::Foreign), 1, &mut log);
        }
        let out = port.poll(now, &mut log).unwrap();
        now = out.finished;
        if out.packet == 0 {
            sent.0 += u64::from(out.arrival.bytes);
        } else {
            sent.1 += u64::from(out.arrival.bytes);
        }
    }
    sent
}

#[test]
fn classes_share_evenly_whatever_their_packet_sizes() {
    for (heard, foreign) in [(1500, 1500), (1500, 100), (576, 1500), (1500, 30_000)] {
        let (a, b) = compete(heard, foreign);
        let share = a as f64 / (a + b) as f64;
        assert!((share - 0.5).abs() < 0.02, "{heard}/{foreign}: {share}");
    }
}

/// Sends at 20 Mbit/s the packets that `heard` and `foreign` flows keep in the queue. Each class
/// has one window for all its flows, which increases by one per turn and is halved by a drop.
/// Returns the first class's share of the link from 5 s to 10 s, and the maximum delay of a
/// small packet that arrives every 50 ms, one at a time. `pinged` is this packet's flow and
/// contents.
fn share_of(heard: u32, foreign: u32, pinged: (u32, Carried)) -> (f64, Duration) {
    const PING: u32 = 2;
    let mut port = separated(2_500_000, Limit::Bytes(500_000));
    let (mut log, mut now, mut sent) = (Log::default(), Instant::from_millis(1), [0u64; 2]);
    let (mut next, mut waiting, mut window) = ([0u32; 2], [0u32; 2], [10.0; 2]);
    let (mut pinged_at, mut longest) = (Instant::from_millis(5000), Duration::ZERO);
    let mut under_way = false;
    while now < Instant::from_millis(10_000) {
        if !under_way && pinged_at + Duration::from_millis(50) <= now {
            let ping = Arrival {
                flow_hash: pinged.0,
                ..arrival(100, pinged.1)
            };
            port.arrive(now, ping, PING, &mut log);
            (pinged_at, under_way) = (now, log.drops.is_empty());
            log.drops.clear();
        }
        for (class, count, carried) in [(0, heard, VCP), (1, foreign, Carried::Foreign)] {
            while count > 0 && waiting[class] < window[class] as u32 {
                let flow = 1 + 2 * (next[class] % count) + class as u32;
                let packet = packet(flow, 1500, carried);
                (next[class], waiting[class]) = (next[class] + 1, waiting[class] + 1);
                port.arrive(now, packet, class as u32, &mut log);
                for (class, _) in log.drops.drain(..) {
                    if class == PING {
                        under_way = false;
                        continue;
                    }
                    waiting[class as usize] -= 1;
                    window[class as usize] = f64::max(window[class as usize] / 2.0, 2.0);
                }
            }
        }
        let out = port.poll(now, &mut log).unwrap();
        now = out.finished;
        if out.packet == PING {
            longest = longest.max(now - pinged_at);
            under_way = false;
            continue;
        }
        let class = out.packet as usize;
        waiting[class] -= 1;
        window[class] += 1.0 / window[class];
        if now >= Instant::from_millis(5_000) {
            sent[class] += u64::from(out.arrival.bytes);
        }
    }
    (sent[0] as f64 / (sent[0] + sent[1]) as f64, longest)
}

#[test]
fn classes_share_by_their_flows() {
    for (heard, foreign) in [(1, 1), (1, 20), (20, 1), (5, 10), (100, 1), (1, 100)] {
        let (share, _) = share_of(heard, foreign, (9_999, Carried::Foreign));
        let fair = f64::from(heard) / f64::from(heard + foreign);
        let owed = fair.clamp(1.0 / 33.0, 32.0 / 33.0);
        assert!(
            (share / owed - 1.0).abs() < 0.1,
            "{heard}:{foreign}: {share}"
        );
    }
}

/// A single packet in a class with an empty queue must wait for only a packet or two, however
/// small the class's share.
#[test]
fn a_ping_beside_many_flows_of_the_other_class_does_not_wait() {
    for (heard, foreign, pinged) in [
        (40, 0, Carried::Foreign),
        (0, 40, VCP),
        (1, 0, Carried::Foreign),
    ] {
        let (_, longest) = share_of(heard, foreign, (9_999, pinged));
        // A full packet takes 0.6 ms.
        assert!(
            longest <= Duration::from_micros(2_000),
            "{heard}:{foreign}: {longest:?}"
        );
    }
}

/// A class with a small share must not delay packets of a flow that fills its queue longer than
/// a class with half of the link would.
#[test]
fn the_buffer_is_divided_as_the_link_is() {
    let foreign = packet(2, 0, Carried::Foreign);
    let (_, longest) = share_of(20, 1, (foreign.flow_hash, Carried::Foreign));
    assert!(longest <= Duration::from_millis(450), "{longest:?}");
    assert!(
        longest >= Duration::from_millis(50),
        "behind a queue: {longest:?}"
    );
}

#[test]
fn a_flow_with_some_requests_stays_in_order() {
    let mut port = separated(1_000_000, Limit::Bytes(100_000));
    let (mut log, mut now) = (Log::default(), Instant::from_millis(1));
    for id in 0..40 {
        // Every seventh packet of this flow carries a request, but none of the other's.
        let carried = if id % 7 == 0 { VCP } else { Carried::Foreign };
        let own = Arrival {
            flow_hash: 5,
            ..arrival(1000, carried)
        };
        port.arrive(now, own, id, &mut log);
        port.arrive(now, arrival(1000, Carried::Foreign), 100, &mut log);
    }
    let mut left = Vec::new();
    while let Some(out) = port.poll(now, &mut log) {
        now = out.finished;
        left.push(out.packet);
    }
    assert!(left.iter().filter(|&&id| id < 100).is_sorted());
    assert_eq!(
        left[..4].iter().filter(|&&id| id < 100).count(),
        2,
        "half of the link"
    );
}

#[test]
fn a_class_alone_has_the_whole_link_and_the_law_is_told() {
    let witness = Witness::default();
    let events = witness.events.clone();
    let mut port = separated(1_000_000, Limit::Bytes(100_000))
        .with_controller(Instant::ZERO, Box::new(witness));
    let mut log = Log::default();
    // 30 % of the link for foreign packets: 300 bytes per millisecond.
    for ms in 0..1000 {
        let now = Instant::from_millis(ms);
        port.arrive(now, arrival(300, Carried::Foreign), 0, &mut log);
        assert!(port.poll(now, &mut log).is_some());
    }
    let events = events.lock().unwrap();
    assert!(!events.iter().any(|e| e.starts_with("arrival")));
    let last = events.iter().rfind(|e| e.starts_with("capacity")).unwrap();
    let capacity: u64 = last.split(' ').nth(1).unwrap().parse().unwrap();
    assert!((695_000..=706_000).contains(&capacity), "{capacity}");
}

#[test]
fn the_smaller_class_finds_room_in_a_full_buffer() {
    let mut port = separated(0, Limit::Bytes(10_000));
    let mut log = Log::default();
    for id in 0..10 {
        port.arrive(Instant::ZERO, arrival(1000, Carried::Foreign), id, &mut log);
    }
    for id in 10..20 {
        port.arrive(Instant::ZERO, arrival(1000, VCP), id, &mut log);
    }
    let pushed_out = [9, 8, 7, 6, 5].map(|id| (id, DropCause::PushedOut));
    assert_eq!(log.drops[..5], pushed_out);
    assert_eq!(
        log.drops.len(),
        10,
        "the rest of the newcomers found no room"
    );
    assert_eq!(port.depth().bytes, 10_000);
}

/// If dropping everything above the other class's share would not make enough room, nothing may
/// be dropped.
#[test]
fn nothing_is_pushed_out_for_a_packet_that_does_not_fit() {
    let mut port = separated(0, Limit::Bytes(20_000));
    let mut log = Log::default();
    for id in 0..109 {
        port.arrive(Instant::ZERO, arrival(100, Carried::Foreign), id, &mut log);
    }
    for id in 200..207 {
        port.arrive(Instant::ZERO, arrival(1500, VCP), id, &mut log);
    }
    // 9000 and 10 900 bytes are queued: 400 more than the seventh would make of its own class.
    assert_eq!(log.drops, [(206, DropCause::QueueFull)]);
    assert_eq!(port.depth().bytes, 19_900);
}

/// However small its share and the buffer, an occasional packet of a class must pass a buffer
/// that a hundred flows of the other class keep full.
#[test]
fn a_class_of_a_small_share_is_not_locked_out() {
    for (many, single) in [(VCP, Carried::Foreign), (Carried::Foreign, VCP)] {
        for buffer in [2, 8, 20, 200] {
            // Slightly less than these flows send, so that they are worth their number.
            let mut port = separated(2_300_000, Limit::Packets(buffer));
            let (mut log, mut lost) = (Log::default(), 0);
            for ms in 1..20_000u32 {
                let now = Instant::from_millis(u64::from(ms));
                let mut send = |flow, id, carried| {
                    port.arrive(now, packet(flow + 1, 1250, carried), id, &mut log);
                };
                send(2 * ms % 100, 0, many);
                send((2 * ms + 1) % 100, 0, many);
                // Each is a separate flow, as in handshakes.
                if ms % 1000 == 500 {
                    send(1000 + ms, 1, single);
                }
                while port.poll(now, &mut log).is_some() {}
                lost += log.drops.drain(..).filter(|(id, _)| *id == 1).count();
            }
            assert_eq!(lost, 0, "{single:?}, {buffer} packets");
        }
    }
}

/// The share of class 0 from 10 s to 20 s, if `arrivals` arrive in each millisecond, each with
/// its class.
fn share_over(mut port: Port<u32>, arrivals: impl Fn(u32) -> Vec<(u32, Arrival)>) -> f64 {
    let (mut log, mut sent) = (Log::default(), [0; 2]);
    for ms in 1..20_000u32 {
        let now = Instant::from_millis(u64::from(ms));
        for (class, packet) in arrivals(ms) {
            port.arrive(now, packet, class, &mut log);
        }
        log.drops.clear();
        while let Some(out) = port.poll(now, &mut log) {
            if ms >= 10_000 {
                sent[out.packet as usize] += out.arrival.bytes;
            }
        }
    }
    f64::from(sent[0]) / f64::from(sent[0] + sent[1])
}

/// Packets dropped at the head of a queue are losses too: fifty flows without feedback that
/// ignore losses must be worth one, even if CoDel drops their excess.
#[test]
fn drops_at_the_head_are_losses_of_the_class() {
    let limit = Limit::Bytes(2_000_000);
    let queue = || Box::new(CoDel::new(CoDelConfig::new(limit)));
    let separation = Separation::new(queue(), queue(), limit);
    let port = Port::separated(Instant::ZERO, separation, Shaper::new(Some(1_250_000)));
    let share = share_over(port, |ms| {
        let foreign = packet(2 + ms % 50, 1550, Carried::Foreign);
        vec![(0, packet(1, 1250, VCP)), (1, foreign)]
    });
    assert!((0.4..0.6).contains(&share), "{share}");
}

/// It must not matter which component drops packets. Fifty flows with feedback are worth one if
/// the law drops three quarters of their packets, while each has dozens of packets per round
/// trip.
#[test]
fn what_the_law_holds_back_is_lost() {
    let law = Steady {
        interval: Duration::from_millis(1_000),
        answer: Answer::None,
        admits_one_in: 4,
        seen: 0,
    };
    let port = separated(1_250_000, Limit::Bytes(50_000));
    let share = share_over(port.with_controller(Instant::ZERO, Box::new(law)), |ms| {
        let own = (0..4).map(|n| (0, packet(3 + (7 * ms + n) % 50, 1250, VCP)));
        let foreign = (1, arrival(1250, Carried::Foreign));
        own.chain([foreign]).collect()
    });
    assert!((0.4..0.6).contains(&share), "{share}");
}
