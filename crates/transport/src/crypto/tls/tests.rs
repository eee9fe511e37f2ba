use super::testing::{SERVER_PEM, client, server, trust_ca};
use super::*;
use crate::crypto::testing::{HandshakeResult, handshake};
use crate::crypto::{CertificateProblem, ClientCrypto, HandshakeError, Session, StartError};

/// A handshake with the server `name`, which has this certificate.
fn shake(trust: Trust, certificate: &str, name: &str) -> HandshakeResult {
    let (client, server) = (client(trust, &[b"a"]), server(certificate, &[b"a"]));
    handshake(&client, &server, name, usize::MAX)
}

fn problem(trust: Trust, certificate: &str, name: &str) -> (CertificateProblem, u64) {
    let outcome = shake(trust, certificate, name);
    assert!(outcome.client.session.is_handshaking());
    match outcome.failure {
        Some(ref error @ HandshakeError::Certificate { ref problem, .. }) => {
            (problem.clone(), error.code())
        }
        other => panic!("{other:?}"),
    }
}

fn completes(trust: Trust, certificate: &str, name: &str) {
    let outcome = shake(trust, certificate, name);
    assert_eq!(outcome.failure, None);
    assert!(!outcome.client.session.is_handshaking());
}

#[test]
fn authority_vouches_for_names_and_addresses() {
    completes(trust_ca(), "server", "server.test");
    completes(trust_ca(), "server", "127.0.0.1");
}

#[test]
fn wrong_name_says_which_names_would_do() {
    // [9001 4.4 authenticate-server]
    let (problem, code) = problem(trust_ca(), "server", "other.test");
    let CertificateProblem::WrongName {
        expected,
        presented,
    } = problem
    else {
        panic!("{problem:?}");
    };
    assert_eq!(expected, "other.test");
    assert!(presented.contains("server.test"), "{presented}");
    assert_eq!(code, 0x100 + 42);
}

#[test]
fn expired_and_unknown_certificates_are_refused_with_their_alerts() {
    // [9001 4.4 authenticate-server]
    let expired = problem(trust_ca(), "expired", "server.test");
    assert_eq!(expired, (CertificateProblem::Expired, 0x100 + 45));
    // An unrelated authority: another server's certificate as a root.
    let trust = Trust::from_ca_pem(include_bytes!("testdata/expired.pem")).unwrap();
    let unknown = problem(trust, "server", "server.test");
    assert_eq!(unknown, (CertificateProblem::UnknownIssuer, 0x100 + 48));
}

#[test]
fn pin_accepts_its_certificate_whatever_name_and_dates() {
    let pin = server("expired", &[b"a"]).pin().unwrap();
    completes(Trust::Pin(pin), "expired", "anything.test");
}

#[test]
fn other_pin_says_both_digests() {
    let pin = server("expired", &[b"a"]).pin().unwrap();
    let got = server("server", &[b"a"]).pin().unwrap();
    let (problem, code) = problem(Trust::Pin(pin), "server", "server.test");
    let mismatch = CertificateProblem::PinMismatch {
        expected: pin.to_string(),
        got: got.to_string(),
    };
    assert_eq!(problem, mismatch);
    assert_eq!(code, 0x100 + 46);
}

#[test]
fn anyone_is_trusted_when_asked_for() {
    completes(Trust::Anyone, "expired", "anything.test");
}

#[test]
fn pin_is_the_fingerprint_that_openssl_prints() {
    // openssl x509 -in server.pem -noout -fingerprint -sha256
    let printed = "2D:D9:CA:8A:9B:0F:9F:98:AC:91:A1:50:F5:1B:BD:1A:\
        83:88:BB:4D:5F:29:F5:68:16:84:58:B1:45:32:E3:8A";
    let pin: Pin = printed.parse().unwrap();
    assert_eq!(Some(pin), server("server", &[b"a"]).pin());
    assert_eq!(pin.to_string().parse(), Ok(pin));
    for bad in ["", "ab", &printed[1..], &format!("{printed}0"), "xy"] {
        assert_eq!(bad.parse::<Pin>(), Err(BadPin));
    }
}

#[test]
fn client_sees_the_servers_chain() {
    let outcome = shake(Trust::Anyone, "server", "server.test");
    let chain = outcome.client.session.peer_certificates();
    assert_eq!(chain.len(), 1);
    assert_eq!(Some(Pin::of(&chain[0])), server("server", &[b"a"]).pin());
    assert!(outcome.server.session.peer_certificates().is_empty());
}

#[test]
fn unusable_material_is_a_typed_error() {
    let no_certificate = TlsServerConfig::from_pem(b"", b"", &[b"a"]);
    use TlsConfigError::{BadCertificate, BadKey};
    assert!(matches!(no_certificate, Err(BadKey(_) | BadCertificate(_))));
    let no_key = TlsServerConfig::from_pem(SERVER_PEM, b"", &[b"a"]);
    assert!(matches!(no_key, Err(TlsConfigError::BadKey(_))));
    let other_key =
        TlsServerConfig::from_pem(SERVER_PEM, include_bytes!("testdata/expired.key"), &[b"a"]);
    assert!(matches!(other_key, Err(TlsConfigError::Unusable(_))));
    let no_root = Trust::from_ca_pem(b"nothing");
    assert!(matches!(no_root, Err(TlsConfigError::BadCertificate(_))));
    let bad_name = client(Trust::Anyone, &[b"a"]).start("no such name", Vec::new(), 0);
    let refused = StartError::BadServerName("no such name".into());
    assert_eq!(bad_name.err(), Some(refused));
}

/// Messages that QUIC forbids after the handshake although TLS allows them: a KeyUpdate, a
/// certificate request, and a ticket that limits early data to a certain amount.
#[test]
fn messages_that_quic_forbids_end_the_connection() {
    // [9001 4.4 late-request] [9001 4.6.1 other-ticket-size] [9001 6 tls-key-update]
    let connected = || shake(trust_ca(), "server", "server.test");
    let ticket = |most: u32| {
        let mut message = vec![4, 0, 0, 23, 0, 0, 14, 16, 1, 2, 3, 4, 1, 0, 0, 1];
        message.extend([9, 0, 8, 0, 42, 0, 4]);
        message.extend(most.to_be_bytes());
        message
    };
    let request = [13, 0, 0, 11, 0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3];
    let key_update = [24, 0, 0, 1, 0];
    let code = |end: &mut dyn Session, message: &[u8]| {
        end.read_handshake(message).map_err(|error| error.code())
    };
    let mut outcome = connected();
    for (most, expected) in [(u32::MAX, Ok(())), (1000, Err(0x0a))] {
        assert_eq!(code(&mut *outcome.client.session, &ticket(most)), expected);
    }
    let mut outcome = connected();
    assert_eq!(code(&mut *outcome.client.session, &request), Err(0x0a));
    let mut outcome = connected();
    assert_eq!(code(&mut *outcome.client.session, &key_update), Err(0x10a));
    assert_eq!(code(&mut *outcome.server.session, &key_update), Err(0x10a));
}

/// A client's session, and its first message.
fn hello() -> (Box<dyn Session>, Vec<u8>) {
    let started = client(trust_ca(), &[b"a"]).start("server.test", Vec::new(), 1);
    let (mut session, mut hello) = (started.unwrap(), Vec::new());
    session.write_handshake(&mut hello);
    (session, hello)
}

/// A client's first message: only TLS 1.3, without compatibility mode.
#[test]
fn a_client_hello_offers_tls_13_alone_and_no_session_id() {
    // [9001 4.2 offer-tls13] [9001 4.2 older-tls] [9001 8.4 compatibility-mode]
    let (mut session, hello) = hello();
    // Type, length, version, random, length of the session id.
    assert_eq!((hello[0], hello[4 + 2 + 32]), (1, 0));
    let versions = [0, 43, 0, 3, 2, 3, 4];
    assert!(hello.windows(versions.len()).any(|part| part == versions));
    // A server that selects TLS 1.2: no supported_versions.
    let mut answer = vec![2, 0, 0, 38, 3, 3];
    answer.extend([7; 32]);
    answer.extend([0, 0xc0, 0x2f, 0]);
    assert!(session.read_handshake(&answer).unwrap_err().code() > 0x100);
}

/// The first suite offered is unknown to the server.
#[test]
fn unknown_cipher_suites_are_passed_over() {
    // [9001 5.3 unknown-suites]
    let (_, mut hello) = hello();
    // The length of the suites and the suites follow the empty session id.
    let at = 4 + 2 + 32 + 1;
    hello.splice(at + 2..at + 2, [0x5a, 0x5a]);
    hello[at + 1] += 2;
    let length = u32::try_from(hello.len() - 4).unwrap().to_be_bytes();
    hello[1..4].copy_from_slice(&length[1..]);
    let config = server("server", &[b"a"]);
    let mut server = crate::crypto::ServerCrypto::start(&config, Vec::new(), 2).unwrap();
    assert_eq!(server.read_handshake(&hello), Ok(()));
}

#[test]
fn each_cipher_suite_protects_headers() {
    // [9001 5.3 suites-with-header-protection]
    let provider = crate::crypto::provider::tls_provider();
    assert_eq!(provider.cipher_suites.len(), 3);
    let protects =
        |suite: &rustls::SupportedCipherSuite| suite.tls13().is_some_and(|s| s.quic.is_some());
    assert!(provider.cipher_suites.iter().all(protects));
}
