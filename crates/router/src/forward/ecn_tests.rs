//! Marks of a queue that marks, in the ECN field of packets that pass through.

use pathmark_cc::{Ecn, Instant};
use pathmark_link::queue::{DualPi2, DualPi2Config, Limit};
use pathmark_link::{Link, LinkConfig, Port, Schedule, Shaper, WireConfig};
use pathmark_shim::ip::Layout;

use super::tests::*;
use super::*;
use crate::ip::Routes;

/// The port `out` with this queue and a rate of 1 MB/s.
fn dualpi2_router() -> Router {
    let mut router = router(1500, None, false);
    let queue = Box::new(DualPi2::new(DualPi2Config::new(Limit::Packets(100))));
    let shaper = Shaper::new(Some(1_000_000));
    let link = Link::new(LinkConfig {
        port: Port::new(Instant::ZERO, queue, shaper),
        wire: WireConfig::default(),
        schedule: Schedule::default(),
    });
    let settings = PortSettings {
        name: "out".to_owned(),
        mtu: 1500,
        ..PortSettings::default()
    };
    let mut routes = Routes::new();
    for prefix in ["10.0.0.0/8", "fd00::/16"] {
        routes.insert(prefix.parse().unwrap(), Target::Port(OUT));
    }
    router.replace(
        vec![
            port("back", 1500, None, false),
            RouterPort::new(settings, link),
        ],
        routes,
    );
    router
}

fn with_ecn(packet: &[u8], ecn: Ecn) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let layout = Layout::walk(&packet).unwrap();
    assert!(layout.set_ecn(&mut packet, ecn as u8));
    packet
}

/// Packets take almost a millisecond, so the third ECT(1) packet waits for longer than the step.
#[test]
fn ect1_packets_are_marked_beyond_the_step_and_checksums_hold() {
    for (source, destination) in [(SRC, DST), ("fd00::1", "fd00:1::2")] {
        let sent = udp(source, destination, 64, 0x4000, &[0x40; 900]);
        for (field, marked) in [(Ecn::Ect1, 3), (Ecn::Ect0, 0), (Ecn::NotEct, 0)] {
            let mut router = dualpi2_router();
            for _ in 0..6 {
                pass(&mut router, &with_ecn(&sent, field));
            }
            let out = drain(&mut router, OUT);
            assert_eq!(out.len(), 6);
            let mut found = 0;
            for (packet, _) in &out {
                let layout = Layout::walk(packet).unwrap();
                let ecn = Ecn::from_bits(layout.ecn(packet).unwrap());
                found += u32::from(ecn == Ecn::Ce);
                assert!(ecn == field || ecn == Ecn::Ce);
                assert!(layout.header_checksum_ok(packet) && udp_checksum_ok(packet));
                assert_eq!(payload_of(packet), payload_of(&sent));
            }
            assert_eq!(found, marked, "{field:?}");
        }
    }
}
