//! Checks that the code and the test vectors of messages in `docs/wire.md` agree.

use std::net::IpAddr;

use xcp_edge::{Body, Key, Message, Probe, Route, Token, Train};

use crate::vectors::vector;

#[test]
fn messages_are_those_of_the_document() {
    let key = Key::new(b"an example, and no secret").unwrap();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let (k, before) = (address("192.0.2.22"), address("192.0.2.11"));
    let (k_v6, before_v6) = (address("2001:db8::22"), address("2001:db8::11"));
    let token = Token {
        issued: 5001,
        proof: 0x1122_3344_5566_7788,
    };
    let train = Train {
        packets: 16,
        bytes: 1472,
        gap: 400_000,
    };
    let probe = Probe {
        sent: 5_030_000_000,
        index: 1,
        packets: 16,
    };
    let message = |body| Message {
        run: 0x0102_0304_0506_0708,
        number: 2,
        body,
    };
    let answer = Body::Acknowledgement(token, train);
    for (name, body, from, to) in [
        ("request", Body::Request(token, train), k, before),
        ("request-ipv6", Body::Request(token, train), k_v6, before_v6),
        ("acknowledgement", answer, before, k),
        ("probe", Body::Probe(probe), before, k),
    ] {
        let route = Route { from, to };
        let mut out = [0; 64];
        let len = message(body).write(&key, &route, 48, &mut out).unwrap();
        let documented = vector(&format!("edge-{name}"));
        assert_eq!(documented, out[..len], "{name}: {:02x?}", &out[..len]);
        assert_eq!(Message::read(&key, &route, &documented), Ok(message(body)));
    }
}
