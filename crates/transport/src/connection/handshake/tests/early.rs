//! Early data between sessions that resume.

use super::*;
use crate::wire::transport_parameters::SignalKinds;

/// Parameters with this limit on data.
fn limited(data: u64) -> TransportParameters {
    TransportParameters {
        initial_max_data: data,
        initial_max_streams_uni: 3,
        explicit_feedback: SignalKinds::new(&[2]).ok(),
        ..TransportParameters::DEFAULT
    }
}

fn resuming() -> NullCrypto {
    NullCrypto::new(&[b"test"]).with_early_parameters(&limited(1000))
}

/// A client that offers early data.
fn offering() -> Handshake {
    let mut client = client_of(resuming());
    let start = client.begin_early_data().unwrap();
    assert_eq!(start.limits.max_data, 1000);
    assert_eq!(start.limits.max_streams_uni, 3);
    assert_eq!(start.kinds, Some(vec![2]));
    assert_eq!(client.early_data(), EarlyData::Offered);
    assert_eq!(client.remembered(), Some(&start.limits));
    assert!(client.on_source(id(9)));
    client
}

/// Returns the error that an acknowledgement of packet `number` causes.
fn acknowledged(client: &Handshake, number: u8) -> Option<TransportErrorCode> {
    let frame = [2, number, 0, 0, 0];
    let Some(Ok(Frame::Ack(ack))) = Frames::new(&frame).next() else {
        panic!("no ACK frame");
    };
    client.check_ack(&ack).err().map(|error| error.code)
}

/// RFC 9000 §7.4.1: a server that accepts early data must not have lowered its limits.
#[test]
fn a_server_takes_early_data_within_its_limits() {
    use EarlyDecision::{Accepted, Lowered};
    for (data, decision) in [(1000, Accepted), (999, Lowered)] {
        let mut client = offering();
        let mut server = server_of(resuming(), 9, &limited(data));
        assert!(server.may_take_early_data());
        client.write(|_| {}).unwrap();
        deliver(&mut client, &mut server);
        assert!(server.take_early_keys().is_some());
        assert!(server.take_early_keys().is_none(), "once");
        assert!(!server.may_take_early_data());
        assert_eq!(server.early_data(), EarlyData::Accepted);
        deliver(&mut server, &mut client);
        assert_eq!(client.read_parameters(), Ok(true));
        assert_eq!(client.settle_early_data(5), decision);
        // It is known.
        assert_eq!(client.settle_early_data(5), EarlyDecision::None);
        assert_eq!(client.early_data(), EarlyData::Accepted);
        assert_eq!(client.remembered(), None);
        assert_eq!(acknowledged(&client, 4), None);
    }
}

/// RFC 9001 §4.6.2: refused packets aren't processed, so acknowledging them is a violation.
#[test]
fn refused_early_data_is_not_acknowledged() {
    let mut client = offering();
    assert_eq!(acknowledged(&client, 4), None);
    let crypto = NullCrypto::new(&[b"test"]);
    let mut server = server_of(crypto, 9, &limited(1000));
    exchange(&mut client, &mut server);
    assert!(server.take_early_keys().is_none());
    assert_eq!(server.early_data(), EarlyData::None);
    assert_eq!(client.read_parameters(), Ok(true));
    assert_eq!(client.settle_early_data(5), EarlyDecision::Refused);
    assert_eq!(client.early_data(), EarlyData::Refused);
    let violation = TransportErrorCode::PROTOCOL_VIOLATION;
    assert_eq!(acknowledged(&client, 4), Some(violation));
    assert_eq!(acknowledged(&client, 5), None);
}

#[test]
fn early_packets_wait_for_the_first_flight() {
    let mut zero_rtt = [&[0xd0, 0, 0, 0, 1, 8][..], &[1; 8], &[8], &[2; 8], &[40]].concat();
    zero_rtt.resize(zero_rtt.len() + 40, 0);
    let mut initial = zero_rtt.clone();
    initial[0] = 0xc0;
    let mut client = client();
    let mut server = server_of(resuming(), 9, &limited(1000));
    assert!(!client.keep(&received(), &zero_rtt), "it takes none");
    assert!(!server.keep(&received(), &initial));
    assert!(server.keep(&received(), &zero_rtt));
    assert!(server.take_kept().is_none(), "nothing opens it");
    client.write(|_| {}).unwrap();
    deliver(&mut client, &mut server);
    let _ = server.take_early_keys();
    let kept = server.take_kept().map(|kept| kept.1);
    assert_eq!(kept.as_ref(), Some(&zero_rtt));
    assert!(server.take_kept().is_none());
    assert!(!server.keep(&received(), &zero_rtt), "it is opened at once");
}
