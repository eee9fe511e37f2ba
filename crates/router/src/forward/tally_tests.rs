//! The sums of [`Tally`](super::Tally) must hold for every fate of packets.

use pathmark_cc::{Duration, Instant};
use pathmark_link::impair::{Loss, Probability, Random};
use pathmark_link::{DropCause, Schedule, WireConfig};

use super::super_tests::super_packet;
use super::tests::*;
use super::*;
use crate::offload::Offload;

/// Checks the sums. Returns all packets received, forwarded and generated, held, and written.
fn balanced(router: &Router) -> [u64; 4] {
    let (mut offered, mut sums) = (0, [0; 4]);
    for port in router.ports() {
        let tally = port.tally();
        let refused: u64 = Refused::ALL.map(|why| tally.refused(why)).iter().sum();
        assert_eq!(tally.received, tally.forwarded + refused, "{tally:?}");
        let stats = port.link.port().stats();
        let lost = stats.drops().all() + tally.too_big;
        let held = port.held_packets();
        let gone = lost + held + tally.written + tally.write_errors;
        assert_eq!(tally.offered, gone, "{tally:?} {:?}", stats.drops());
        let without_buffer = stats.drops().of(DropCause::NoBuffer) + tally.too_big;
        assert_eq!(tally.offered, stats.arrived_packets() + without_buffer);
        offered += tally.offered;
        let (moved, written) = (tally.forwarded + tally.generated, tally.written);
        for (sum, count) in sums.iter_mut().zip([tally.received, moved, held, written]) {
            *sum += count;
        }
    }
    assert_eq!(offered, sums[1], "forwarded and generated");
    sums
}

/// Writes like the driver, except that every tenth write fails.
fn write_all(router: &mut Router, now: Instant) {
    let mut writes = 0u32;
    for port in [BACK, OUT] {
        while let Some(frame) = router.poll(now, port) {
            writes += 1;
            router.wrote(port, frame.packets().into(), !writes.is_multiple_of(10));
            router.pool_mut().give(frame);
        }
    }
}

/// Sends bad packets of each kind, super-packets, and packets to be fragmented.
fn send_all_kinds(router: &mut Router) {
    let (whole, offload) = super_packet(false);
    let plain = Offload::default();
    let small = udp(SRC, DST, 64, 0x4000, &[1; 100]);
    for _ in 0..30 {
        send(router, &whole, offload);
        send(router, &small, plain);
        // One to be fragmented, and one that must not be.
        send(router, &udp(SRC, DST, 64, 0, &[2; 1400]), plain);
        send(router, &udp(SRC, DST, 64, 0x4000, &[2; 1480]), plain);
        // TTL, no route, multicast, the router itself, its own address as a source, garbage.
        send(router, &udp(SRC, DST, 1, 0x4000, &[3; 10]), plain);
        send(router, &udp(SRC, "192.0.2.9", 64, 0x4000, &[3; 10]), plain);
        send(router, &udp(SRC, "224.0.0.9", 64, 0x4000, &[3; 10]), plain);
        send(router, &udp(SRC, "10.9.0.1", 64, 0x4000, &[3; 10]), plain);
        send(router, &udp("10.9.0.1", DST, 64, 0x4000, &[3; 10]), plain);
        send(router, &[0x45, 1, 2], plain);
        send(router, &small, offload);
        let mut wrong = small.clone();
        wrong[10] ^= 1;
        send(router, &wrong, plain);
        // A super-packet whose TTL expires: each of its segments must be refused.
        let mut old = whole.clone();
        old[8] = 1;
        renew(&mut old);
        send(router, &old, offload);
    }
}

/// Every received packet must be accounted for: with and without a rate, on lossy and on long
/// wires, with too little memory, and after ports were cleared.
#[test]
fn packets_received_forwarded_dropped_held_and_written_add_up() {
    let lossy = WireConfig {
        loss: Loss::Bernoulli {
            per: Probability::new(0.3).unwrap(),
            random: Random::new(7, "loss"),
        },
        ..WireConfig::default()
    };
    let long = WireConfig {
        delay: Duration::from_millis(100),
        ..WireConfig::default()
    };
    let short = WireConfig {
        capacity: 3,
        ..long.clone()
    };
    for rate in [None, Some(10_000_000_000), Some(1_250_000), Some(20_000)] {
        let wires = [&WireConfig::default(), &lossy, &long, &short];
        for wire in wires {
            for memory in [10_000_000, 400_000] {
                let mut router = router_of(memory, 1400, rate, false);
                let out = router.port_mut(OUT).unwrap();
                out.link.set_wire(wire.clone());
                out.link.set_schedule(Schedule::default());
                send_all_kinds(&mut router);
                let [received, ..] = balanced(&router);
                // 20 segments each of two super-packets, plus the others.
                assert_eq!(received, 30 * (2 * 20 + 11));
                let refused = |why| router.ports()[BACK].tally().refused(why);
                assert_eq!(refused(Refused::TtlExceeded), 30 * 21);
                let refusals = [refused(Refused::NoRoute), refused(Refused::Local)];
                assert_eq!(refusals, [30; 2]);
                write_all(&mut router, Instant::ZERO);
                balanced(&router);
                write_all(&mut router, Instant::from_millis(50));
                balanced(&router);
                router.clear_port(Instant::from_millis(60), OUT);
                let [_, _, held, written] = balanced(&router);
                assert_eq!(held, 0);
                assert!(written > 0);
                send_all_kinds(&mut router);
                write_all(&mut router, Instant::from_millis(70));
                write_all(&mut router, Instant::from_millis(3_600_000));
                balanced(&router);
            }
        }
    }
}
