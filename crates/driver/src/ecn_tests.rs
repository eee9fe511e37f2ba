//! ECN and DSCP over a veth pair between two hosts, with trains of segments.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;

use super::socket::{Outgoing, Sent, Socket};
use super::testing::*;
use pathmark_transport::Ecn;
use pathmark_transport::path::EcnState;

/// Datagrams per train.
const TRAIN: usize = 20;
/// Bytes per datagram.
const LENGTH: usize = 1200;

const CODES: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
/// Addresses of a server and a client.
const WAYS: [(&str, &str); 2] = [
    ("10.0.0.2:4433", "10.0.0.1:0"),
    ("[fd00::2]:4433", "[fd00::1]:0"),
];

/// Returns a train of datagrams, each filled with the number of this train.
fn train(number: u16) -> Vec<u8> {
    number.to_be_bytes().repeat(LENGTH / 2 * TRAIN)
}

/// Each datagram arrives with the code that a router could have written, whether it was coalesced
/// or not: trains with different codes don't mix, and none loses its own. The DSCP of the other
/// socket doesn't change them.
#[tokio::test]
async fn each_datagram_arrives_with_the_code_that_it_carried() {
    for (at, from) in WAYS {
        let (a, b) = hosts(1500);
        let [from, at]: [SocketAddr; 2] = [from, at].map(|address| address.parse().unwrap());
        let sending = Socket::new(a.udp(from).unwrap()).unwrap();
        let receiving = Socket::new(b.udp(at).unwrap()).unwrap();
        assert!(sending.max_segments() >= TRAIN, "no offload");
        let mut batch = receiving.batch();
        let mut sender = sending.sender();
        let mut arrived = 0;
        for number in 0..400u16 {
            // This puts each code next to each other code.
            let code = |number: u16| CODES[usize::from((number ^ number >> 2) & 3)];
            let bytes = train(number);
            let outgoing = Outgoing {
                ecn: code(number),
                dscp: (number & 0x3f) as u8,
                segment: LENGTH,
                ..outgoing(at, &bytes)
            };
            let room = poll_fn(|cx| sending.poll_writable(cx, &mut sender));
            soon("room", room).await.unwrap();
            assert_eq!(sending.send(&outgoing), Sent::Done);
            if number % 4 != 3 {
                continue;
            }
            // Four trains at once, so that they can end up in one batch.
            let expected = usize::from(number + 1) * TRAIN;
            while arrived < expected {
                let received = poll_fn(|cx| receiving.poll_receive(cx, &mut batch));
                soon("a batch", received).await.unwrap();
                for datagram in batch.datagrams() {
                    let number = u16::from_be_bytes([datagram.bytes[0], datagram.bytes[1]]);
                    assert_eq!(datagram.bytes, &train(number)[..LENGTH]);
                    assert_eq!(datagram.ecn, code(number), "train {number} to {at}");
                    arrived += 1;
                }
            }
            assert_eq!(arrived, expected);
        }
        assert_eq!(receiving.cut_off(), 0);
        // Nothing is left over.
        let more = poll_fn(|cx| Poll::Ready(receiving.poll_receive(cx, &mut batch))).await;
        assert!(more.is_pending());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ecn_holds_between_two_hosts() {
    for (at, from) in WAYS {
        let (a, b) = hosts(1500);
        let server = endpoint_on(&b, at, Some(server_config()));
        serve(&server);
        let endpoint = endpoint_on(&a, from, None);
        let connecting = connect(&endpoint, &server);
        let connection = soon("a handshake", connecting).await.unwrap();
        soon("an upload", send(&connection, 4_000_000)).await;
        assert_eq!(connection.path_report().ecn, EcnState::Capable, "{at}");
        assert_eq!((endpoint.stats().cut_off, server.stats().cut_off), (0, 0));
    }
}
