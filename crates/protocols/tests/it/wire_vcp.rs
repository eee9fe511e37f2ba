//! Checks that the code and the test vectors of `docs/wire.md` agree.

use std::time::Duration;

use pathmark_cc::{Countable, Request, VcpAnswer, VcpCode};
use pathmark_shim::{Framed, crc16, ip::Layout, udp};
use pathmark_transport::{
    Signal,
    wire::{Side, TransportParameters},
};
use vcp_proto::{
    Packet, Repr, VcpEcnSignal, VcpSignal,
    counters::Totals,
    mark::{self, Outcome},
};

use crate::vectors::{check_feedback, vector};

fn first_mark() -> VcpAnswer {
    VcpAnswer {
        code: VcpCode::Low,
        r: Some(30_000),
        t_rho_ms: 200,
        load_128: 60,
        ..VcpAnswer::default()
    }
}

/// Returns the sender's own counts for `packets` packets.
fn sent(packets: u64) -> Countable {
    Countable {
        packets,
        bytes: packets * 1500,
        longest: 1500,
    }
}

#[test]
fn check() {
    let bytes = vector("check");
    assert_eq!(bytes[..9], *b"123456789");
    assert_eq!(crc16(&bytes[..9]).to_be_bytes(), bytes[9..]);
}

#[test]
fn unknown_kind_and_version() {
    let bytes = vector("unknown");
    let framed = Framed::parse(&bytes).unwrap();
    assert_eq!(
        (framed.kind().number(), framed.version(), framed.len()),
        (5, 2, 12)
    );
    assert_eq!(framed.fields(), [1, 2, 3, 4, 5, 6]);
    assert!(Packet::parse(&bytes).is_err());
}

#[test]
fn a_shim_and_two_routers() {
    let mut request = Request::default();
    request.bise = true;
    request.min_rtt = Some(Duration::from_millis(250));
    let mut shim = [0; 16];
    VcpSignal::new().fill(&request, &mut shim);
    assert_eq!(shim[..], vector("fresh"));

    assert_eq!(
        mark::mark_payload(&mut shim, &first_mark(), 11),
        Outcome::Marked
    );
    assert_eq!(shim[..], vector("marked"));

    let second = VcpAnswer {
        code: VcpCode::High,
        r: None,
        t_rho_ms: 1250,
        load_128: 110,
        ..VcpAnswer::default()
    };
    assert_eq!(mark::mark_payload(&mut shim, &second, 22), Outcome::Marked);
    assert_eq!(shim[..], vector("marked-twice"));
    let read = Repr::parse(&Packet::parse(&shim).unwrap());
    let expected = Repr {
        code: VcpCode::High,
        bise: false,
        carries_r: true,
        translated: false,
        corruption: 0,
        hops: 2,
        router: 22,
        r: 30_000,
        t_rho_ms: 1250,
        load_128: 110,
        rtt_class: 47,
    };
    assert_eq!(read, expected);
}

#[test]
fn a_port_of_another_law() {
    let mut shim: [u8; 16] = vector("fresh").try_into().unwrap();
    let answer = VcpAnswer {
        translated: true,
        ..first_mark()
    };
    let _ = mark::mark_payload(&mut shim, &answer, 11);
    assert_eq!(shim[..], vector("marked-translated"));
    let mut totals = Totals::default();
    totals.count_shim(Some(&Packet::parse(&shim).unwrap()), 1200, None);
    let read = Totals::decode(&totals.encode()).unwrap();
    let feedback = read.since(&Totals::default(), &sent(1), None).unwrap();
    assert!(feedback.translated);
}

#[test]
fn declared_corruption() {
    let mut shim: [u8; 16] = vector("fresh").try_into().unwrap();
    let mut answer = VcpAnswer {
        corruption_ppm: 50_000,
        ..first_mark()
    };
    let _ = mark::mark_payload(&mut shim, &answer, 11);
    assert_eq!(shim[..], vector("marked-declared"));
    answer = VcpAnswer {
        code: VcpCode::High,
        r: None,
        t_rho_ms: 1250,
        load_128: 110,
        corruption_ppm: 50_000,
        ..VcpAnswer::default()
    };
    let _ = mark::mark_payload(&mut shim, &answer, 22);
    assert_eq!(shim[..], vector("marked-declared-twice"));

    let mut totals = Totals::default();
    totals.count_shim(Some(&Packet::parse(&shim).unwrap()), 1200, None);
    let read = Totals::decode(&totals.encode()).unwrap();
    let feedback = read.since(&Totals::default(), &sent(1), None).unwrap();
    assert_eq!(feedback.corruption_ppm, 100_000);
}

#[test]
fn inside_an_ip_packet() {
    let mut bytes = vector("ipv4-before");
    let ip = Layout::walk(&bytes).unwrap();
    let udp = udp::Datagram::locate(&bytes, &ip).unwrap();
    let state = udp::ChecksumState::Complete;
    assert!(ip.header_checksum_ok(&bytes));
    let outcome = mark::mark_packet(&mut bytes, &udp, 0, &first_mark(), 11, state);
    assert_eq!(outcome, Outcome::Marked);
    assert_eq!(bytes, vector("ipv4-after"));
    assert_eq!(
        bytes[26..28],
        udp.compute_checksum(&bytes, &ip).to_be_bytes()
    );
}

#[test]
fn transport_parameter() {
    let parameters = TransportParameters::decode(&vector("parameter"), Side::Client);
    // A client's parameters also contain its source connection ID, but here only the kinds matter.
    let kinds = match parameters {
        Ok(parameters) => parameters.explicit_feedback.unwrap(),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(
        kinds.as_slice(),
        [VcpSignal::new().kind(), VcpEcnSignal.kind()]
    );

    let mut offered = TransportParameters::DEFAULT;
    offered.explicit_feedback = Some(kinds);
    let written = offered.to_vec(None).unwrap();
    let vector = vector("parameter");
    assert!(written.windows(vector.len()).any(|window| window == vector));
}

#[test]
fn feedback_frame() {
    check_feedback("feedback", VcpSignal::new().kind(), |counters| {
        let totals = Totals::decode(counters).unwrap();
        let read = totals
            .since(&Totals::default(), &sent(8), Some(64))
            .unwrap();
        assert_eq!(read.packets, [3, 3, 1, 1]);
        assert_eq!(read.bytes, [10, 3603, 100, 10]);
        assert_eq!(read.sum_r, 132_072);
        assert_eq!(read.t_rho, Duration::from_millis(1250));
        assert_eq!((read.hops, read.router, read.load_128), (2, 0xBEEF, 77));
        assert!(read.bise && read.carried_r);
        assert_eq!(
            read.unmarked_hop,
            Some(true),
            "three IP hops, two of them VCP routers"
        );
        totals.encode().to_vec()
    });
}
