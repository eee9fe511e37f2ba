//! The cost of marking a packet, with the cost of copying it for comparison.
//!
//! `parse and rewrite` covers everything that a router does to a shim if the packet's layout is
//! known: checking it, combining the answer, and updating its check and the UDP checksum.
//! `from the IP header` walks the packet as well.

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use pathmark_cc::{Request, VcpAnswer, VcpCode};
use pathmark_shim::{
    ip::Layout,
    udp::{ChecksumState, Datagram},
};
use vcp_proto::{Packet, Repr, counters::Totals, mark};

const ROUTER: u16 = 7;
const PACKETS: usize = 64;

fn packet() -> Vec<u8> {
    let mut bytes = vec![0x5A; 1500];
    let header = [
        0x45, 0, 0x05, 0xDC, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2, 0xC0, 0,
        0x11, 0x51, 0x05, 0xC8, 0x12, 0x34,
    ];
    bytes[..28].copy_from_slice(&header);
    bytes[28..44].copy_from_slice(&Repr::initial(&Request::default(), true).emit());
    bytes
}

fn benches(c: &mut Criterion) {
    let answer = VcpAnswer {
        code: VcpCode::High,
        r: Some(12_345),
        t_rho_ms: 200,
        load_128: 110,
        ..VcpAnswer::default()
    };
    let mut group = c.benchmark_group("vcp shim");
    group
        .sample_size(30)
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(500));

    let fresh = packet();
    group.bench_function("memcpy 1500 bytes (scale)", |b| {
        let mut copy = [0; 1500];
        b.iter(|| black_box(&mut copy[..]).copy_from_slice(black_box(&fresh)));
    });

    // A router's next packet is a different packet, so several packets are used in turn, and no
    // iteration waits for the writes of the previous iteration.
    let mut bytes = packet();
    let ip = Layout::walk(&bytes).unwrap();
    let udp = Datagram::locate(&bytes, &ip).unwrap();
    let mut packets = [[0; 1500]; PACKETS];
    for copy in &mut packets {
        copy.copy_from_slice(&bytes);
    }
    let mut at = 0;
    let mut next = || {
        at = (at + 1) % PACKETS;
        at
    };
    group.bench_function("parse", |b| {
        b.iter(|| Packet::parse(black_box(&packets[next()][28..])).is_ok());
    });
    group.bench_function("parse and rewrite", |b| {
        b.iter(|| {
            let packet = black_box(&mut packets[next()][..]);
            let answer = black_box(&answer);
            mark::mark_packet(packet, &udp, 0, answer, ROUTER, ChecksumState::Complete)
        });
    });
    group.bench_function("parse and rewrite, the same packet over and over", |b| {
        b.iter(|| {
            let answer = black_box(&answer);
            mark::mark_packet(
                black_box(&mut bytes),
                &udp,
                0,
                answer,
                ROUTER,
                ChecksumState::Complete,
            )
        });
    });
    group.bench_function("from the IP header: walk, read, parse and rewrite", |b| {
        b.iter(|| {
            let bytes = black_box(&mut packets[next()][..]);
            let ip = Layout::walk(bytes).ok()?;
            let udp = Datagram::locate(bytes, &ip)?;
            black_box(mark::from_payload(udp.payload(bytes)));
            Some(mark::mark_packet(
                bytes,
                &udp,
                0,
                black_box(&answer),
                ROUTER,
                ChecksumState::Complete,
            ))
        });
    });
    group.bench_function("walk and flow hash", |b| {
        b.iter(|| {
            let bytes = black_box(&bytes[..]);
            Some(Layout::walk(bytes).ok()?.flow_hash(bytes, 1))
        });
    });
    group.bench_function("count at the receiver", |b| {
        let mut totals = Totals::default();
        b.iter(|| {
            let shim = Packet::parse(black_box(&bytes[28..])).ok();
            totals.count_shim(shim.as_ref(), 1472, Some(60));
        });
    });
    group.bench_function("fill at the sender", |b| {
        let request = Request::default();
        b.iter(|| Repr::initial(black_box(&request), true).emit());
    });
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
