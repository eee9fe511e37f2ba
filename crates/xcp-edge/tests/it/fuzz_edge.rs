//! Fuzz target for messages between edge routers.
//!
//! `cargo test` runs it over its corpus in `__fuzz__` and a bounded number of random inputs. A
//! fuzzer runs the same function without a time limit: `cargo bolero test -p xcp-edge messages`
//! (libFuzzer).

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use pathmark_cc::Instant;
use xcp_edge::{
    Body, CONTROL_LEN, Edge, Key, Limits, Message, Prober, Requester, Route, Step, Train,
};

/// Number of random inputs in `cargo test`, in addition to the corpus.
const ITERATIONS: usize = 20_000;
/// Length of the longest random input, in bytes.
const MAX_LEN: usize = 512;

const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

fn key() -> Key {
    Key::new(&[3; 32]).expect("long enough")
}

fn edge() -> Edge {
    let limits = Limits {
        rate: 10_000,
        burst: 100_000,
        packet: 1472,
    };
    let start = Key::new(&[4; 32]).expect("long enough");
    let prober = Prober::new(Instant::ZERO, OWN, key(), start, limits);
    let requester = Requester::new(Instant::ZERO, OWN, key(), 1, Train::default());
    Edge::new(OWN, key(), prober, requester)
}

/// Datagrams with and without the secret: answers must stay within the budget, and answers to an
/// unproven address must not be longer than the requests.
fn datagrams(input: &[u8]) {
    let mut edge = edge();
    let from = SocketAddr::from(([192, 0, 2, 2], 9));
    let mut now = Instant::ZERO;
    let mut out = [0; 2000];
    let mut sent = 0;
    edge.requester.saw(now, from);
    for chunk in input.chunks(57) {
        now = Instant::from_nanos(now.as_nanos() + u64::from(chunk[0]) * 1_000_000);
        let _ = edge.on_datagram(now, from, chunk);
        let route = Route {
            from: from.ip(),
            to: OWN,
        };
        let mut sealed = [0; 64];
        if let Some(message) = message(chunk)
            && let Some(len) = message.write(&key(), &route, 64, &mut sealed)
        {
            let _ = edge.on_datagram(now, from, &sealed[..len]);
        }
        while let Some(transmit) = edge.prober.poll_transmit(now, &mut out) {
            if transmit.len > CONTROL_LEN || out[1] & 0x0F == 3 {
                sent += transmit.len;
            }
        }
        while let Some(step) = edge.requester.poll(now, &mut out) {
            if let Step::Send(transmit) = step {
                assert_eq!(transmit.len, CONTROL_LEN);
            }
        }
    }
    assert!(sent <= 100_000 + 10_000 * 3);
    assert!(edge.prober.stats().peers <= 1);
}

/// A message from random bytes.
fn message(bytes: &[u8]) -> Option<Message> {
    let (head, rest) = bytes.split_first_chunk::<9>()?;
    let mut sealed = [0; 64];
    // Uses the reader's format, so that every field can have any value.
    sealed[0..4].copy_from_slice(&[4, 0x10 | (head[0] % 3 + 1), 0x7A, 0x3D]);
    sealed[11] = 1;
    let room = rest.len().min(36);
    sealed[12..12 + room].copy_from_slice(&rest[..room]);
    // The message is assembled from the meaning of these bytes.
    let number = u32::from_be_bytes([sealed[12], sealed[13], sealed[14], sealed[15]]);
    let field = |at: usize| u64::from_be_bytes(sealed[at..at + 8].try_into().expect("8 bytes"));
    let token = xcp_edge::Token {
        issued: field(16),
        proof: field(24),
    };
    let train = Train {
        packets: (field(32) >> 48) as u16,
        bytes: (field(32) >> 32) as u16,
        gap: field(32) as u32,
    };
    let body = match sealed[1] & 3 {
        1 => Body::Request(token, train),
        2 => Body::Acknowledgement(token, train),
        _ => Body::Probe(xcp_edge::Probe {
            sent: field(16),
            index: (field(24) >> 48) as u16,
            packets: (field(24) >> 32) as u16,
        }),
    };
    Some(Message {
        run: 1,
        number,
        body,
    })
}

#[test]
fn messages() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(datagrams);
}
