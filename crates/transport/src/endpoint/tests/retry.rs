//! Retry, and both kinds of tokens.

use super::*;

#[test]
fn retry_proves_the_address_and_keeps_nothing_meanwhile() {
    // [9000 8.1.3 token-read] [9000 17.2.5.1 one-retry] [9000 17.2.5.1 other-id]
    let mut endpoint = server();
    endpoint.set_retry(RetryPolicy::Always);
    let retry = answer(&mut endpoint, 1, &hello(1, &[]));
    assert_eq!((endpoint.connections(), endpoint.demux.len()), (0, 0));
    let (token, dcid) = follow(&retry, &id(1));

    let again = initial(&*crypto(), &dcid, &id(2), &token, 1200);
    let validated = incoming(&mut endpoint, 1, &again);
    assert!(validated.is_validated() && !validated.may_retry());
    assert_eq!(validated.origin.original_dcid, id(1));
    assert_eq!(validated.origin.retry_scid, Some(dcid));

    // From another port, to another id, or too late: refused with INVALID_TOKEN.
    let invalid = TransportErrorCode::INVALID_TOKEN;
    let elsewhere = answer(&mut endpoint, 2, &again);
    assert_eq!(close_code(&elsewhere, &dcid), invalid);
    let other_id = initial(&*crypto(), &id(5), &id(2), &token, 1200);
    let refused = answer(&mut endpoint, 1, &other_id);
    assert_eq!(close_code(&refused, &id(5)), invalid);

    // A bit error in transit proves nothing about the client.
    let refused = endpoint.stats().tokens_refused;
    let mut damaged = again.clone();
    let mut parts = damaged.windows(token.len());
    let at = parts.position(|part| part == token).unwrap();
    damaged[at + token.len() / 2] ^= 4;
    nothing(&mut endpoint, 2, &damaged);
    assert_eq!(endpoint.stats().dropped_forged_initials, 1);
    assert_eq!(endpoint.stats().tokens_refused, refused);

    endpoint.ignore(validated);
    let late = NOW + Duration::from_secs(16);
    let mut out = Vec::new();
    let event = endpoint.handle(late, &from(1), &again, &mut out);
    assert!(matches!(event, DatagramEvent::Respond));
    assert_eq!(close_code(&out, &dcid), invalid);
}

/// A token for a later connection of the client at port 1.
fn token_of(key: &dyn crate::crypto::EndpointKey, expiry: Duration) -> Vec<u8> {
    let (random, ip) = (&mut Random::from_u64(1), from(1).remote.ip());
    crate::crypto::token::new_token(key, random, ip, expiry)
}

#[test]
fn token_of_another_endpoint_is_as_good_as_none() {
    let mut endpoint = server();
    let token = token_of(&NullEndpointKey::new(5), EPOCH * 2);
    assert!(!incoming(&mut endpoint, 1, &hello(1, &token)).is_validated());
    assert_eq!(endpoint.stats().tokens_refused, 1);
}

#[test]
fn token_for_a_later_connection_counts_once() {
    // [9000 8.1.4 replayed-token] [9000 8.1.3 token-read]
    let mut endpoint = server();
    let token = token_of(&*endpoint.config.key, EPOCH + Duration::from_secs(100));
    // Neither a damaged packet nor one that finds no place spends it.
    let mut damaged = hello(1, &token);
    damaged[1100] ^= 1;
    nothing(&mut endpoint, 5, &damaged);
    endpoint.config.max_half_open = 0;
    nothing(&mut endpoint, 5, &hello(1, &token));
    endpoint.config.max_half_open = 8;
    assert!(incoming(&mut endpoint, 5, &hello(1, &token)).is_validated());
    assert!(!incoming(&mut endpoint, 6, &hello(2, &token)).is_validated());
}
