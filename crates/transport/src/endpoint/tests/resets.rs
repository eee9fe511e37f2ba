//! Stateless resets, and the bound on answers to strangers.

use super::*;
use crate::crypto::ResetToken;

#[test]
fn unknown_short_packet_is_reset_by_something_shorter() {
    let mut endpoint = server();
    for len in 22..200 {
        let mut packet = vec![0x41; len];
        packet[1..9].copy_from_slice(&[9; 8]);
        let reset = answer(&mut endpoint, 1, &packet);
        assert!(reset.len() < len && reset.len() >= 21);
        assert_eq!(reset[0] & 0xc0, 0x40);
        assert_eq!(
            ResetToken::at_end_of(&reset),
            Some(ResetToken::derive(&*endpoint.config.key, &[9; 8]))
        );
    }
    nothing(&mut endpoint, 1, &[0x41; 21]);
}

#[test]
fn two_endpoints_do_not_reset_each_other_for_ever() {
    let (mut a, mut b) = (server(), Endpoint::new(config(true), Random::from_u64(2)));
    let mut packet = vec![0x41; 1500];
    let mut rounds = 0;
    while let (DatagramEvent::Respond, reset) = handle(&mut a, 1, &packet) {
        packet = reset;
        core::mem::swap(&mut a, &mut b);
        rounds += 1;
    }
    assert!(rounds < 60, "{rounds}");
}

#[test]
fn answers_to_strangers_are_limited() {
    let mut endpoint = server();
    let answered = (0..5000)
        .filter(|_| {
            matches!(
                handle(&mut endpoint, 1, &[0x41; 100]).0,
                DatagramEvent::Respond
            )
        })
        .count();
    assert_eq!(answered, 1000);
    assert_eq!(endpoint.stats().answers_withheld, 4000);
}

#[test]
fn reset_for_a_connection_reaches_it_from_its_peers_address_only() {
    let mut endpoint = server();
    let client = incoming(&mut endpoint, 1, &hello(1, &[]));
    let (handle_of_client, _connection) = endpoint.accept(NOW, client).unwrap();
    let token = ResetToken::new([0xab; 16]);
    let key = std::sync::Arc::clone(&endpoint.config.key);
    let known = Some((from(1).remote, token));
    endpoint.demux.set_token(&*key, handle_of_client, known);
    let mut reset = vec![0x52; 30];
    reset.extend([0xab; 16]);
    match handle(&mut endpoint, 1, &reset).0 {
        DatagramEvent::Connection(handle) => assert_eq!(handle, handle_of_client),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        handle(&mut endpoint, 2, &reset).0,
        DatagramEvent::Respond
    ));
    endpoint.remove(handle_of_client);
    assert!(matches!(
        handle(&mut endpoint, 1, &reset).0,
        DatagramEvent::Respond
    ));
    assert_eq!(endpoint.demux.len(), 0);
}
