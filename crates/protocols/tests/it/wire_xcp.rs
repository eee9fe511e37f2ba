//! Checks that the code and XCP's test vectors of `docs/wire.md` agree.

use pathmark_cc::{Countable, Request, XcpAnswer, XcpRequest};
use pathmark_transport::Signal;
use xcp_proto::counters::Totals;
use xcp_proto::header::{Body, Format, LastRouter};
use xcp_proto::stamp::{Outcome, stamp_payload};
use xcp_proto::{Form, Identity, Packet, XcpSignal, window};

use crate::vectors::{check_feedback, vector};

fn request() -> Request {
    let mut request = Request::default();
    request.xcp = Some(XcpRequest {
        rtt_us: 100_000,
        x: 1_099_511_627,
        delta: 1_235_000 << 16,
        covers: 1,
        window: 150_000,
        packet: 1500,
    });
    request
}

fn fresh(form: Form) -> Vec<u8> {
    let mut shim = vec![0; form.len()];
    XcpSignal::new().with_form(form).fill(&request(), &mut shim);
    shim
}

fn router(id: u16, last: u8) -> Identity {
    Identity {
        v4: [192, 0, 2, last].into(),
        v6: [0x2001, 0xDB8, 0, 0, 0, 0, 0, 0x11].into(),
        hops: 1,
        ..Identity::new(id)
    }
}

const GRANT: XcpAnswer = XcpAnswer {
    delta: 9548 << 16,
    bounding: true,
    translated: false,
    corruption_ppm: 0,
    cloud: pathmark_cc::CloudAnswer::None,
};

#[test]
fn a_full_shim_and_two_routers() {
    let mut shim = fresh(Form::V4);
    assert_eq!(shim, vector("xcp-fresh"));
    assert_eq!(
        stamp_payload(&mut shim, &GRANT, 1528, &router(11, 11)),
        Outcome::Stamped
    );
    assert_eq!(shim, vector("xcp-stamped"));
    let mut declared = fresh(Form::V4);
    let grant = XcpAnswer {
        corruption_ppm: 50_000,
        ..GRANT
    };
    let _ = stamp_payload(&mut declared, &grant, 1528, &router(11, 11));
    assert_eq!(declared, vector("xcp-stamped-declared"));
    let mut translated = fresh(Form::V4);
    let grant = XcpAnswer {
        translated: true,
        ..GRANT
    };
    let _ = stamp_payload(&mut translated, &grant, 1528, &router(11, 11));
    assert_eq!(translated, vector("xcp-stamped-translated"));
    // 1097.5 B/s.
    let take = XcpAnswer {
        delta: -(1097 << 16) - (1 << 15),
        bounding: true,
        ..XcpAnswer::default()
    };
    assert_eq!(
        stamp_payload(&mut shim, &take, 1528, &router(22, 22)),
        Outcome::Stamped
    );
    assert_eq!(shim, vector("xcp-stamped-twice"));

    let read = Packet::parse(&shim).unwrap().repr();
    assert_eq!((read.format, read.stamped), (Format::Standard, true));
    assert_eq!((read.xcp_ttl, read.router), (62, 22));
    let Body::Full(full) = read.body else {
        panic!("not the full form")
    };
    assert_eq!(
        (full.covers, full.rtt_us, full.x),
        (1, 100_000, 1_099_511_627)
    );
    assert_eq!(full.last, LastRouter::V4([192, 0, 2, 22].into()));

    let mut v6 = fresh(Form::V6);
    let _ = stamp_payload(&mut v6, &GRANT, 1528, &router(11, 11));
    assert_eq!(v6, vector("xcp-stamped-ipv6"));
}

#[test]
fn a_compact_shim_and_a_router() {
    let mut shim = fresh(Form::Compact);
    assert_eq!(shim, vector("xcp-compact"));
    let nothing = XcpAnswer {
        delta: 0,
        bounding: true,
        ..XcpAnswer::default()
    };
    let _ = stamp_payload(&mut shim, &nothing, 1528, &router(11, 11));
    assert_eq!(shim, vector("xcp-compact-stamped"));
}

/// The values that the page names.
#[test]
fn feedback_words() {
    for (q12, word) in [
        (2048, 0x4000),
        (4096, 0x0801),
        (-4096, 0x8000),
        (4096 / 3, 0x2AA8),
        (-4096_i64.div_euclid(3) - 1, 0xD550),
        (100 << 12, 0x3202),
        (268_369_920 << 12, 0x7FFF),
        (-268_435_456 << 12, 0x8007),
    ] {
        assert_eq!(window::encode_feedback(q12), word, "{q12}");
    }
}

#[test]
fn feedback_frame() {
    check_feedback("xcp-feedback", XcpSignal::new().kind(), |counters| {
        let totals = Totals::decode(counters).unwrap();
        let sent = Countable {
            packets: 9,
            bytes: 9 * 1500,
            longest: 1500,
        };
        let read = totals.since(&Totals::default(), &sent, Some(64)).unwrap();
        assert_eq!((read.packets, read.stamped, read.bytes), (9, 7, 13_248));
        assert_eq!(read.delta, -3 << 16);
        assert_eq!((read.hops, read.router), (2, 22));
        assert_eq!(read.unmarked_hop, Some(false));
        totals.encode().collect()
    });
}
