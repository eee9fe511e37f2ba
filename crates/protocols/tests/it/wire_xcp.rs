//! Checks that the code and XCP's test vectors of `docs/wire.md` agree.

use pathmark_cc::{Request, XcpAnswer, XcpRequest};
use pathmark_transport::Signal;
use xcp_proto::counters::Totals;
use xcp_proto::stamp::{Outcome, stamp_payload};
use xcp_proto::{Form, Identity, XcpSignal};

use crate::support::changed;
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

fn router_of(number: u8) -> Identity {
    Identity {
        v4: [192, 0, 2, number].into(),
        v6: [0x2001, 0xDB8, 0, 0, 0, 0, 0, 0x11].into(),
        hops: 1,
        ..Identity::new(number.into())
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
fn shims_after_one_and_two_routers() {
    // 1097.5 B/s.
    let take = changed(GRANT, |answer| answer.delta = -(1097 << 16) - (1 << 15));
    let nothing = XcpAnswer { delta: 0, ..GRANT };
    let declared = changed(GRANT, |answer| answer.corruption_ppm = 50_000);
    let translated = changed(GRANT, |answer| answer.translated = true);
    let (full, v6, compact) = (fresh(Form::V4), fresh(Form::V6), fresh(Form::Compact));
    assert_eq!(full, vector("xcp-fresh"));
    assert_eq!(compact, vector("xcp-compact"));
    for (before, answer, router, after) in [
        (&full, GRANT, 11, "xcp-stamped"),
        (&vector("xcp-stamped"), take, 22, "xcp-stamped-twice"),
        (&full, declared, 11, "xcp-stamped-declared"),
        (&full, translated, 11, "xcp-stamped-translated"),
        (&v6, GRANT, 11, "xcp-stamped-ipv6"),
        (&compact, nothing, 11, "xcp-compact-stamped"),
    ] {
        let mut shim = before.clone();
        let outcome = stamp_payload(&mut shim, &answer, 1528, &router_of(router));
        let stamped = (outcome, shim);
        assert_eq!(stamped, (Outcome::Stamped, vector(after)), "{after}");
    }
}

/// The values that the page explains; the sum is −3 · 2¹⁶.
#[test]
fn feedback_frame() {
    check_feedback("xcp-feedback", XcpSignal::new().kind(), |counters| {
        let totals = Totals::decode(counters).unwrap();
        assert_eq!(counters, [9, 7, 13_248, (1 << 62) - (3 << 16), 62, 63, 22]);
        totals.encode().collect()
    });
}
