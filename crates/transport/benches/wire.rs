//! The cost of each packet before any cryptography: its header, an ACK frame, a STREAM frame.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pathmark_transport::wire::frame::{Fit, StreamHeader, ack};
use pathmark_transport::wire::packet::{Header, PlainHeader, TruncatedNumber};
use pathmark_transport::wire::{
    ConnectionId, Dir, Frame, Frames, PartialDecode, Side, StreamId, Writer,
};

/// Returns a 1-RTT packet of 1200 bytes with a plain header.
fn short_packet() -> Vec<u8> {
    let mut buffer = vec![0; 1200];
    let mut w = Writer::new(&mut buffer);
    let header = Header::OneRtt {
        dcid: ConnectionId::new(&[7; 8]).expect("8 bytes"),
        number: TruncatedNumber::with_len(0x1234, 2),
        key_phase: false,
        spin: false,
    };
    let started = header.encode(&mut w).expect("room");
    w.put_zeros(1200 - w.position() - 16).expect("room");
    started.finish(&mut w, 16).expect("room");
    buffer
}

fn headers(c: &mut Criterion) {
    let packet = short_packet();
    c.bench_function("wire/short_header_decode", |b| {
        b.iter(|| {
            let PartialDecode::Protected(found) =
                PartialDecode::new(black_box(&packet), 8).expect("a packet")
            else {
                unreachable!("a short header")
            };
            let header = PlainHeader::decode(&packet, &found).expect("a header");
            header.number.expand(0x1230)
        });
    });
}

fn acks(c: &mut Criterion) {
    let mut group = c.benchmark_group("wire/ack");
    for ranges in [1u64, 32, 512] {
        let all = (0..ranges).rev().map(|i| 10 * i..=10 * i + 6);
        let mut buffer = [0; 4096];
        group.throughput(Throughput::Elements(ranges));
        group.bench_function(format!("encode/{ranges}"), |b| {
            b.iter(|| {
                let mut w = Writer::new(&mut buffer);
                ack::encode(&mut w, black_box(all.clone()), 100, None, 4096)
            });
        });
        let mut w = Writer::new(&mut buffer);
        ack::encode(&mut w, all, 100, None, 4096).expect("room");
        let payload = w.written();
        group.bench_function(format!("decode/{ranges}"), |b| {
            b.iter(|| match Frames::new(black_box(payload)).next() {
                Some(Ok(Frame::Ack(ack))) => ack.ranges().map(|r| r.end() - r.start()).sum::<u64>(),
                _ => unreachable!("an ACK frame"),
            });
        });
    }
    group.finish();
}

fn streams(c: &mut Criterion) {
    let header = StreamHeader {
        id: StreamId::new(Side::Client, Dir::Bi, 3).expect("a stream id"),
        offset: 1 << 30,
        fin: false,
    };
    let mut buffer = [0; 1200];
    c.bench_function("wire/stream_header_encode", |b| {
        b.iter(|| {
            let mut w = Writer::new(&mut buffer);
            let fit = black_box(header).fit(1170, 1 << 20).unwrap_or(Fit {
                len: 0,
                explicit_len: true,
            });
            header.encode(&mut w, fit)
        });
    });
    let mut w = Writer::new(&mut buffer);
    let fit = header.fit(1170, 1 << 20).expect("room");
    header.encode(&mut w, fit).expect("room");
    w.put_zeros(fit.len).expect("room");
    let payload = w.written();
    c.bench_function("wire/stream_decode", |b| {
        b.iter(|| match Frames::new(black_box(payload)).next() {
            Some(Ok(Frame::Stream(stream))) => stream.data.len(),
            _ => unreachable!("a STREAM frame"),
        });
    });
}

criterion_group!(benches, headers, acks, streams);
criterion_main!(benches);
