//! The ECN carrier.

use super::{MTU, RTT, at};
use crate::law::{Controller, Halving};
use crate::signals::{Carrier, Feedback};
use crate::testing::{acked, codes};
use crate::vcp::params::VcpParams;
use crate::vcp::sender::VcpSender;

fn ecn() -> VcpSender<Halving> {
    let params = VcpParams {
        carrier: Carrier::Ecn,
        initial_window: Some(100),
        ..VcpParams::default()
    };
    VcpSender::new("vcp", at(0), 1500, params, Halving)
}

/// Feedback as carried by the ECN field: no hop count, no interval, no flags.
fn ecn_ack(sender: &mut impl Controller, now: u64, packets: [u64; 4]) {
    let total: u64 = packets.iter().sum();
    let mut ack = acked(now, total * MTU, RTT);
    ack.packets = total;
    let feedback = Feedback::Vcp(codes(packets, MTU));
    sender.on_feedback(at(now), &feedback, &ack);
    sender.on_ack(at(now), &ack);
}

#[test]
fn on_ecn_low_alone_proves_nothing() {
    let mut sender = ecn();
    for now in (100..3000).step_by(20) {
        ecn_ack(&mut sender, now, [0, 2, 0, 0]);
        assert!(!sender.metrics().explicit);
    }
    ecn_ack(&mut sender, 3000, [0, 1, 1, 0]);
    assert!(sender.metrics().explicit);
}

#[test]
fn a_constant_ecn_field_is_found_within_three_round_trips() {
    for constant in [[0, 0, 2, 0], [0, 0, 0, 2]] {
        let mut sender = ecn();
        for now in (100..400).step_by(20) {
            ecn_ack(&mut sender, now, constant);
        }
        assert!(!sender.metrics().explicit, "{constant:?}");
        for now in (400..3000).step_by(20) {
            ecn_ack(&mut sender, now, constant);
            assert!(!sender.metrics().explicit);
        }
        // Another code proves that the signal works.
        for now in (3000..3500).step_by(20) {
            ecn_ack(&mut sender, now, [0, 1, 1, 0]);
        }
        assert!(sender.metrics().explicit);
    }
}

#[test]
fn a_bleached_ecn_field_is_found_within_three_round_trips() {
    let mut sender = ecn();
    ecn_ack(&mut sender, 100, [0, 1, 1, 0]);
    assert!(sender.metrics().explicit);
    for now in (120..400).step_by(20) {
        ecn_ack(&mut sender, now, [2, 0, 0, 0]);
    }
    assert!(!sender.metrics().explicit);
}
