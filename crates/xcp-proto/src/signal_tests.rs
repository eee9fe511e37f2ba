use pathmark_cc::{XcpFeedback, XcpRequest};

use super::*;
use crate::stamp::{self, Identity};
use crate::support::{arrived, changed, sent};

fn xcp(feedback: Feedback) -> XcpFeedback {
    match feedback {
        Feedback::Xcp(feedback) => feedback,
        other => panic!("not XCP: {other:?}"),
    }
}

fn request() -> Request {
    let mut request = Request::default();
    request.xcp = Some(XcpRequest {
        rtt_us: 20_000,
        x: 1 << 32,
        delta: 5000 << 16,
        covers: 2,
        window: 24_000,
        packet: 1200,
    });
    request
}

#[test]
fn a_header_goes_round() {
    for form in [Form::V4, Form::V6, Form::Compact] {
        let signal = XcpSignal::new().with_form(form);
        let mut meter = signal.meter();
        assert_eq!(meter.counters(), None);
        meter.on_packet(&arrived(None, 63));
        let counted = meter.counters();
        assert_eq!(counted, None, "a packet without a header says nothing");

        let mut shim = vec![0; signal.shim_len()];
        signal.fill(&request(), &mut shim);
        meter.on_packet(&arrived(Some(&shim), 63));
        let first = meter.counters().unwrap();
        let feedback = xcp(signal.difference(None, &first, &sent(1, 1200)).unwrap());
        assert_eq!((feedback.packets, feedback.stamped), (1, 0));
        let delta = feedback.delta;
        assert_eq!(delta, 0, "no router has granted what was requested");
        assert_eq!(feedback.unmarked_hop, Some(true));

        let answer = changed(pathmark_cc::XcpAnswer::default(), |answer| {
            (answer.delta, answer.bounding) = (3000 << 16, true);
        });
        let outcome = stamp::stamp_payload(&mut shim, &answer, 1200, &Identity::new(6));
        assert_eq!(outcome, stamp::Outcome::Stamped);
        meter.on_packet(&arrived(Some(&shim), 63));
        let second = meter.counters().unwrap();
        let feedback = xcp(signal
            .difference(Some(&first), &second, &sent(2, 1200))
            .unwrap());
        assert_eq!((feedback.packets, feedback.stamped), (1, 1));
        assert_eq!((feedback.hops, feedback.router), (1, 6));
        assert_eq!(feedback.unmarked_hop, Some(false));
        let granted = 3000 << 16;
        let step = if form == Form::Compact { 20 << 16 } else { 0 };
        assert!((granted - step..=granted).contains(&feedback.delta));

        let none = Counters::new();
        for (older, newer, packets) in [
            (Some(&second), &first, 2),
            (None, &second, 1),
            (None, &none, 9),
        ] {
            let difference = signal.difference(older, newer, &sent(packets, 1200));
            assert!(difference.is_err(), "{older:?} {newer:?}");
        }
    }
}

/// On an IPv6 path, the full form must have room for its routers' addresses, even if the request
/// names the form; the compact form has none.
#[test]
fn the_form_follows_the_version_of_ip() {
    let full = Some(Explicit::Xcp(XcpForm::Full));
    let compact = Some(Explicit::Xcp(XcpForm::Compact));
    for (own, named, [v4, v6]) in [
        (Form::V4, None, [36, 48]),
        (Form::V4, full, [36, 48]),
        (Form::V4, compact, [16, 16]),
        (Form::V6, None, [48, 48]),
        (Form::Compact, None, [16, 16]),
        (Form::Compact, full, [36, 48]),
    ] {
        let signal = XcpSignal::new().with_form(own);
        for (ipv6, len) in [(false, v4), (true, v6)] {
            let mut request = request();
            (request.signal, request.ipv6) = (named, ipv6);
            assert_eq!(signal.len_of(&request), len, "{own:?} {named:?} {ipv6}");
            assert!(signal.longest(ipv6) >= len);
            let mut shim = vec![0; len];
            signal.fill(&request, &mut shim);
            assert_eq!(Packet::parse(&shim).unwrap().form().len(), len);
        }
    }
}

#[test]
fn congestion_marks_take_what_is_positive() {
    let signal = XcpSignal::new();
    let mut shim = vec![0; signal.shim_len()];
    signal.fill(&request(), &mut shim);
    let answer = changed(pathmark_cc::XcpAnswer::default(), |answer| {
        (answer.delta, answer.bounding) = (1 << 16, true);
    });
    let _ = stamp::stamp_payload(&mut shim, &answer, 1200, &Identity::new(6));
    let mut meter = signal.meter();
    meter.on_packet(&changed(arrived(Some(&shim), 63), |arrived| {
        arrived.ecn = Ecn::Ce;
    }));
    let counters = meter.counters().unwrap();
    let feedback = xcp(signal.difference(None, &counters, &sent(1, 1200)).unwrap());
    assert_eq!((feedback.stamped, feedback.delta), (1, 0));
}
