//! The time that a router needs per packet for reading and stamping an XCP shim.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use pathmark_cc::{XcpAnswer, XcpRequest};
use pathmark_shim::{ip::Layout, udp::ChecksumState, udp::Datagram};
use xcp_proto::{Form, Identity, Repr, stamp};

/// An IPv4 packet of 1228 bytes with a shim.
fn packet(form: Form) -> Vec<u8> {
    let request = XcpRequest {
        rtt_us: 100_000,
        x: 1_099_511_627,
        delta: 1 << 40,
        covers: 1,
        window: 150_000,
        packet: 1200,
    };
    let mut bytes = vec![0; 1228];
    bytes[..28].copy_from_slice(&[
        0x45, 0, 0x04, 0xCC, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2, 0xC0, 0,
        0x11, 0x51, 0x04, 0xB8, 0x12, 0x34,
    ]);
    let shim = Repr::initial(form, Some(&request), 64).emit(&mut bytes[28..]);
    assert_eq!(shim, Some(form.len()));
    bytes
}

fn stamping(c: &mut Criterion) {
    let router = Identity::new(7);
    for (name, form) in [
        ("full", Form::V4),
        ("full, IPv6", Form::V6),
        ("compact", Form::Compact),
    ] {
        let original = packet(form);
        let mut bytes = original.clone();
        let layout = Layout::walk(&bytes).expect("an IP packet");
        let udp = Datagram::locate(&bytes, &layout).expect("UDP");
        c.bench_function(&format!("read and stamp, {name}"), |b| {
            b.iter(|| {
                // Restores the original shim, so that each round lowers it.
                bytes[28..76].copy_from_slice(&original[28..76]);
                let carried = stamp::from_payload(udp.payload(black_box(&bytes)), 1228);
                black_box(carried);
                let answer = XcpAnswer {
                    delta: black_box(1 << 30),
                    bounding: true,
                    ..XcpAnswer::default()
                };
                stamp::stamp_packet(
                    &mut bytes,
                    &udp,
                    0,
                    &answer,
                    1228,
                    &router,
                    ChecksumState::Complete,
                )
            });
        });
    }
}

criterion_group!(benches, stamping);
criterion_main!(benches);
