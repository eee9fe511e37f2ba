use super::*;
use crate::message::tests::key;
use core::net::{Ipv4Addr, Ipv6Addr};

const FIRST: Train = Train {
    packets: 16,
    bytes: 972,
    gap: 0,
};

fn own() -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9))
}

fn upstream(n: u32) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(0xC633_0000 + n)), 7000)
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn requester() -> Requester {
    Requester::new(at(0), own(), key(), 77, FIRST)
}

/// Requests that are sent, and routers that become silent, by this time.
fn steps(requester: &mut Requester, now: Instant) -> Vec<Step> {
    let mut out = [0; 100];
    core::iter::from_fn(|| requester.poll(now, &mut out)).collect()
}

fn acknowledge(requester: &mut Requester, now: Instant, packets: u16) -> Option<Received> {
    let token = Token {
        issued: 1,
        proof: 2,
    };
    let train = Train { packets, ..FIRST };
    let message = Message {
        run: 77,
        number: requester.number,
        body: Body::Acknowledgement(token, train),
    };
    requester.on_answer(now, upstream(1), &message, 64)
}

/// Three tries, each with twice the previous timeout, are followed by silence until a packet
/// arrives from there again, and for at least a second, or two the next time.
#[test]
fn a_router_that_does_not_answer_is_left_in_peace() {
    let mut requester = requester();
    let mut sent = Vec::new();
    let mut silent = Vec::new();
    // Packets arrive all the time except from 2.2 s to 4.7 s.
    for millis in 0..12_000 {
        if !(2_200..4_700).contains(&millis) {
            assert!(requester.saw(at(millis), upstream(1)));
        }
        for step in steps(&mut requester, at(millis)) {
            match step {
                Step::Send(_) => sent.push(millis),
                Step::Silent(_) => silent.push(millis),
            }
        }
    }
    // 200 + 400 + 800 ms. A second of silence ends at 2.4 s, when no packets arrive.
    assert_eq!(sent[..6], [0, 200, 600, 4_700, 4_900, 5_300]);
    assert_eq!(silent[..2], [1_400, 6_100]);
    assert_eq!(sent[6], 8_100);
    assert_eq!(requester.stats().silences, 3);
}

/// A token must be used immediately. A train's packets count once each, and only if the train
/// was acknowledged.
#[test]
fn tokens_trains_and_packets() {
    let mut requester = requester();
    requester.saw(at(0), upstream(1));
    assert_eq!(steps(&mut requester, at(0)).len(), 1);
    assert_eq!(acknowledge(&mut requester, at(30), 0), None);
    assert_eq!(requester.deadline(), Some(at(30)));
    assert_eq!(steps(&mut requester, at(30)).len(), 1);
    let coming = acknowledge(&mut requester, at(60), 16);
    let expected = Received::Coming {
        from: upstream(1),
        number: 2,
        train: FIRST,
        rtt: Duration::from_millis(30),
    };
    assert_eq!(coming, Some(expected));
    // A duplicate must not count.
    assert_eq!(acknowledge(&mut requester, at(61), 16), None);
    let probe = |number, index, run| Message {
        run,
        number,
        body: Body::Probe(Probe {
            sent: 5,
            index,
            packets: 16,
        }),
    };
    let mut came = |message| requester.on_answer(at(70), upstream(1), &message, 972);
    assert!(came(probe(2, 3, 77)).is_some());
    assert!(came(probe(2, 3, 77)).is_none());
    assert!(came(probe(1, 3, 77)).is_none());
    assert!(came(probe(0, 3, 77)).is_none());
    assert!(came(probe(2, 4, 78)).is_none());
    assert!(came(probe(2, 127, 77)).is_some());
    let came = requester.on_answer(at(70), upstream(2), &probe(2, 5, 77), 972);
    assert_eq!(came, None);
    // No further request until the estimator makes one.
    assert_eq!(requester.deadline(), None);
    let ask = Ask {
        train: FIRST,
        at: at(500),
    };
    requester.want(upstream(1), ask);
    assert_eq!(requester.deadline(), Some(at(500)));
}

/// A refusal must be followed by a pause of a second.
#[test]
fn refusals_are_waited_out() {
    let mut requester = requester();
    requester.saw(at(0), upstream(1));
    let mut sent = 0;
    for millis in 0..10_000 {
        requester.saw(at(millis), upstream(1));
        for _ in steps(&mut requester, at(millis)) {
            sent += 1;
            assert_eq!(acknowledge(&mut requester, at(millis), 0), None);
        }
    }
    assert!((10..=22).contains(&sent), "{sent}");
}

/// Headers that always name new routers: memory must be bounded, few requests may be sent, and a
/// router that answers must stay.
#[test]
fn made_up_routers() {
    let mut requester = requester();
    requester.saw(at(0), upstream(1));
    let mut sent = 0u64;
    let mut answered = false;
    for millis in 0..20_000u64 {
        requester.saw(at(millis), upstream(1));
        for n in 0..10 {
            requester.saw(
                at(millis),
                upstream(100 + u32::try_from(millis).unwrap() * 10 + n),
            );
        }
        for step in steps(&mut requester, at(millis)) {
            if let Step::Send(transmit) = step {
                sent += 1;
                if transmit.to == upstream(1) && !answered {
                    answered = acknowledge(&mut requester, at(millis), 16).is_some();
                }
            }
        }
        assert!(requester.upstreams.len() <= MOST_UPSTREAMS);
    }
    assert!(answered);
    let is_bounded = sent <= STRANGERS_AT_ONCE + 20 * STRANGERS_PER_SECOND + 1;
    assert!(is_bounded, "{sent}");
    assert!(requester.find(upstream(1)).unwrap().proven);
    assert!(requester.stats().no_room > 10_000);
}

/// A host keeps using new addresses of its IPv6 prefix. A router of another prefix must still
/// find a place, be asked within a second, and answer.
#[test]
fn one_prefix_does_not_fill_the_table() {
    let own: IpAddr = "2001:db8::9".parse().unwrap();
    let mut requester = Requester::new(at(0), own, key(), 77, FIRST);
    let router = |prefix: u128, host: u64| {
        let bits = (0x2001_0DB8_u128 << 96) | (prefix << 64) | u128::from(host);
        SocketAddr::new(IpAddr::V6(Ipv6Addr::from_bits(bits)), 7000)
    };
    let honest = router(2, 1);
    let mut asked = None;
    for millis in 0..10_000u64 {
        for n in 0..10 {
            requester.saw(at(millis), router(1, 1000 + millis * 10 + n));
        }
        if millis >= 5_000 {
            assert!(requester.saw(at(millis), honest));
        }
        for step in steps(&mut requester, at(millis)) {
            if let Step::Send(transmit) = step
                && transmit.to == honest
            {
                asked.get_or_insert(millis);
            }
        }
        assert!(requester.upstreams.len() <= MOST_OF_PREFIX + 1);
    }
    assert!((5_000..6_000).contains(&asked.unwrap()), "{asked:?}");
    assert!(requester.stats().no_room > 10_000);
}

/// An address that no other host can have must not get a request.
#[test]
fn addresses_of_no_host() {
    let own = crate::auth::Own {
        v4: Ipv4Addr::new(192, 0, 2, 9),
        v6: "2001:db8::9".parse().unwrap(),
    };
    let mut requester = Requester::new(at(0), own, key(), 77, FIRST);
    let none = "0.0.0.0 127.0.0.1 169.254.1.1 224.0.0.1 255.255.255.255 192.0.2.9 :: ::1 fe80::1 \
                ff02::1 ::ffff:192.0.2.1 2001:db8::9";
    let others = "192.0.2.1 2001:db8::1";
    for (texts, taken) in [(none, false), (others, true)] {
        for text in texts.split(' ') {
            let address = SocketAddr::new(text.parse().unwrap(), 7000);
            assert_eq!(requester.saw(at(0), address), taken, "{text}");
        }
    }
}

/// A router from which no more packets arrive must be forgotten.
#[test]
fn inactive_routers_are_forgotten() {
    let mut requester = requester();
    requester.saw(at(0), upstream(1));
    let _ = steps(&mut requester, at(0));
    let _ = acknowledge(&mut requester, at(1), 16);
    let _ = steps(&mut requester, at(9_999));
    assert_eq!(requester.stats().upstreams, 1);
    let _ = steps(&mut requester, at(10_001));
    assert_eq!(requester.stats().upstreams, 0);
}
