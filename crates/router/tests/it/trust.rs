//! Whose shims a port believes, on real interfaces.

use pathmark_cc::Request;

use crate::bed::Bed;

/// A shim from where the port believes none arrives as it was sent, and is counted; others are
/// marked. A reload changes who that is.
#[test]
fn shims_from_elsewhere_are_plain_traffic() {
    let law = "rate = \"20Mbit\"\ncontroller = \"vcp\"";
    let trusting = |whom: &str| format!("{law}\nshims = {whom}");
    let mut bed = Bed::with("", &trusting("{ from = [\"10.0.1.0/24\"] }"));
    let shim = vcp_proto::Repr::initial(&Request::default(), true).emit();
    let mut packet = shim.to_vec();
    packet.resize(500, 7);
    let hops = |bed: &Bed, v6: bool| {
        let (a, b) = bed.udp(v6);
        let mut buffer = [0; 600];
        a.send(&packet).unwrap();
        assert_eq!(b.recv(&mut buffer).unwrap(), packet.len());
        let hops = vcp_proto::Packet::parse(&buffer[..500]).unwrap().hops();
        let same = buffer[..500] == packet;
        assert_eq!(same, hops == 0, "changed, but not marked");
        hops
    };
    let ignored = |bed: &Bed| bed.link("right")["shims_not_believed"].as_u64().unwrap();
    // Only IPv4 sources are named.
    assert_eq!([hops(&bed, false), hops(&bed, true)], [1, 0]);
    assert_eq!(ignored(&bed), 1);
    for (whom, expected) in [
        ("{ from = [\"left\"] }", 1),
        ("{ from = [\"right\"] }", 0),
        ("false", 0),
        ("true", 1),
    ] {
        bed.configure("", &trusting(whom));
        assert!(bed.reload().contains("reloaded"));
        for v6 in [false, true] {
            assert_eq!(hops(&bed, v6), expected, "{whom}, IPv6: {v6}");
        }
    }
    assert_eq!(ignored(&bed), 5);
}
