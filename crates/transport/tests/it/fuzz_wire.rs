//! Fuzz targets for the wire formats.
//!
//! `cargo test` runs each over its corpus in `__fuzz__` and a limited number of random inputs. A
//! fuzzer can run the same functions for as long as you like: `cargo bolero test -p
//! pathmark-transport frames` (libFuzzer).

use pathmark_transport::wire::packet::VersionNegotiation;
use pathmark_transport::wire::packet::{PlainHeader, SAMPLE_LEN, TAG_LEN};
use pathmark_transport::wire::{
    Frame, Frames, PartialDecode, Side, TransportParameters, Writer, varint,
};

/// Random inputs per target in `cargo test`, in addition to the corpus.
const ITERATIONS: usize = 200_000;
/// Largest length of a random input in bytes.
const MAX_LEN: usize = 512;

/// The input consists of the length of our connection IDs and a datagram, which is split into
/// packets inside it, as it is and with a long header of version 1.
fn datagram(input: &[u8]) {
    let Some((&cid_len, rest)) = input.split_first() else {
        return;
    };
    packets(rest, cid_len);
    let mut long = rest.to_vec();
    if let [first, a, b, c, d, ..] = &mut long[..] {
        *first |= 0xc0;
        [*a, *b, *c, *d] = [0, 0, 0, 1];
        packets(&long, cid_len);
    }
}

fn packets(mut rest: &[u8], cid_len: u8) {
    while let Ok(found) = PartialDecode::new(rest, usize::from(cid_len % 24)) {
        let dcid = found.dcid(rest);
        assert!(dcid.len() <= rest.len());
        match found {
            PartialDecode::Protected(packet) => {
                assert!(rest.get(packet.token.clone()).is_some());
                assert!(packet.number_at <= packet.len && packet.len > 0);
                if let Some(sample) = packet.sample() {
                    assert_eq!(rest[..packet.len][sample].len(), SAMPLE_LEN);
                }
                if let Ok(header) = PlainHeader::decode(rest, &packet) {
                    assert!(header.payload_at <= packet.len);
                    assert!(header.number.expand(1 << 40) <= varint::MAX);
                }
                rest = &rest[packet.len..];
            }
            PartialDecode::Retry(packet) => {
                assert_eq!(packet.token.end, packet.tag.start);
                assert_eq!(rest[packet.tag].len(), TAG_LEN);
                return;
            }
            PartialDecode::VersionNegotiation => {
                if let Ok(packet) = VersionNegotiation::decode(rest) {
                    assert!(packet.versions().count() > 0);
                }
                return;
            }
            PartialDecode::UnknownVersion(packet) => {
                assert!(packet.version > 1);
                assert!(rest.get(packet.dcid).is_some() && rest.get(packet.scid).is_some());
                return;
            }
        }
    }
}

/// The input is a payload. Its frames are read up to the first error, and each is the same after
/// writing and reading it again.
fn payload(input: &[u8]) {
    let mut buffer = [0; 2048];
    let mut frames = Frames::new(input);
    let mut before = frames.remaining();
    while let Some(frame) = frames.next() {
        assert!(frames.remaining() < before);
        before = frames.remaining();
        let Ok(frame) = frame else {
            assert_eq!(frames.next(), None);
            return;
        };
        if frame.len() > buffer.len() {
            continue;
        }
        let mut w = Writer::new(&mut buffer);
        frame.encode(&mut w).expect("what was read can be written");
        assert_eq!(w.position(), frame.len());
        let mut again = Frames::new(w.written());
        match (frame, again.next()) {
            // These keep bytes that needn't have the shortest encoding.
            (Frame::Ack(a), Some(Ok(Frame::Ack(b)))) => {
                assert!(a.ranges().eq(b.ranges()) && a.ecn == b.ecn && a.delay == b.delay);
            }
            (Frame::Feedback(a), Some(Ok(Frame::Feedback(b)))) => {
                assert_eq!((a.kind, a.epoch), (b.kind, b.epoch));
                assert_eq!(a.counters(), b.counters());
            }
            (frame, again) => assert_eq!(again, Some(Ok(frame))),
        }
        assert_eq!(again.next(), None);
    }
}

/// The input consists of the sender's role and transport parameters. Accepted parameters are the
/// same after writing and reading them again.
fn parameters(input: &[u8]) {
    let Some((&sender, bytes)) = input.split_first() else {
        return;
    };
    let sender = if sender & 1 == 0 {
        Side::Client
    } else {
        Side::Server
    };
    if let Ok(parameters) = TransportParameters::decode(bytes, sender) {
        let again = parameters.to_vec(None);
        let again = again.expect("what was read can be written");
        assert_eq!(TransportParameters::decode(&again, sender), Ok(parameters));
    }
}

target!(datagrams, datagram);
target!(frames, payload);
target!(transport_parameters, parameters);
