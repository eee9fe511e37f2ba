//! Requests for a starting rate through a router without interfaces.

use pathmark_cc::{Instant, LinkAlgorithm};
use pathmark_shim::quick_start::{Function, Rate, Repr, RttOctave};

use super::Router;
use super::tests::{BACK, DST, OUT, SRC, drain, pass, payload_of, router, udp, udp_checksum_ok};

/// 100 Mbit/s in bytes per second.
const RATE: u64 = 12_500_000;

fn granting() -> Router {
    let mut router = router(1500, Some(RATE), false);
    let law = LinkAlgorithm::parse("quick-start").unwrap();
    let law = law.controller(Instant::ZERO, RATE, 3);
    let port = router.port_mut(OUT).unwrap().link.port_mut();
    port.set_controller(Instant::ZERO, Some(law));
    router
}

fn request(rate: u64, function: Function) -> Vec<u8> {
    let mut payload = vec![0x55; 600];
    let shim = Repr {
        function,
        rate: Rate::ceil(rate),
        qs_ttl: 200,
        rtt: RttOctave::ceil(60_000),
        nonce: 0x0102_0304_0506,
    };
    payload[..16].copy_from_slice(&shim.emit());
    payload
}

/// Sends a packet from `source` through the router, and returns the request that leaves it.
fn through(router: &mut Router, source: &str, destination: &str, payload: &[u8]) -> Repr {
    let sent = udp(source, destination, 64, 0x4000, payload);
    pass(router, &sent);
    let out = drain(router, OUT);
    let [(packet, _)] = out.as_slice() else {
        panic!("{out:?}")
    };
    assert!(udp_checksum_ok(packet));
    Repr::parse(payload_of(packet)).unwrap()
}

#[test]
fn a_request_is_lowered_over_both_versions_of_ip() {
    for (source, destination) in [(SRC, DST), ("fd00::1", "fd00:1::2")] {
        let mut router = granting();
        let request = request(125_000_000, Function::Request);
        let got = through(&mut router, source, destination, &request);
        assert_eq!(got.qs_ttl, 199);
        let rate = got.rate.bytes_per_second();
        let granted = RATE * 84 / 100..=RATE * 85 / 100;
        assert!(granted.contains(&rate), "{rate}");
        let kept = (1 << got.rate.nonce_bits()) - 1;
        assert_eq!(got.nonce & kept, 0x0102_0304_0506 & kept);
    }
}

/// The router must subtract the hops of the host's kernel from the QS TTL as well.
#[test]
fn the_hops_of_the_box_are_taken_off_the_qs_ttl() {
    let mut router = granting();
    for port in [BACK, OUT] {
        router.port_mut(port).unwrap().settings.kernel_forwards = true;
    }
    // A changed port is due until it is polled.
    assert!(router.poll(Instant::ZERO, BACK).is_none());
    let asked = request(125_000_000, Function::Request);
    assert_eq!(through(&mut router, SRC, DST, &asked).qs_ttl, 197);
}
