use super::*;
use crate::auth::Route;
use crate::message::{CONTROL_LEN, tests::key};
use core::net::{IpAddr, Ipv4Addr};

const TRAIN: Train = Train {
    packets: 10,
    bytes: 972,
    gap: 1_000_000,
};

fn own() -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))
}

fn peer(n: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, (n >> 8) as u8, n as u8], 7000))
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn prober(rate: u64, burst: u64) -> Prober {
    let limits = Limits {
        rate,
        burst,
        packet: 1472,
    };
    let start = Key::new(&[7; 32]).unwrap();
    Prober::new(at(0), own(), key(), start, limits)
}

fn ask(prober: &mut Prober, now: Instant, from: SocketAddr, run: u64, number: u32, token: Token) {
    let body = Body::Request(token, TRAIN);
    let message = Message { run, number, body };
    prober.on_request(now, from, &message, &token, &TRAIN);
}

fn sent(prober: &mut Prober, now: Instant) -> Vec<(Message, usize)> {
    let mut out = [0; 2000];
    let mut all = Vec::new();
    while let Some(transmit) = prober.poll_transmit(now, &mut out) {
        let route = Route {
            from: own(),
            to: transmit.to.ip(),
        };
        let message = Message::read(&key(), &route, &out[..transmit.len]).unwrap();
        all.push((message, transmit.len));
    }
    all
}

/// The token in the only answer.
fn token(prober: &mut Prober, now: Instant) -> Token {
    let answers = sent(prober, now);
    match answers[..] {
        [(message, CONTROL_LEN)] => match message.body {
            Body::Acknowledgement(token, Train { packets: 0, .. }) => token,
            _ => panic!("{message:?}"),
        },
        _ => panic!("{answers:?}"),
    }
}

/// A first request must get only a token, in no more bytes than it has. The next request gets the
/// train, at its gap.
#[test]
fn trains_go_to_proven_addresses_only() {
    let mut prober = prober(1_000_000, 1_000_000);
    ask(&mut prober, at(5), peer(1), 44, 1, Token::default());
    let proof = token(&mut prober, at(5));
    // The token must not be valid for another address or run.
    ask(&mut prober, at(6), peer(2), 44, 2, proof);
    ask(&mut prober, at(6), peer(1), 45, 2, proof);
    assert_eq!(sent(&mut prober, at(6)).len(), 2);
    assert_eq!(prober.stats().trains, 0);
    ask(&mut prober, at(6), peer(1), 44, 2, proof);
    let first = sent(&mut prober, at(6));
    assert!(matches!(first[0].0.body, Body::Acknowledgement(_, TRAIN)));
    assert_eq!((first.len(), first[1].1), (2, 972));
    for index in 1..10u16 {
        assert_eq!(prober.deadline(), Some(at(6 + u64::from(index))));
        let probes = sent(&mut prober, at(6 + u64::from(index)));
        let expected = Probe {
            sent: at(6 + u64::from(index)).as_nanos(),
            index,
            packets: 10,
        };
        assert_eq!(probes[0].0.body, Body::Probe(expected));
    }
    assert_eq!(prober.deadline(), None);
}

/// A replayed request must be refused: in its run, after a restart of the requester or of this
/// router, and after its entry has expired.
#[test]
fn replayed_requests_are_refused() {
    let mut prober = prober(1_000_000, 1_000_000);
    ask(&mut prober, at(5), peer(1), 44, 1, Token::default());
    let old = token(&mut prober, at(5));
    ask(&mut prober, at(6), peer(1), 44, 2, old);
    assert_eq!(prober.stats().trains, 1);
    ask(&mut prober, at(7), peer(1), 44, 2, old);
    ask(&mut prober, at(7), peer(1), 44, 1, old);
    assert_eq!((prober.stats().trains, prober.stats().replayed), (1, 2));
    let _ = sent(&mut prober, at(100));
    // The requester restarts.
    ask(&mut prober, at(200), peer(1), 45, 1, Token::default());
    let new = sent(&mut prober, at(200));
    let token = new.iter().find_map(|(message, _)| match message.body {
        Body::Acknowledgement(token, _) => Some(token),
        _ => None,
    });
    ask(&mut prober, at(201), peer(1), 45, 2, token.unwrap());
    assert_eq!(prober.stats().trains, 2);
    ask(&mut prober, at(202), peer(1), 44, 3, old);
    assert_eq!((prober.stats().trains, prober.stats().replayed), (2, 3));
    // A token without an entry is valid for ten seconds.
    let mut later = self::prober(1_000_000, 1_000_000);
    ask(&mut later, at(5), peer(1), 44, 1, Token::default());
    let stale = self::token(&mut later, at(5));
    ask(&mut later, at(11_000), peer(1), 44, 2, stale);
    assert_eq!((later.stats().trains, later.stats().unproven), (0, 2));
    // And no token of another start is valid.
    let start = Key::new(&[8; 32]).unwrap();
    let mut other = Prober::new(at(0), own(), key(), start, later.limits);
    ask(&mut other, at(6), peer(1), 44, 9, old);
    assert_eq!((other.stats().trains, other.stats().unproven), (0, 1));
}

/// Whatever the requests, no more may be sent than the burst and the rate allow.
#[test]
fn the_budget_holds() {
    let mut prober = prober(50_000, 100_000);
    ask(&mut prober, at(0), peer(1), 1, 1, Token::default());
    let mut proof = token(&mut prober, at(0));
    let mut number = 1;
    for millis in 0..10_000 {
        number += 1;
        ask(&mut prober, at(millis), peer(1), 1, number, proof);
        for (message, _) in sent(&mut prober, at(millis)) {
            if let Body::Acknowledgement(token, _) = message.body {
                proof = token;
            }
        }
    }
    let stats = prober.stats();
    let bytes = stats.probe_bytes + 48 * stats.probes;
    assert!(bytes <= 100_000 + 50_000 * 10, "{bytes}");
    assert!(bytes > 400_000, "{bytes}");
    assert!(stats.refused > 0);
}

/// There are more proven requesters than places.
#[test]
fn the_table_is_bounded() {
    let mut prober = prober(1 << 40, 1 << 40);
    for n in 0..1000 {
        ask(&mut prober, at(0), peer(n), 1, 1, Token::default());
        let proof = token(&mut prober, at(0));
        ask(&mut prober, at(0), peer(n), 1, 2, proof);
        let _ = sent(&mut prober, at(0));
    }
    let stats = prober.stats();
    assert!(
        stats.peers <= 64 && stats.trains == 64 && stats.refused == 936,
        "{stats:?}"
    );
    assert!(prober.trains.len() <= MOST_TRAINS);
    for millis in 1..20 {
        let _ = sent(&mut prober, at(millis));
    }
    assert_eq!(prober.deadline(), None);
    // Entries without requests are replaced.
    ask(&mut prober, at(31_000), peer(2000), 1, 1, Token::default());
    let proof = token(&mut prober, at(31_000));
    ask(&mut prober, at(31_001), peer(2000), 1, 2, proof);
    assert_eq!(prober.stats().refused, 936);
}

/// Simultaneous requests of strangers must have a bounded number of answers.
#[test]
fn answers_are_bounded() {
    let mut prober = prober(1_000_000, 1_000_000);
    for n in 0..10_000 {
        ask(&mut prober, at(0), peer(n), 1, 1, Token::default());
    }
    assert_eq!(sent(&mut prober, at(0)).len(), MOST_ANSWERS);
    assert_eq!(prober.stats().peers, 0);
}
