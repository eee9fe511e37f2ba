//! Whether a peer is followed to another address.

use super::*;

/// Sends a packet that is answered, and waits for the answer.
fn exchange(pair: &mut Pair) {
    pair.ping_and_run(Duration::from_millis(500));
}

/// RFC 9000 §9: a server has one address, so packets from another aren't its.
#[test]
fn a_client_keeps_to_its_servers_address() {
    // [9000 9 unknown-server-address]
    let mut pair = Pair::at_rest(Setup::default());
    let server = pair.server.address;
    let other = "203.0.113.5:443".parse().unwrap();
    pair.tap = Some(Box::new(move |_, datagram| {
        if datagram.from == server {
            datagram.from = other;
        }
    }));
    let migrations = pair.client.get().stats().migrations;
    exchange(&mut pair);
    assert_eq!(pair.client.get().remote_address(), server);
    assert_eq!(pair.client.get().stats().migrations, migrations);
    pair.tap = None;
    pair.upload(20_000, Duration::from_secs(5));
}

/// RFC 9000 §9.1, §9.2: NEW_CONNECTION_ID doesn't cause migration. A client that has nothing else
/// to repeat while its NAT is rebound is nevertheless followed. Until then, the server sends its
/// answers to an address without a host.
#[test]
fn a_client_that_repeats_probing_frames_alone_is_followed() {
    let mut pair = Pair::connected(Setup::default());
    pair.run(Duration::from_secs(1));
    // The server retires an ID, so the client issues another.
    let now = pair.now;
    let retire = [Frame::RetireConnectionId(1)];
    let mut bytes = packet_from(&mut pair, From::Server, SpaceId::Data, &retire);
    let received = Received::plain(pair.server.address);
    pair.client.get().handle_datagram(now, received, &mut bytes);
    // Its packets are lost, as are those sent to its previous address.
    let home = pair.client.address;
    pair.drop_if(move |_, datagram| datagram.from == home || datagram.to == home);
    pair.flush();
    pair.rebind("10.0.0.1:2000");
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.server.get().remote_address(), pair.client.address);
    let pto_count = pair.client.get().spaces.recovery.pto_count();
    assert_eq!(pto_count, 0, "it was answered");
}

/// An address that was left, and doesn't appear to receive packets anymore, is known for a minute
/// from then on, however often the peer claims to be there.
#[test]
fn who_claims_an_address_again_and_again_must_show_that_it_is_there() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload(20_000, Duration::from_secs(5));
    let home = pair.client.address;
    let away = "10.0.0.9:2000".parse().unwrap();
    // From now on, packets to the former address are lost.
    pair.drop_if(move |_, datagram| datagram.to == home);
    pair.client.address = away;
    for _ in 0..4 {
        for _ in 0..20 {
            exchange(&mut pair);
        }
        let built = pair.server.log().built;
        pair.client.address = home;
        pair.ping_and_run(Duration::from_millis(100));
        assert_eq!(pair.server.get().remote_address(), home);
        let built = pair.server.log().built - built;
        pair.client.address = away;
        for _ in 0..80 {
            exchange(&mut pair);
        }
        if built == 1 {
            return;
        }
    }
    panic!("still known after three minutes");
}
