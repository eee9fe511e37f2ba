//! Requirements for all sessions, regardless of the implementation.

use super::null::NullCrypto;
use super::testing::{HandshakeResult, handshake};
use super::*;

const NAME: &str = "server.test";

/// A client that does not resume sessions.
#[cfg(feature = "rustls")]
fn client(protocols: &[&[u8]]) -> tls::TlsClientConfig {
    tls::testing::client(tls::testing::trust_ca(), protocols).without_resumption()
}

/// A server that issues no tickets.
#[cfg(feature = "rustls")]
fn server(protocols: &[&[u8]]) -> tls::TlsServerConfig {
    tls::testing::server("server", protocols).without_resumption()
}

/// Creates one end for these application protocols.
type Make<'a, T> = &'a dyn Fn(&[&[u8]]) -> Arc<T>;

fn both(run: impl Fn(Make<'_, dyn ClientCrypto>, Make<'_, dyn ServerCrypto>)) {
    run(&|p| Arc::new(NullCrypto::new(p)), &|p| {
        Arc::new(NullCrypto::new(p))
    });
    #[cfg(feature = "rustls")]
    run(&|p| Arc::new(client(p)), &|p| Arc::new(server(p)));
}

/// Runs a handshake of each implementation.
fn shaken(run: impl Fn(HandshakeResult)) {
    both(|client, server| run(handshake(&*client(&[b"a"]), &*server(&[b"a"]), NAME, 999)));
}

fn completed(outcome: &HandshakeResult) {
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.flights, 3);
    let ends = [&outcome.client, &outcome.server];
    for (end, parameters) in ends.into_iter().zip([b"from server", b"from client"]) {
        assert!(!end.session.is_handshaking());
        let got = end.session.peer_transport_parameters();
        assert_eq!(got, Some(&parameters[..]));
        assert_eq!(end.written[2], 0);
    }
}

#[test]
fn handshake_takes_one_round_trip_and_the_clients_finished() {
    // [9001 8.2 send-parameters]
    both(|client, server| {
        for piece in [usize::MAX, 7] {
            let outcome = handshake(&*client(&[b"a"]), &*server(&[b"a"]), NAME, piece);
            completed(&outcome);
        }
    });
}

#[cfg(feature = "rustls")]
#[test]
fn tickets_come_behind_the_handshake_unless_they_are_not_wanted() {
    let client = tls::testing::client(tls::testing::trust_ca(), &[b"a"]);
    let giving = tls::testing::server("server", &[b"a"]);
    let outcome = handshake(&client, &giving, NAME, usize::MAX);
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.client.written[2], 0);
    assert!(outcome.server.written[2] > 0);
    completed(&handshake(&client, &server(&[b"a"]), NAME, usize::MAX));
}

#[cfg(feature = "rustls")]
#[test]
fn null_cipher_sends_as_much_as_tls() {
    let null = NullCrypto::new(&[b"protocol"]);
    let null = handshake(&null, &null, NAME, usize::MAX);
    let (client, server) = (client(&[b"protocol"]), server(&[b"protocol"]));
    let tls = handshake(&client, &server, NAME, usize::MAX);
    for (null, tls) in [(null.client, tls.client), (null.server, tls.server)] {
        for (null, tls) in null.written.into_iter().zip(tls.written) {
            assert!(null.abs_diff(tls) <= 16, "{null} against {tls}");
        }
    }
}

#[test]
fn application_protocol_is_the_servers_preferred_common_one() {
    // [9001 8.1 alpn]
    both(|client, server| {
        let (client, server) = (client(&[b"x", b"b", b"a"]), server(&[b"a", b"b"]));
        let outcome = handshake(&*client, &*server, NAME, 999);
        completed(&outcome);
        let (client, server) = (outcome.client.session, outcome.server.session);
        assert_eq!(client.handshake_data().protocol.as_deref(), Some(&b"a"[..]));
        assert_eq!(server.handshake_data().protocol.as_deref(), Some(&b"a"[..]));
        assert_eq!(server.handshake_data().server_name.as_deref(), Some(NAME));
    });
}

#[test]
fn no_common_application_protocol_is_alert_120() {
    // [9001 8.1 no-protocol]
    both(|client, server| {
        for ours in [&[&b"x"[..]][..], &[]] {
            let failure = handshake(&*client(ours), &*server(&[b"a"]), NAME, 999).failure;
            let failure = failure.unwrap();
            assert_eq!(failure, HandshakeError::NoApplicationProtocol);
            assert_eq!(failure.code(), 0x178);
        }
    });
}

#[test]
fn keys_of_each_level_open_what_the_other_end_sealed_and_nothing_else() {
    // [9000 7 handshake-properties]
    shaken(|HandshakeResult { client, server, .. }| {
        let (c1, s1) = (client.handshake.unwrap(), server.handshake.unwrap());
        let (c2, s2) = (client.one_rtt.unwrap().0, server.one_rtt.unwrap().0);
        let sealers = [&c1.local, &s1.local, &c2.local, &s2.local];
        let openers = [&s1.remote, &c1.remote, &s2.remote, &c2.remote];
        for (i, sealer) in sealers.into_iter().enumerate() {
            for (j, opener) in openers.into_iter().enumerate() {
                let mut packet = *b"headerplaintext................";
                sealer.packet.seal(7, &mut packet, 6).unwrap();
                let sample = [3; SAMPLE_LEN];
                let opened = opener.packet.open(7, &mut packet.clone(), 6);
                assert_eq!(opened.is_ok(), i == j, "{i} {j}");
                if i == j {
                    assert_eq!(sealer.header.mask(&sample), opener.header.mask(&sample));
                    assert!(opener.packet.open(8, &mut packet.clone(), 6).is_err());
                    assert_eq!(opener.packet.open(7, &mut packet, 6), Ok(9));
                    assert_eq!(&packet[..15], b"headerplaintext");
                }
            }
        }
    });
}

#[test]
fn every_flipped_bit_of_a_packet_is_noticed() {
    // [9000 7 handshake-properties]
    shaken(|HandshakeResult { client, server, .. }| {
        let sealer = client.one_rtt.unwrap().0.local.packet;
        let opener = server.one_rtt.unwrap().0.remote.packet;
        let mut packet = vec![0x5a; 100];
        sealer.seal(1, &mut packet, 10).unwrap();
        for bit in 0..packet.len() * 8 {
            let mut forged = packet.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opener.open(1, &mut forged, 10), Err(OpenError), "bit {bit}");
        }
        assert!(opener.open(1, &mut packet, 10).is_ok());
        for (len, header_len) in [(0, 0), (15, 0), (20, 5), (16, 17)] {
            assert!(sealer.seal(1, &mut vec![0; len], header_len).is_err());
            assert!(opener.open(1, &mut vec![0; len], header_len).is_err());
        }
    });
}

#[test]
fn exported_keying_material_agrees_and_depends_on_its_label() {
    shaken(|outcome| {
        let export = |session: &dyn Session, label: &[u8]| {
            let mut out = [0; 40];
            let exported = session.export_keying_material(&mut out, label, b"context");
            assert_eq!(exported, Ok(()));
            out
        };
        let (client, server) = (&*outcome.client.session, &*outcome.server.session);
        assert_eq!(export(client, b"one"), export(server, b"one"));
        assert_ne!(export(client, b"one"), export(client, b"two"));
    });
}

#[test]
fn initial_keys_and_retry_tags_depend_on_the_connection_id() {
    both(|client, server| {
        let (client, server) = (client(&[b"a"]), server(&[b"a"]));
        let mut packet = vec![1; 40];
        let keys = client.initial_keys(b"12345678", Side::Client);
        keys.local.packet.seal(0, &mut packet, 4).unwrap();
        let keys = server.initial_keys(b"12345678", Side::Server);
        assert!(keys.remote.packet.open(0, &mut packet.clone(), 4).is_ok());
        let keys = server.initial_keys(b"12345679", Side::Server);
        assert!(keys.remote.packet.open(0, &mut packet, 4).is_err());

        let tag = server.retry_tag(b"12345678", b"retry");
        assert_eq!(tag, client.retry_tag(b"12345678", b"retry"));
        assert_ne!(tag, client.retry_tag(b"12345679", b"retry"));
        assert_ne!(tag, client.retry_tag(b"12345678", b"Retry"));
    });
}

#[test]
fn garbage_fails_with_an_alert() {
    both(|client, server| {
        let mut server = server(&[b"a"]).start(Vec::new(), 1).unwrap();
        let error = server.read_handshake(&[99, 0, 0, 1, 0]).unwrap_err();
        assert!(error.code() > 0x100 && error.code() < 0x200);
        let mut client = client(&[b"a"]).start(NAME, Vec::new(), 1).unwrap();
        client.write_handshake(&mut Vec::new());
        assert!(client.read_handshake(&[2, 0, 0, 4, 0, 0, 0, 0]).is_err());
    });
}

#[test]
fn null_handshake_repeats_itself() {
    let crypto = NullCrypto::new(&[b"a"]);
    let hello = |seed| {
        let mut out = Vec::new();
        ClientCrypto::start(&crypto, NAME, vec![1, 2, 3], seed)
            .unwrap()
            .write_handshake(&mut out);
        out
    };
    assert_eq!(hello(5), hello(5));
    assert_ne!(hello(5), hello(6));
}
