//! Complete packets through a router without interfaces.

use pathmark_cc::{
    Answer, Arrival, Carried, Instant, LinkController, LinkMetrics, Request, VcpAnswer, VcpCode,
};
use pathmark_link::queue::{DropTail, Limit};
use pathmark_link::{Link, LinkConfig, Port, Schedule, Shaper, WireConfig};
use pathmark_shim::ip::Layout;
use pathmark_shim::udp::Datagram;
use vcp_proto::{Packet, Repr};

use super::super_tests::super_packet;
use super::*;
use crate::ip::{Routes, TokenBucket};
use crate::offload::{Offload, Partial};
pub(super) use crate::test_packets::{renew, udp};

/// Answers each packet as a function says, and passes on what the packets carry.
#[derive(Debug)]
pub(super) struct Answering {
    pub(super) answer: fn(&Arrival) -> Answer,
    pub(super) heard: Option<std::sync::mpsc::Sender<Carried>>,
}

impl LinkController for Answering {
    fn on_arrival(&mut self, _: Instant, arrival: &Arrival, _: u64) {
        if let Some(heard) = &self.heard {
            heard.send(arrival.carried).unwrap();
        }
    }
    fn on_departure(&mut self, _: Instant, packet: &Arrival, _: u64) -> Answer {
        (self.answer)(packet)
    }
    fn on_timer(&mut self, _: Instant, _: u64) {}
    fn deadline(&self) -> Option<Instant> {
        None
    }
    fn on_capacity(&mut self, _: Instant, _: u64) {}
    fn metrics(&self) -> LinkMetrics {
        LinkMetrics::default()
    }
}

/// Answers OVER to every packet of VCP.
fn over(packet: &Arrival) -> Answer {
    match packet.carried {
        Carried::Vcp(_) => Answer::Vcp(VcpAnswer {
            code: VcpCode::Over,
            r: None,
            t_rho_ms: 200,
            load_128: 140,
            ..VcpAnswer::default()
        }),
        _ => Answer::None,
    }
}

pub(super) fn port(name: &str, mtu: u32, rate: Option<u64>, controller: bool) -> RouterPort {
    let queue = Box::new(DropTail::new(Limit::Packets(1000)));
    let mut port = Port::new(Instant::ZERO, queue, Shaper::new(rate));
    if controller {
        let (answer, heard) = (over as fn(&Arrival) -> Answer, None);
        port = port.with_controller(Instant::ZERO, Box::new(Answering { answer, heard }));
    }
    let settings = PortSettings {
        name: name.to_owned(),
        mtu,
        addresses: ["10.9.0.1", "fd00:9::1"]
            .map(|a| a.parse().unwrap())
            .to_vec(),
        ..PortSettings::default()
    };
    let link = Link::new(LinkConfig {
        port,
        wire: WireConfig::default(),
        schedule: Schedule::default(),
    });
    RouterPort::new(settings, link)
}

pub(super) const BACK: usize = 0;
pub(super) const OUT: usize = 1;

/// Creates a router. Port 0 leads back to the senders, port 1 to all other routes.
pub(super) fn router(mtu: u32, rate: Option<u64>, controller: bool) -> Router {
    router_of(10_000_000, mtu, rate, controller)
}

/// The same with `memory` bytes for packet buffers.
pub(super) fn router_of(memory: usize, mtu: u32, rate: Option<u64>, controller: bool) -> Router {
    let mut router = Router::new(RouterConfig {
        id: Identity::new(77),
        memory,
        classifier: Classifier {
            shims: true,
            ..Classifier::default()
        },
        icmp: TokenBucket::new(100, 5),
    });
    let mut routes = Routes::new();
    for (prefix, port) in [
        ("10.0.0.0/24", BACK),
        ("fd00:0::/32", BACK),
        ("10.0.0.0/8", OUT),
        ("fd00::/16", OUT),
    ] {
        routes.insert(prefix.parse().unwrap(), Target::Port(port));
    }
    let out = port("out", mtu, rate, controller);
    router.replace(vec![port("back", 1500, None, false), out], routes);
    router
}

pub(super) const SRC: &str = "10.0.0.1";
pub(super) const DST: &str = "10.1.0.2";

pub(super) fn shimmed(tail: usize) -> Vec<u8> {
    let mut payload = Repr::initial(&Request::default(), true).emit().to_vec();
    payload.extend((0..tail).map(|i| i as u8 | 0x40));
    payload
}

pub(super) fn send(router: &mut Router, bytes: &[u8], offload: Offload) {
    let mut buffer = router.pool_mut().take(LARGE).unwrap();
    buffer[..bytes.len()].copy_from_slice(bytes);
    router.receive(Instant::ZERO, BACK, &mut buffer, bytes.len(), offload);
    router.pool_mut().give_buffer(buffer);
}

/// The offload of a UDP packet over IPv4 whose checksum is partial.
pub(super) fn partial_udp() -> Offload {
    let (start, offset) = (20, 6);
    Offload {
        checksum: Some(Partial { start, offset }),
        gso: None,
    }
}

/// Sends a packet without offload work.
pub(super) fn pass(router: &mut Router, bytes: &[u8]) {
    send(router, bytes, Offload::default());
}

pub(super) fn drain(router: &mut Router, port: usize) -> Vec<(Vec<u8>, Offload)> {
    let mut out = Vec::new();
    let mut now = Instant::ZERO;
    loop {
        while let Some(frame) = router.poll(now, port) {
            out.push((frame.bytes().to_vec(), frame.offload));
            router.pool_mut().give(frame);
        }
        match router.deadline() {
            Some(at) => now = at,
            None => return out,
        }
    }
}

pub(super) fn udp_checksum_ok(bytes: &[u8]) -> bool {
    let layout = Layout::walk(bytes).unwrap();
    let datagram = Datagram::locate(bytes, &layout).unwrap();
    let at = layout.upper_offset() + 6;
    let mut zeroed = bytes.to_vec();
    zeroed[at..at + 2].fill(0);
    datagram.compute_checksum(&zeroed, &layout).to_be_bytes() == bytes[at..at + 2]
}

/// The payload of a UDP packet.
pub(super) fn payload_of(packet: &[u8]) -> &[u8] {
    let layout = Layout::walk(packet).unwrap();
    Datagram::locate(packet, &layout).unwrap().payload(packet)
}

pub(super) fn read_vcp(packet: &[u8]) -> Packet<'_> {
    Packet::parse(payload_of(packet)).unwrap()
}

#[test]
fn foreign_packets_change_in_their_ttl_only() {
    let mut router = router(1500, None, true);
    for (source, destination) in [(SRC, DST), ("fd00::1", "fd00:1::2")] {
        let sent = udp(source, destination, 64, 0x4000, &[0x40; 300]);
        pass(&mut router, &sent);
        let out = drain(&mut router, OUT);
        let mut expected = sent.clone();
        let layout = Layout::walk(&sent).unwrap();
        layout.decrement_ttl(&mut expected).unwrap();
        assert_eq!(out, [(expected, Offload::default())]);
        assert!(layout.header_checksum_ok(&out[0].0));
    }
}

#[test]
fn shims_are_marked_and_complete_checksums_renewed() {
    let mut router = router(1500, Some(1_000_000), true);
    for (source, destination) in [(SRC, DST), ("fd00::1", "fd00:1::2")] {
        pass(&mut router, &udp(source, destination, 64, 0, &shimmed(100)));
        let out = drain(&mut router, OUT);
        let bytes = &out[0].0;
        let shim = read_vcp(bytes);
        let answer = (shim.code(), shim.hops(), shim.router());
        assert_eq!(answer, (VcpCode::Over, 1, 77));
        assert_eq!(payload_of(bytes)[16..], shimmed(100)[16..]);
        assert!(udp_checksum_ok(bytes));
    }
}

pub(super) fn icmp_of(router: &mut Router) -> Option<(u8, u8)> {
    let out = drain(router, BACK);
    let bytes = &out.first()?.0;
    let upper = Layout::walk(bytes).unwrap().upper(bytes);
    Some((upper[0], upper[1]))
}

#[test]
fn icmp_as_a_router_must() {
    let mut router = router(1400, None, false);
    let cases = [
        (SRC, DST, 1, 0, 100, Some((11, 0))),
        ("fd00::1", "fd00:1::2", 1, 0, 100, Some((3, 0))),
        (SRC, "192.0.2.7", 64, 0, 100, Some((3, 0))),
        ("fd00::1", "2001:db8::1", 64, 0, 100, Some((1, 0))),
        (SRC, DST, 64, 0x4000, 1400, Some((3, 4))),
        ("fd00::1", "fd00:1::2", 64, 0, 1400, Some((2, 0))),
        (SRC, "224.0.0.5", 1, 0, 100, None),
        ("fe80::1", "fd00:1::2", 1, 0, 100, None),
    ];
    for (source, destination, ttl, flags, payload, expected) in cases {
        let bucket = TokenBucket::new(100, 5);
        router.configure(Identity::new(77), Classifier::default(), bucket);
        let bytes = udp(source, destination, ttl, flags, &vec![0x40; payload]);
        pass(&mut router, &bytes);
        let case = format!("{source} {destination} {ttl} {flags}");
        assert_eq!(icmp_of(&mut router), expected, "{case}");
        assert!(drain(&mut router, OUT).is_empty());
    }
    let counters = router.counters();
    let refused = (counters.ttl_exceeded, counters.no_route, counters.too_big);
    assert_eq!(refused, (2, 2, 2));
    assert_eq!((counters.icmp_sent, counters.not_forwardable), (6, 2));
}

#[test]
fn icmp_is_rate_limited() {
    let mut router = router(1500, None, false);
    for _ in 0..50 {
        pass(&mut router, &udp(SRC, DST, 1, 0, &[0; 10]));
    }
    assert_eq!(drain(&mut router, BACK).len(), 5);
    assert_eq!(router.counters().icmp_suppressed, 45);
}

#[test]
fn packets_without_df_are_fragmented() {
    let mut router = router(576, None, false);
    let bytes = udp(SRC, DST, 64, 0, &vec![3; 1400]);
    let mut partial = bytes.clone();
    let layout = Layout::walk(&bytes).unwrap();
    let sum = layout.pseudo_header(&bytes, 1408).fold();
    partial[26..28].copy_from_slice(&sum.to_be_bytes());
    for (bytes, offload) in [(&bytes, Offload::default()), (&partial, partial_udp())] {
        send(&mut router, bytes, offload);
        let out = drain(&mut router, OUT);
        assert_eq!(out.len(), 3);
        let datagram: Vec<u8> = out.iter().flat_map(|(b, _)| b[20..].to_vec()).collect();
        let whole = udp(SRC, DST, 64, 0, &vec![3; 1400]);
        assert_eq!(datagram, whole[20..], "checksum completed before cutting");
    }
}

#[test]
fn damage_is_counted_and_dropped() {
    let mut router = router(1500, None, false);
    let mut bytes = udp(SRC, DST, 64, 0, &[1; 20]);
    bytes[11] ^= 1;
    pass(&mut router, &bytes);
    pass(&mut router, &[0x45; 10]);
    pass(&mut router, &[]);
    // From a port that doesn't exist.
    let whole = udp(SRC, DST, 64, 0, &[1; 20]);
    let mut buffer = [&whole[..], &[0; 2000]].concat().into_boxed_slice();
    router.receive(
        Instant::ZERO,
        9,
        &mut buffer,
        whole.len(),
        Offload::default(),
    );
    let (mut bytes, offload) = super_packet(false);
    bytes[9] = 6;
    bytes[11] = bytes[11].wrapping_add(11);
    send(&mut router, &bytes, offload);
    assert!(drain(&mut router, OUT).is_empty());
    let counters = router.counters();
    assert_eq!((counters.bad_checksum, counters.malformed), (1, 3));
    assert_eq!(counters.bad_offload, 1);
}

#[test]
fn without_buffers_packets_are_dropped_not_kept() {
    let mut router = router(1500, Some(0), false);
    let bucket = TokenBucket::new(0, 0);
    router.configure(Identity::new(1), Classifier::default(), bucket);
    for _ in 0..20_000 {
        pass(&mut router, &udp(SRC, DST, 64, 0, &[1; 1400]));
    }
    assert!(router.memory() <= 10_000_000);
    assert_eq!(router.ports()[OUT].link.port().depth().packets, 1000);
}

#[test]
fn ecn_carries_vcp_only_where_a_rule_says_so() {
    let mut router = router(1500, None, true);
    let classifier = Classifier {
        shims: true,
        ecn: vec![EcnRule {
            port: Some(0x5678),
            prefix: Some("10.1.0.0/16".parse().unwrap()),
            dscp: None,
        }],
        seed: 0,
    };
    router.configure(Identity::new(77), classifier, TokenBucket::new(1, 1));
    pass(&mut router, &udp(SRC, DST, 64, 0, &[0x40; 50]));
    pass(&mut router, &udp(SRC, "10.2.0.2", 64, 0, &[0x40; 50]));
    let out = drain(&mut router, OUT);
    assert_eq!(out[0].0[1] & 3, 3, "HIGH raised to OVER");
    let layout = Layout::walk(&out[0].0).unwrap();
    assert!(layout.header_checksum_ok(&out[0].0));
    assert_eq!(out[1].0[1] & 3, 2, "a stranger's ECT(0) stays");
}
