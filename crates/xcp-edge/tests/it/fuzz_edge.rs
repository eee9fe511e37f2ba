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

/// A message whose fields are random bytes.
fn message(bytes: &[u8]) -> Option<Message> {
    let (&[kind, number @ ..], rest) = bytes.split_first_chunk::<5>()?;
    let field = |at| {
        let bytes = rest.get(at..)?.first_chunk()?;
        Some(u64::from_be_bytes(*bytes))
    };
    let [first, second, third] = [0, 8, 16].map(|at| field(at).unwrap_or(0));
    let halves = |field: u64| ((field >> 48) as u16, (field >> 32) as u16);
    let token = xcp_edge::Token {
        issued: first,
        proof: second,
    };
    let ((packets, bytes), gap) = (halves(third), third as u32);
    let train = Train {
        packets,
        bytes,
        gap,
    };
    let (index, packets) = halves(second);
    let probe = xcp_edge::Probe {
        sent: first,
        index,
        packets,
    };
    let body = match kind % 3 {
        0 => Body::Request(token, train),
        1 => Body::Acknowledgement(token, train),
        _ => Body::Probe(probe),
    };
    Some(Message {
        run: 1,
        number: u32::from_be_bytes(number),
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
