use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::wire::{Side, TransportError, TransportErrorCode, varint};

fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

#[test]
fn absent_parameters_have_the_defaults_of_section_18_2() {
    let p = TransportParameters::decode(&[], Side::Client).unwrap();
    assert_eq!((p.max_udp_payload_size, p.ack_delay_exponent), (65_527, 3));
    assert_eq!(p.max_ack_delay, Duration::from_millis(25));
    assert_eq!(p.active_connection_id_limit, 2);
    assert_eq!(p.max_idle_timeout, Duration::ZERO);
    assert_eq!(p.explicit_feedback, None);
    assert!(p.to_vec(None).unwrap().is_empty());
}

#[test]
fn known_bytes() {
    let p = TransportParameters {
        max_idle_timeout: Duration::from_secs(30),
        initial_max_data: 1 << 20,
        initial_max_streams_bidi: 100,
        min_ack_delay: Some(Duration::from_millis(1)),
        initial_source_connection_id: Some(cid(&[0xa1, 0xa2])),
        explicit_feedback: Some(SignalKinds::new(&[0, 2]).unwrap()),
        ..TransportParameters::DEFAULT
    };
    let grease = Grease {
        entropy: 1,
        value: [0x77; 8],
        len: 3,
    };
    let bytes = [
        &[0x01, 4, 0x80, 0x00, 0x75, 0x30][..],
        &[0x04, 4, 0x80, 0x10, 0x00, 0x00],
        &[0x08, 2, 0x40, 100],
        &[0xc0, 0, 0, 0, 0xff, 0x04, 0xde, 0x1b, 2, 0x43, 0xe8],
        &[0x0f, 2, 0xa1, 0xa2],
        &[0xc0, 0, 0, 0, 0x70, 0x61, 0x74, 0x6d, 2, 0, 2],
        &[58, 3, 0x77, 0x77, 0x77],
    ]
    .concat();
    assert_eq!(p.to_vec(Some(&grease)).unwrap(), bytes);
    assert_eq!(TransportParameters::decode(&bytes, Side::Client), Ok(p));
}

#[test]
fn known_ids_are_not_reserved_ones_and_grease_ids_are() {
    for id in (0..=0x10).chain([
        id::MAX_DATAGRAM_FRAME_SIZE,
        id::GREASE_QUIC_BIT,
        id::EXPLICIT_FEEDBACK,
        id::MIN_ACK_DELAY,
    ]) {
        assert!(!id::is_reserved(id), "{id:#x}");
    }
    for entropy in [0, 1, 12_345, varint::MAX, u64::MAX] {
        let grease = Grease {
            entropy,
            ..Grease::default()
        };
        let id = grease.id();
        assert!(id::is_reserved(id) && id <= varint::MAX);
    }
}

#[test]
fn values_outside_section_18_2_are_refused() {
    // [9000 4.6 limit-too-large] [9000 7.4 invalid-value] [9000 18.2 preferred-with-id]
    // [9000 18.2 two-ids]
    let refused = |bytes: &[u8], sender| TransportParameters::decode(bytes, sender).unwrap_err();
    let range = |bytes: &[u8]| {
        let expected = ParameterError::Range(u64::from(bytes[0]));
        assert_eq!(refused(bytes, Side::Server), expected, "{bytes:x?}");
    };
    range(&[0x03, 2, 0x44, 0xaf]); // max_udp_payload_size 1199
    range(&[0x08, 8, 0xd0, 0, 0, 0, 0, 0, 0, 1]); // 2^60 + 1 streams
    range(&[0x09, 8, 0xd0, 0, 0, 0, 0, 0, 0, 1]);
    range(&[0x0a, 1, 21]); // ack_delay_exponent
    range(&[0x0a, 2, 0x41, 0x03]); // 259, whose low byte is 3
    range(&[0x0b, 4, 0x80, 0x00, 0x40, 0x00]); // max_ack_delay 2^14
    range(&[0x0e, 1, 1]); // active_connection_id_limit
    // preferred_address with an empty connection id, and one of 21 bytes
    range(&[&[0x0d, 41], &[0; 41][..]].concat());
    range(&[&[0x0d, 62], &[0; 24][..], &[21], &[7; 37]].concat());
    // min_ack_delay of 25 001 µs against the default max_ack_delay
    let min_ack_delay = [
        0xc0, 0, 0, 0, 0xff, 0x04, 0xde, 0x1b, 4, 0x80, 0, 0x61, 0xa9,
    ];
    let out_of_range = ParameterError::Range(id::MIN_ACK_DELAY);
    assert_eq!(refused(&min_ack_delay, Side::Client), out_of_range);
    // and the same with a max_ack_delay that allows it, whatever the order
    let allowed = [&min_ack_delay[..], &[0x0b, 1, 26]].concat();
    assert!(TransportParameters::decode(&allowed, Side::Client).is_ok());
    // bounds themselves
    for bytes in [
        &[0x03, 2, 0x44, 0xb0][..],
        &[0x08, 8, 0xd0, 0, 0, 0, 0, 0, 0, 0],
        &[0x0a, 1, 20],
        &[0x0b, 2, 0x7f, 0xff],
        &[0x0e, 1, 2],
    ] {
        assert!(TransportParameters::decode(bytes, Side::Client).is_ok());
    }
}

#[test]
fn malformed_values_are_refused() {
    // [9000 7.4 invalid-value]
    let refused = |bytes: &[u8]| TransportParameters::decode(bytes, Side::Server).unwrap_err();
    assert_eq!(refused(&[0x01]), ParameterError::Truncated);
    assert_eq!(refused(&[0x01, 2, 0x40]), ParameterError::Truncated);
    assert_eq!(refused(&[0x01, 1, 0x40]), ParameterError::Truncated);
    assert_eq!(refused(&[0x01, 0]), ParameterError::Truncated);
    assert_eq!(refused(&[0x01, 2, 5, 5]), ParameterError::Trailing(1));
    assert_eq!(refused(&[0x0c, 1, 0]), ParameterError::Trailing(0x0c));
    assert_eq!(refused(&[0x02, 15, 0]), ParameterError::Truncated);
    let token = [&[0x02, 17][..], &[0; 17]].concat();
    assert_eq!(refused(&token), ParameterError::Trailing(2));
    let id = [&[0x0f, 21][..], &[0; 21]].concat();
    assert!(matches!(refused(&id), ParameterError::ConnectionId(_)));
    let feedback = [0xc0, 0, 0, 0, 0x70, 0x61, 0x74, 0x6d];
    let twice = [&feedback[..], &[2, 1, 1]].concat();
    assert_eq!(refused(&twice), ParameterError::Kinds(BadKinds::Twice(1)));
    let many: Vec<u8> = (0..17).collect();
    let many = [&feedback[..], &[17], &many].concat();
    assert_eq!(refused(&many), ParameterError::Kinds(BadKinds::TooMany));
    let error = TransportError::from(refused(&[0x01]));
    assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
}

#[test]
fn duplicates_are_refused_known_or_not() {
    // [9000 7.4 once] [9000 7.4.2 unknown-parameters]
    for parameter in [
        &[0x01, 1, 5][..],
        &[58, 0],
        &[0x6a, 0xb2, 0],
        &[0xc0, 0, 0, 0, 0x70, 0x61, 0x74, 0x6d, 0],
    ] {
        let twice = [parameter, parameter].concat();
        let refused = TransportParameters::decode(&twice, Side::Client);
        assert!(matches!(refused, Err(ParameterError::Twice(_))));
    }
    // A known parameter can't be duplicated, regardless of the number of unknown parameters
    // before it.
    let mut bytes = Vec::new();
    for i in 0..1000u16 {
        bytes.extend([0x80, 0x01]);
        bytes.extend(i.to_be_bytes());
        bytes.push(0);
    }
    assert!(TransportParameters::decode(&bytes, Side::Client).is_ok());
    bytes.extend([0x6a, 0xb2, 0, 0x6a, 0xb2, 0]);
    let refused = TransportParameters::decode(&bytes, Side::Client);
    assert_eq!(refused, Err(ParameterError::Twice(id::GREASE_QUIC_BIT)));
}

#[test]
fn clients_do_not_send_what_is_the_servers() {
    // [9000 18.2 server-only]
    for bytes in [
        &[0x00, 1, 7][..],
        &[&[0x02, 16][..], &[0; 16]].concat(),
        &[&[0x0d, 45][..], &[0; 24], &[4], &[7; 20]].concat(),
        &[0x10, 1, 7],
    ] {
        let refused = TransportParameters::decode(bytes, Side::Client);
        let of_servers = ParameterError::FromClient(u64::from(bytes[0]));
        assert_eq!(refused, Err(of_servers));
        assert!(TransportParameters::decode(bytes, Side::Server).is_ok());
    }
}

#[test]
fn connection_ids_are_authenticated_as_section_7_3_says() {
    // [9000 7.3 ids-match] [9000 7.3 ids-present] [9000 18.2 preferred-with-id]
    let seen = HandshakeIds {
        initial_source: cid(&[1]),
        original_destination: cid(&[2; 8]),
        retry_source: None,
    };
    let client = TransportParameters {
        initial_source_connection_id: Some(cid(&[1])),
        ..TransportParameters::DEFAULT
    };
    assert_eq!(client.authenticate(Side::Client, &seen), Ok(()));
    let mut server = client.clone();
    server.original_destination_connection_id = Some(cid(&[2; 8]));
    assert_eq!(server.authenticate(Side::Server, &seen), Ok(()));
    // Missing, different, and present without a Retry.
    assert!(client.authenticate(Side::Server, &seen).is_err());
    let without_id = TransportParameters::DEFAULT;
    assert!(without_id.authenticate(Side::Client, &seen).is_err());
    let mut other = seen;
    other.initial_source = cid(&[1, 0]);
    assert!(server.authenticate(Side::Server, &other).is_err());
    let mut retry = server.clone();
    retry.retry_source_connection_id = Some(cid(&[3]));
    assert!(retry.authenticate(Side::Server, &seen).is_err());
    let mut with_retry = seen;
    with_retry.retry_source = Some(cid(&[3]));
    assert_eq!(retry.authenticate(Side::Server, &with_retry), Ok(()));
    // A preferred address needs a server with connection ids (section 18.2).
    let mut without = seen;
    without.initial_source = ConnectionId::EMPTY;
    let preferred = [&[0x0d, 45][..], &[0; 24], &[4], &[7; 20]].concat();
    let mut preferred = TransportParameters::decode(&preferred, Side::Server).unwrap();
    preferred.original_destination_connection_id = Some(cid(&[2; 8]));
    preferred.initial_source_connection_id = Some(ConnectionId::EMPTY);
    let error = preferred.authenticate(Side::Server, &without).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
    preferred.preferred_address = None;
    assert_eq!(preferred.authenticate(Side::Server, &without), Ok(()));
    assert!(server.authenticate(Side::Server, &with_retry).is_err());
}

#[test]
fn the_largest_parameters_fit_the_buffer() {
    let p = TransportParameters {
        original_destination_connection_id: Some(cid(&[1; 20])),
        max_idle_timeout: Duration::from_millis(varint::MAX),
        stateless_reset_token: Some([2; 16]),
        max_udp_payload_size: varint::MAX,
        initial_max_data: varint::MAX,
        initial_max_stream_data_bidi_local: varint::MAX,
        initial_max_stream_data_bidi_remote: varint::MAX,
        initial_max_stream_data_uni: varint::MAX,
        initial_max_streams_bidi: 1 << 60,
        initial_max_streams_uni: 1 << 60,
        ack_delay_exponent: 20,
        max_ack_delay: Duration::from_millis((1 << 14) - 1),
        disable_active_migration: true,
        preferred_address: Some(PreferredAddress {
            v4: Some(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4433)),
            v6: Some(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 4433, 0, 0)),
            connection_id: cid(&[4; 20]),
            reset_token: [5; 16],
        }),
        active_connection_id_limit: varint::MAX,
        initial_source_connection_id: Some(cid(&[6; 20])),
        retry_source_connection_id: Some(cid(&[7; 20])),
        max_datagram_frame_size: varint::MAX,
        min_ack_delay: Some(Duration::from_millis((1 << 14) - 1)),
        grease_quic_bit: true,
        explicit_feedback: Some(SignalKinds::new(&(0..16).collect::<Vec<_>>()).unwrap()),
    };
    let grease = Grease {
        entropy: u64::MAX,
        value: [9; 8],
        len: 8,
    };
    let bytes = p.to_vec(Some(&grease)).unwrap();
    let decoded = TransportParameters::decode(&bytes, Side::Server);
    assert_eq!(decoded.as_ref(), Ok(&p));
    assert!(bytes.len() < TransportParameters::MAX_ENCODED_LEN);
    let mut too_large = p;
    too_large.initial_max_data = varint::MAX + 1;
    assert!(too_large.to_vec(None).is_err());
}

proptest! {
    #[test]
    fn numbers_round_trip(
        idle in 0..=varint::MAX, payload in 1200..=varint::MAX, data in 0..=varint::MAX,
        streams in 0u64..=1 << 60, exponent in 0u8..=20, delay in 0u64..1 << 14,
        limit in 2..=varint::MAX, kinds in proptest::collection::hash_set(any::<u8>(), 0..=16),
        flags: (bool, bool), entropy: u64,
    ) {
        let kinds: Vec<u8> = kinds.into_iter().collect();
        let p = TransportParameters {
            max_idle_timeout: Duration::from_millis(idle),
            max_udp_payload_size: payload,
            initial_max_data: data,
            initial_max_streams_uni: streams,
            ack_delay_exponent: exponent,
            max_ack_delay: Duration::from_millis(delay),
            min_ack_delay: Some(Duration::from_millis(delay)),
            active_connection_id_limit: limit,
            disable_active_migration: flags.0,
            grease_quic_bit: flags.1,
            explicit_feedback: Some(SignalKinds::new(&kinds).unwrap()),
            ..TransportParameters::DEFAULT
        };
        let grease = Grease { entropy, ..Grease::default() };
        let bytes = p.to_vec(Some(&grease)).unwrap();
        prop_assert_eq!(TransportParameters::decode(&bytes, Side::Client), Ok(p));
    }
}

/// The list of RFC 9000 §7.4.1, and the one of RFC 9221 §3.
#[test]
fn none_may_be_lowered_and_all_others_may_change() {
    // [9000 7.4.1 fresh-values] [9000 7.4.1 remembered]
    type Change = fn(&mut TransportParameters, u64);
    let before = TransportParameters {
        initial_max_data: 10,
        initial_max_stream_data_bidi_local: 10,
        initial_max_stream_data_bidi_remote: 10,
        initial_max_stream_data_uni: 10,
        initial_max_streams_bidi: 10,
        initial_max_streams_uni: 10,
        active_connection_id_limit: 10,
        max_datagram_frame_size: 10,
        ..TransportParameters::DEFAULT
    };
    let limits: [Change; 8] = [
        |p, v| p.initial_max_data = v,
        |p, v| p.initial_max_stream_data_bidi_local = v,
        |p, v| p.initial_max_stream_data_bidi_remote = v,
        |p, v| p.initial_max_stream_data_uni = v,
        |p, v| p.initial_max_streams_bidi = v,
        |p, v| p.initial_max_streams_uni = v,
        |p, v| p.active_connection_id_limit = v,
        |p, v| p.max_datagram_frame_size = v,
    ];
    let remembered = PeerLimits::from(&before);
    for change in limits {
        for (value, fits) in [(9, false), (10, true), (11, true)] {
            let mut now = before.clone();
            change(&mut now, value);
            assert_eq!(PeerLimits::from(&now).include(&remembered), fits);
        }
    }
    let mut now = before;
    now.max_idle_timeout = core::time::Duration::from_secs(1);
    now.max_udp_payload_size = 1200;
    now.explicit_feedback = Some(SignalKinds::new(&[1]).unwrap());
    assert_eq!(PeerLimits::from(&now), remembered);
}
