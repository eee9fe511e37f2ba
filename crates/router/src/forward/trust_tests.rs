//! Shims that a port trusts, and shims that it does not.

use super::super_tests::segments_of;
use super::tests::{DST, OUT, SRC, drain, pass, router, send, shimmed, udp};
use super::*;

fn with(rate: Option<u64>, trust: Trust) -> Router {
    let mut router = router(1500, rate, true);
    router.port_mut(OUT).unwrap().settings.shims = trust;
    router
}

/// Sends a packet from `SRC` that arrives on port 0 to a port with this trust. Returns true if
/// the port wrote its answer.
fn is_believed(trust: Trust) -> bool {
    let mut router = with(None, trust);
    let packet = udp(SRC, DST, 64, 0, &shimmed(100));
    pass(&mut router, &packet);
    let out = drain(&mut router, OUT).remove(0).0;
    let shim = 28..44;
    let believed = out[shim.clone()] != packet[shim];
    if !believed {
        assert_eq!(out[20..], packet[20..], "nothing but the TTL has changed");
    }
    let counted = router.ports()[OUT].not_believed();
    assert_eq!(counted, u64::from(!believed));
    believed
}

#[test]
fn by_prefix_or_port_or_not_at_all() {
    let from = |prefixes: &[&str], ports: &[usize]| Trust::From {
        prefixes: prefixes.iter().map(|text| text.parse().unwrap()).collect(),
        ports: ports.to_vec(),
    };
    assert!(is_believed(Trust::All));
    assert!(!is_believed(Trust::None));
    assert!(is_believed(from(&["10.7.0.0/16", "10.0.0.0/24"], &[])));
    assert!(!is_believed(from(&["10.7.0.0/16", "fd00::/8"], &[])));
    assert!(is_believed(from(&[], &[0])));
    assert!(!is_believed(from(&[], &[1])));
    assert!(!is_believed(from(&[], &[])));
}

/// Every packet of a super-packet must be counted, and none written.
#[test]
fn super_packets_are_plain_as_well() {
    for (rate, wholes) in [(None, 1), (Some(1_000_000), 3)] {
        let mut router = with(rate, Trust::None);
        let payload = [shimmed(500), shimmed(500), shimmed(500)].concat();
        let size = (payload.len() / 3) as u16;
        let packet = udp(SRC, DST, 64, 0, &payload);
        send(&mut router, &packet, segments_of(size));
        let out = drain(&mut router, OUT);
        assert_eq!(out.len(), wholes);
        assert_eq!(router.ports()[OUT].not_believed(), 3);
        let sent: Vec<u8> = out
            .iter()
            .flat_map(|(bytes, _)| bytes[28..].to_vec())
            .collect();
        assert_eq!(sent, payload);
    }
}
