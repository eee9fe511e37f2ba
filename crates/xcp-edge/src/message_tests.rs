use super::*;
use core::net::{IpAddr, Ipv4Addr};

pub(crate) fn key() -> Key {
    Key::new(b"a secret of 24 bytes or so").unwrap()
}

pub(crate) fn route(from: u8, to: u8) -> Route {
    let address = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
    Route {
        from: address(from),
        to: address(to),
    }
}

fn every_kind() -> [(Message, u16); 3] {
    let token = Token {
        issued: 17,
        proof: 0xABCD,
    };
    let train = Train {
        packets: 16,
        bytes: 1472,
        gap: 400_000,
    };
    let probe = Probe {
        sent: 1_000_000_007,
        index: 3,
        packets: 16,
    };
    [
        (Body::Request(token, train), 0),
        (Body::Acknowledgement(token, train), 0),
        (Body::Probe(probe), 1472),
    ]
    .map(|(body, len)| {
        let message = Message {
            run: 0x0102_0304_0506_0708,
            number: 9,
            body,
        };
        (message, len)
    })
}

#[test]
fn messages_are_read_as_they_were_written() {
    for (message, len) in every_kind() {
        let mut out = [0xEE; 2000];
        let written = message.write(&key(), &route(1, 2), len, &mut out).unwrap();
        let read = Message::read(&key(), &route(1, 2), &out[..written]);
        assert_eq!(read, Ok(message));
        assert!(
            message
                .write(&key(), &route(1, 2), len, &mut [0; 47])
                .is_none()
        );
    }
}

/// A message with any bit flipped, or with another sender or receiver, must be refused.
#[test]
fn changed_messages_are_refused() {
    for (message, _) in every_kind() {
        let mut out = [0; 64];
        let written = message.write(&key(), &route(1, 2), 64, &mut out).unwrap();
        for bit in 0..8 * written {
            let mut changed = out;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Message::read(&key(), &route(1, 2), &changed[..written]).is_err());
        }
        for (from, to) in [(2, 1), (1, 3), (3, 2)] {
            let read = Message::read(&key(), &route(from, to), &out[..written]);
            assert_eq!(read, Err(BadMessage::Forged));
        }
        let other = Key::new(b"another secret, as long").unwrap();
        let read = Message::read(&other, &route(1, 2), &out[..written]);
        assert_eq!(read, Err(BadMessage::Forged));
    }
}

/// Even a sender with the secret must not be able to request values that would overflow.
#[test]
fn fields_are_held_to_their_ranges() {
    let write = |body| {
        let mut out = [0; 64];
        let message = Message {
            run: 1,
            number: 1,
            body,
        };
        message.write(&key(), &route(1, 2), 64, &mut out).unwrap();
        Message::read(&key(), &route(1, 2), &out)
    };
    let request = |packets, bytes, gap| {
        let train = Train {
            packets,
            bytes,
            gap,
        };
        write(Body::Request(Token::default(), train))
    };
    assert!(request(128, 48, MOST_GAP).is_ok());
    for (packets, bytes, gap) in [
        (129, 48, MOST_GAP),
        (128, 47, MOST_GAP),
        (128, 9001, MOST_GAP),
        (128, 48, MOST_GAP + 1),
    ] {
        assert_eq!(request(packets, bytes, gap), Err(BadMessage::Range));
    }
    let probe = Probe {
        sent: 0,
        index: 5,
        packets: 5,
    };
    assert_eq!(write(Body::Probe(probe)), Err(BadMessage::Range));
}

/// RFC 4231, test case 2, truncated to 128 bits, shows that the parts are combined correctly.
#[test]
fn the_authenticator_is_hmac_sha_256() {
    let mut mac = crate::auth::Mac::new(b"Jefe").unwrap();
    mac.update(b"what do ya want for nothing?");
    let known = [
        0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75,
        0xc7,
    ];
    assert_eq!(mac.clone().finish()[..16], known);
    assert!(mac.begins_with(&known));
    assert!(Key::new(b"fifteen bytes..").is_err());
}
