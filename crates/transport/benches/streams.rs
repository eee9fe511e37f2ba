//! 1 GiB through the send buffer, STREAM frames and reassembly, compared with copying the same
//! number of bytes.
//!
//! This covers everything that a bulk transfer does besides packet headers, encryption, recovery
//! and sockets: the application writes data, packets of 1,400 bytes are filled, parsed and
//! acknowledged, and the data is read in order. With `--bench`, criterion repeats each measurement;
//! otherwise each runs once.

use core::hint::black_box;
use std::collections::VecDeque;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pathmark_transport::streams::{
    AckedRun, Dir, PeerLimits, SentFrames, Side, StreamId, Streams, StreamsConfig,
};
use pathmark_transport::wire::{Frame, Frames, Writer};
use pathmark_transport::{Duration, Instant};

const TOTAL: usize = 1 << 30;
const PACKET: usize = 1400;
/// Packets sent and delivered in a batch, as with segmentation offload.
const BATCH: usize = 32;
const FLIGHT: usize = 2048;
const PIECE: usize = 64 * 1024;

fn pair() -> (Streams, Streams, StreamId) {
    let config = StreamsConfig::default();
    let mut ends = [Side::Client, Side::Server].map(|side| Streams::new(side, config));
    for end in &mut ends {
        end.set_peer_limits(PeerLimits {
            max_data: config.initial_connection_window,
            max_stream_data_bidi_local: config.initial_stream_window,
            max_stream_data_bidi_remote: config.initial_stream_window,
            max_stream_data_uni: config.initial_stream_window,
            max_streams_bidi: 16,
            max_streams_uni: 16,
            ..PeerLimits::default()
        });
        end.on_congestion_window((FLIGHT * PACKET) as u64);
        end.on_rtt(Duration::from_millis(1));
    }
    let [mut client, server] = ends;
    let id = match client.open(Dir::Uni) {
        Ok(id) => id,
        Err(error) => unreachable!("{error}"),
    };
    (client, server, id)
}

fn deliver(to: &mut Streams, now: Instant, payload: &[u8]) {
    for frame in Frames::new(payload) {
        match frame {
            Ok(Frame::Stream(frame)) => assert!(to.on_stream(now, &frame).is_ok()),
            Ok(
                frame @ (Frame::MaxData(_)
                | Frame::MaxStreamData(_)
                | Frame::DataBlocked(_)
                | Frame::StreamDataBlocked(_)),
            ) => assert!(to.on_frame(now, &frame).is_ok()),
            other => unreachable!("{other:?}"),
        }
    }
}

fn acked(of: &mut Streams, sent: &SentFrames) {
    let mut run = AckedRun::default();
    of.gather_acked(sent, &mut run);
    of.settle_acked(&mut run);
}

/// How the application passes and receives data.
#[derive(Clone, Copy)]
enum Style {
    /// `write_bytes` and `read_chunk`.
    Handover,
    /// `write` and `read`.
    Copy,
}

/// Transfers data while one packet in `lose_every` is lost (0: none). The loss is detected after
/// the packets in flight, and the data is sent again.
fn transfer(style: Style, lose_every: usize) -> usize {
    let (mut client, mut server, id) = pair();
    let source = Bytes::from(vec![0x5a; PIECE]);
    let mut sink = vec![0; PIECE];
    let mut batch = vec![0u8; BATCH * PACKET];
    let mut flight: VecDeque<(SentFrames, bool)> = VecDeque::with_capacity(FLIGHT + BATCH);
    let (mut written, mut read, mut packets, mut tick) = (0, 0, 0usize, 0);
    while read < TOTAL {
        tick += 1;
        let now = Instant::from_micros(tick * 20);
        while written < TOTAL {
            let wanted = PIECE.min(TOTAL - written);
            let wrote = match style {
                Style::Handover => client.write_bytes(id, &mut source.slice(..wanted)),
                Style::Copy => client.write(id, &source[..wanted]),
            };
            match wrote {
                Ok(n) => written += n,
                Err(_) => break,
            }
        }
        let mut lens = [0; BATCH];
        for (payload, len) in batch.chunks_mut(PACKET).zip(&mut lens) {
            if flight.len() >= FLIGHT || !client.wants_to_send() {
                break;
            }
            let mut w = Writer::new(payload);
            let sent = client.write_frames(now, &mut w);
            packets += 1;
            let lost = lose_every > 0 && packets.is_multiple_of(lose_every);
            *len = if lost { 0 } else { w.position() };
            flight.push_back((sent, lost));
        }
        for (payload, len) in batch.chunks(PACKET).zip(lens) {
            deliver(&mut server, now, &payload[..len]);
        }
        match style {
            Style::Handover => {
                while let Ok(Some(chunk)) = server.read_chunk(id, usize::MAX) {
                    read += black_box(&chunk).len();
                }
            }
            Style::Copy => {
                while let Ok(Some(n)) = server.read(id, &mut sink) {
                    read += black_box(&sink[..n]).len();
                }
            }
        }
        while server.wants_to_send() {
            let mut payload = [0; PACKET];
            let mut w = Writer::new(&mut payload);
            let sent = server.write_frames(now, &mut w);
            deliver(&mut client, now, w.written());
            acked(&mut server, &sent);
        }
        // A blocked sender waits for the packets in flight.
        let idle = lens == [0; BATCH];
        let keep = match (written < TOTAL, idle) {
            (true, false) => FLIGHT - BATCH,
            (true, true) => flight.len().saturating_sub(BATCH),
            (false, _) => 0,
        };
        while flight.len() > keep {
            match flight.pop_front() {
                Some((sent, true)) => client.on_lost(&sent),
                Some((sent, false)) => acked(&mut client, &sent),
                None => break,
            }
        }
        while client.poll_event().is_some() || server.poll_event().is_some() {}
    }
    packets
}

/// Copies the same bytes once, packet by packet, through a buffer as large as the data in flight.
fn memcpy() {
    let source = vec![0x5a; FLIGHT * PACKET];
    let mut sink = vec![0; BATCH * PACKET];
    let mut done = 0;
    'all: loop {
        for chunk in source.chunks(BATCH * PACKET) {
            for (to, from) in sink.chunks_mut(PACKET).zip(chunk.chunks(PACKET)) {
                to.copy_from_slice(black_box(from));
            }
            black_box(&sink);
            done += chunk.len();
            if done >= TOTAL {
                break 'all;
            }
        }
    }
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("streams_1GiB");
    group
        .sample_size(10)
        .throughput(Throughput::Bytes(TOTAL as u64));
    group.bench_function("memcpy", |b| b.iter(memcpy));
    group.bench_function("handover", |b| b.iter(|| transfer(Style::Handover, 0)));
    group.bench_function("copy", |b| b.iter(|| transfer(Style::Copy, 0)));
    group.bench_function("copy, 1 % lost", |b| b.iter(|| transfer(Style::Copy, 100)));
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
