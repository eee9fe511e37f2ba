use std::time::Duration;

use pathmark_cc::VcpFeedback;

use super::*;
use crate::support::{arrived, changed, sent};

fn vcp(feedback: Feedback) -> VcpFeedback {
    match feedback {
        Feedback::Vcp(feedback) => feedback,
        other => panic!("not VCP: {other:?}"),
    }
}

#[test]
fn a_sender_fills_what_its_controller_asks() {
    let mut request = Request::default();
    request.bise = true;
    request.min_rtt = Some(Duration::from_millis(10));
    for (signal, carries_r) in [
        (VcpSignal::new(), true),
        (VcpSignal::new().with_lottery(), false),
    ] {
        let mut shim = vec![0xAA; signal.shim_len()];
        signal.fill(&request, &mut shim);
        let packet = Packet::parse(&shim).unwrap();
        assert_eq!(packet.code(), VcpCode::Low);
        assert!(packet.bise());
        assert_eq!(packet.carries_r(), carries_r);
        assert_eq!(packet.hops(), 0);
        assert!(packet.min_rtt() >= request.min_rtt);
    }
    let mut wrong_size = [0xAA; 12];
    VcpSignal::new().fill(&request, &mut wrong_size);
    assert_eq!(wrong_size, [0xAA; 12]);
}

#[test]
fn shims_are_counted_and_read_back() {
    let signal = VcpSignal::new();
    let mut meter = signal.meter();
    assert_eq!(meter.counters(), None);
    meter.on_packet(&arrived(None, 64));
    let counted = meter.counters();
    assert_eq!(
        counted, None,
        "a packet sent without a shim is no VCP packet"
    );

    let mut shim = [0; 16];
    signal.fill(&Request::default(), &mut shim);
    meter.on_packet(&arrived(Some(&shim), 64));
    let first = meter.counters().unwrap();
    let feedback = vcp(signal.difference(None, &first, &sent(1, 1200)).unwrap());
    let counted = feedback.packets;
    assert_eq!(counted, [1, 0, 0, 0], "an unmarked LOW is no signal");
    assert_eq!(feedback.unmarked_hop, Some(false));

    let mut marked = Repr::parse(&Packet::parse(&shim).unwrap());
    marked.hops = 1;
    marked.code = VcpCode::High;
    marked.t_rho_ms = 200;
    meter.on_packet(&arrived(Some(&marked.emit()), 64));
    meter.on_packet(&arrived(Some(&[0xFF; 16]), 64));
    let second = meter.counters().unwrap();
    let feedback = vcp(signal
        .difference(Some(&first), &second, &sent(3, 1200))
        .unwrap());
    assert_eq!(feedback.packets, [1, 0, 1, 0]);
    assert_eq!(feedback.bytes, [1200, 0, 1200, 0]);
    assert_eq!(feedback.t_rho, Duration::from_millis(200));
    assert_eq!(feedback.hops, 1);

    let none = Counters::new();
    for (older, newer, packets) in [
        (Some(&second), &first, 3),
        (Some(&first), &second, 2),
        (None, &none, 9),
    ] {
        let difference = signal.difference(older, newer, &sent(packets, 1200));
        assert!(difference.is_err(), "{older:?} {newer:?}");
    }
}

#[test]
fn the_ecn_carrier() {
    let signal = VcpEcnSignal;
    assert_eq!(signal.shim_len(), 0);
    assert_eq!(signal.ecn(), Some(Ecn::Ect1));
    let mut meter = signal.meter();
    for ecn in [Ecn::Ect1, Ecn::Ect0, Ecn::Ce, Ecn::NotEct] {
        meter.on_packet(&changed(arrived(None, 64), |arrived| arrived.ecn = ecn));
    }
    let counters = meter.counters().unwrap();
    let feedback = vcp(signal.difference(None, &counters, &sent(4, 1200)).unwrap());
    assert_eq!(feedback.packets, [1, 1, 1, 1]);
    assert_eq!(feedback.sum_r, 65_536);
    assert_eq!(feedback.t_rho, Duration::ZERO);
    assert!(!feedback.bise);
    assert_eq!(feedback.unmarked_hop, None);
}
