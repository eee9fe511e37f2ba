//! Checks that the code and the test vectors of `docs/wire.md` agree.

use std::time::Duration;

use pathmark_cc::{Request, VcpAnswer, VcpCode};
use pathmark_shim::{Framed, crc16, ip::Layout, udp};
use pathmark_transport::{
    Signal,
    wire::{Side, TransportParameters},
};
use vcp_proto::{
    Packet, VcpEcnSignal, VcpSignal,
    counters::Totals,
    mark::{self, Outcome},
};

use crate::support::changed;
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
    let read = (framed.kind().number(), framed.version(), framed.len());
    assert_eq!(read, (5, 2, 12));
    assert_eq!(framed.fields(), [1, 2, 3, 4, 5, 6]);
    assert!(Packet::parse(&bytes).is_err());
}

#[test]
fn a_fresh_shim() {
    let mut request = Request::default();
    request.bise = true;
    request.min_rtt = Some(Duration::from_millis(250));
    let mut shim = [0; 16];
    VcpSignal::new().fill(&request, &mut shim);
    assert_eq!(shim[..], vector("fresh"));
}

#[test]
fn shims_after_one_and_two_routers() {
    let first = first_mark();
    let mut second = first;
    (second.code, second.r, second.t_rho_ms, second.load_128) = (VcpCode::High, None, 1250, 110);
    // With a port of another law, and with declared loss by corruption.
    let translated = changed(first, |answer| answer.translated = true);
    let declared = |answer: VcpAnswer| changed(answer, |answer| answer.corruption_ppm = 50_000);
    let later = declared(second);
    for (before, answer, router, after) in [
        ("fresh", first, 11, "marked"),
        ("marked", second, 22, "marked-twice"),
        ("fresh", translated, 11, "marked-translated"),
        ("fresh", declared(first), 11, "marked-declared"),
        ("marked-declared", later, 22, "marked-declared-twice"),
    ] {
        let mut shim = vector(before);
        let outcome = mark::mark_payload(&mut shim, &answer, router);
        assert_eq!((outcome, shim), (Outcome::Marked, vector(after)), "{after}");
    }
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
    let sum = udp.compute_checksum(&bytes, &ip).to_be_bytes();
    assert_eq!(bytes[26..28], sum);
}

#[test]
fn transport_parameter() {
    let parameters = TransportParameters::decode(&vector("parameter"), Side::Client);
    // A client's parameters also contain its source connection ID, but here only the kinds matter.
    let kinds = match parameters {
        Ok(parameters) => parameters.explicit_feedback.unwrap(),
        Err(error) => panic!("{error}"),
    };
    let ours = [VcpSignal::new().kind(), VcpEcnSignal.kind()];
    assert_eq!(kinds.as_slice(), ours);

    let mut offered = TransportParameters::DEFAULT;
    offered.explicit_feedback = Some(kinds);
    let written = offered.to_vec(None).unwrap();
    let vector = vector("parameter");
    assert!(written.windows(vector.len()).any(|window| window == vector));
}

/// The values that the page explains.
#[test]
fn feedback_frame() {
    check_feedback("feedback", VcpSignal::new().kind(), |counters| {
        let totals = Totals::decode(counters).unwrap();
        assert_eq!(counters[..9], [3, 1, 1, 3, 3603, 100, 10, 10, 132_072]);
        assert_eq!(counters[9..], [1250, 2, 3, 0xBEEF, 77, 62]);
        totals.encode().to_vec()
    });
}
