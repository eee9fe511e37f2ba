use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::crypto::null::NullEndpointKey;

const NOW: Duration = Duration::from_secs(1_700_000_000);
const LATER: Duration = Duration::from_secs(1_700_000_010);

/// All keys that a build offers.
fn keys() -> Vec<(Box<dyn EndpointKey>, Box<dyn EndpointKey>)> {
    #[allow(unused_mut, reason = "grows with the feature below")]
    let mut keys: Vec<(Box<dyn EndpointKey>, Box<dyn EndpointKey>)> = vec![(
        Box::new(NullEndpointKey::new(1)),
        Box::new(NullEndpointKey::new(2)),
    )];
    #[cfg(feature = "rustls")]
    {
        use crate::crypto::tls::EndpointSecret;
        keys.push((
            Box::new(EndpointSecret::new(&[1; 32]).unwrap()),
            Box::new(EndpointSecret::new(&[2; 32]).unwrap()),
        ));
    }
    keys
}

fn id(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

fn v4(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), port))
}

fn v6(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv6Addr::LOCALHOST, port))
}

#[test]
fn retry_token_comes_back_from_its_client_only() {
    let (original, retry_id) = (id(&[1; 20]), id(&[2; 20]));
    for (key, other_key) in keys() {
        for client in [v4(4433), v6(4433)] {
            let mut random = Random::from_u64(7);
            let token = retry(&*key, &mut random, client, &original, &retry_id, LATER);
            assert!(token.len() <= MAX_LEN);
            let open = |key: &dyn EndpointKey, client, dcid, now| {
                super::open(key, &token, client, dcid, now)
            };
            let token = Token::Retry {
                original_dcid: original,
                retry_scid: retry_id,
            };
            assert_eq!(open(&*key, client, &retry_id, NOW), Ok(token));
            let refused = Err(TokenError::InvalidRetry);
            assert_eq!(open(&*other_key, client, &retry_id, NOW), refused);
            assert_eq!(open(&*key, v4(4434), &retry_id, NOW), refused);
            assert_eq!(open(&*key, v6(4434), &retry_id, NOW), refused);
            assert_eq!(open(&*key, client, &original, NOW), refused);
            let expired = LATER + Duration::from_millis(1);
            assert_eq!(open(&*key, client, &retry_id, expired), refused);
            assert!(open(&*key, client, &retry_id, LATER).is_ok());
        }
    }
}

#[test]
fn new_token_survives_a_change_of_port_but_not_of_address() {
    // [9000 8.1.4 token-address]
    for (key, _) in keys() {
        let token = new_token(&*key, &mut Random::from_u64(7), v4(1).ip(), LATER);
        let open = |client| super::open(&*key, &token, client, &id(&[]), NOW);
        assert!(matches!(open(v4(2)), Ok(Token::New { .. })));
        let mapped = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped(), 3));
        assert_eq!(open(mapped), open(v4(2)));
        let other = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 2), 2));
        assert_eq!(open(other), Err(TokenError::Worthless));
    }
}

/// Two tokens for one address with the same expiry have nothing in common except their kind.
#[test]
fn each_token_is_another() {
    // [9000 8.1.3 unlinkable-token] [9000 8.1.3 unique-token]
    for (index, (key, _)) in keys().into_iter().enumerate() {
        let mut random = Random::from_u64(7);
        let mut make = || new_token(&*key, &mut random, v4(1).ip(), LATER);
        let (first, second) = (make(), make());
        assert_ne!(first, second);
        let mut parts = first[1..].windows(4);
        let shares = parts.any(|part| second[1..].windows(4).any(|other| other == part));
        // The null cipher hides nothing.
        assert_eq!(shares, index == 0);
    }
}

#[test]
fn kinds_cannot_be_exchanged() {
    // [9000 8.1.1 token-kind]
    for (key, _) in keys() {
        let mut token = new_token(&*key, &mut Random::from_u64(7), v4(1).ip(), LATER);
        token[0] = RETRY;
        let opened = open(&*key, &token, v4(1), &id(&[]), NOW);
        assert_eq!(opened, Err(TokenError::InvalidRetry));
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    // [9000 8.1.4 guessed]
    for (key, _) in keys() {
        let (mut random, dcid) = (Random::from_u64(1), id(&[9; 8]));
        let token = retry(&*key, &mut random, v4(1), &id(&[8; 8]), &dcid, LATER);
        for bit in 0..token.len() * 8 {
            let mut forged = token.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let opened = open(&*key, &forged, v4(1), &dcid, NOW);
            assert!(opened.is_err(), "bit {bit}");
        }
    }
}

proptest! {
    #[test]
    fn garbage_is_refused(token in proptest::collection::vec(any::<u8>(), 0..200)) {
        for (key, _) in keys() {
            prop_assert!(open(&*key, &token, v4(1), &id(&[]), NOW).is_err());
        }
    }
}

#[test]
fn token_counts_once_for_its_whole_life() {
    let lifetime = Duration::from_secs(100);
    let mut filter = ReplayFilter::new(lifetime, 1000);
    let mut now = NOW;
    for token in 0..50 {
        assert!(filter.is_fresh(token, now));
        assert!(filter.first_use(token, now));
        for seconds in [0, 1, 50, 99, 100] {
            let mut late = ReplayFilter {
                current: filter.current.clone(),
                previous: filter.previous.clone(),
                ..filter
            };
            let later = now + Duration::from_secs(seconds);
            assert!(!late.is_fresh(token, later) && !late.first_use(token, later));
        }
        now += Duration::from_secs(7);
    }
}

#[test]
fn filter_is_bounded_and_recovers() {
    let lifetime = Duration::from_secs(10);
    let mut filter = ReplayFilter::new(lifetime, 100);
    let accepts = |n: &u64| filter.is_fresh(*n, NOW) && filter.first_use(*n, NOW);
    let accepted = (0..1000).filter(accepts).count();
    assert_eq!(accepted, 100);
    assert!(filter.current.len() + filter.previous.len() <= 200);
    assert!(!filter.is_fresh(5000, NOW) && filter.is_fresh(5000, NOW + lifetime));
    assert!(filter.first_use(5000, NOW + lifetime));
}

#[test]
fn token_depends_on_key_and_id() {
    // [9000 10.3.2 guessed-token] [9000 10.3.2 token-per-id]
    let derive = |n, id: &[u8]| ResetToken::derive(&NullEndpointKey::new(n), id);
    let token = derive(1, b"12345678");
    assert_eq!(token, derive(1, b"12345678"));
    assert_ne!(token, derive(1, b"12345679"));
    assert_ne!(token, derive(1, b"1234567"));
    assert_ne!(token, derive(2, b"12345678"));
}

#[test]
fn every_bit_counts_in_comparison() {
    let token = ResetToken::new([0x5a; 16]);
    for bit in 0..128 {
        let mut bytes = [0x5a; 16];
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(token, ResetToken::new(bytes));
    }
}

#[test]
fn token_is_read_from_the_end_of_long_enough_datagrams() {
    let mut datagram = vec![0x40; 5];
    datagram.extend([7; 16]);
    let token = Some(ResetToken::new([7; 16]));
    assert_eq!(ResetToken::at_end_of(&datagram), token);
    assert_eq!(ResetToken::at_end_of(&datagram[1..]), None);
}
