//! Transport parameters of both sides, and which packets may be decrypted.

use core::time::Duration;

use super::*;
use crate::config::TransportConfig;
use crate::connection::handshake::{ServerIds, idle_timeout, local, longest_token};
use crate::connection::tests::fixed_window::fixed_window;
use crate::connection::tests::questions::signals;
use crate::crypto::{Random, ResetToken};
use crate::streams::PeerLimits;
use crate::wire::PacketType;
use crate::wire::packet::Protected;

fn config() -> TransportConfig {
    let mut config = TransportConfig::new(fixed_window(10_000).0);
    config.max_idle_timeout = Some(crate::Duration::from_secs(7));
    config.max_udp_payload_size = 1452;
    config.streams.initial_connection_window = 1_000_000;
    config.streams.initial_stream_window = 200_000;
    config.streams.max_bidi_streams = 30;
    config.streams.max_uni_streams = 4;
    config.max_ack_delay = crate::Duration::from_millis(9);
    config.active_connection_id_limit = 5;
    config.signals = signals(&[3, 1]);
    config
}

fn sent(config: &TransportConfig, server: Option<&ServerIds>) -> TransportParameters {
    let bytes = local(config, id(9), server, &mut Random::from_u64(1)).unwrap();
    let side = server.map_or(Side::Client, |_| Side::Server);
    TransportParameters::decode(&bytes, side).unwrap()
}

fn ids() -> ServerIds {
    ServerIds {
        original_destination: id(1),
        retry_source: Some(id(3)),
        reset_token: ResetToken::new([7; 16]),
    }
}

/// RFC 9000 §18.2, RFC 9221 §3, draft-ietf-quic-ack-frequency §3.
#[test]
fn a_configuration_is_advertised() {
    let parameters = sent(&config(), None);
    assert_eq!(parameters.max_idle_timeout, Duration::from_secs(7));
    assert_eq!(parameters.max_udp_payload_size, 1452);
    assert_eq!(parameters.ack_delay_exponent, 3);
    assert_eq!(parameters.max_ack_delay, Duration::from_millis(9));
    assert_eq!(parameters.min_ack_delay, Some(Duration::from_millis(1)));
    assert_eq!(parameters.active_connection_id_limit, 5);
    assert_eq!(parameters.initial_source_connection_id, Some(id(9)));
    assert_eq!(parameters.max_datagram_frame_size, 65_535);
    let kinds = parameters.explicit_feedback.as_ref().unwrap();
    assert_eq!(kinds.as_slice(), [3, 1]);
    // Limits on the peer's streams.
    let limits = PeerLimits::from(&parameters);
    assert_eq!(limits.max_data, 1_000_000);
    assert_eq!(limits.max_stream_data_bidi_local, 200_000);
    assert_eq!(limits.max_stream_data_bidi_remote, 200_000);
    assert_eq!(limits.max_stream_data_uni, 200_000);
    assert_eq!((limits.max_streams_bidi, limits.max_streams_uni), (30, 4));
    let mut plain = config();
    plain.signals.clear();
    assert_eq!(sent(&plain, None).explicit_feedback, None);
}

#[test]
fn a_server_adds_ids_and_may_forbid_migration() {
    let mut config = config();
    let parameters = sent(&config, Some(&ids()));
    assert_eq!(parameters.original_destination_connection_id, Some(id(1)));
    assert_eq!(parameters.retry_source_connection_id, Some(id(3)));
    assert_eq!(parameters.stateless_reset_token, Some([7; 16]));
    assert!(!parameters.disable_active_migration);
    config.migration = false;
    assert!(sent(&config, Some(&ids())).disable_active_migration);
    assert!(!sent(&config, None).disable_active_migration);
}

/// RFC 9000 §18.2 and §4.6 limit values, but a configuration may contain any.
#[test]
fn values_that_cannot_be_sent_are_bounded() {
    let mut config = config();
    config.max_udp_payload_size = 100;
    config.streams.initial_connection_window = u64::MAX;
    config.streams.initial_stream_window = u64::MAX;
    config.streams.max_bidi_streams = u64::MAX;
    config.streams.max_uni_streams = u64::MAX;
    config.max_ack_delay = crate::Duration::from_secs(100);
    config.active_connection_id_limit = 0;
    let parameters = sent(&config, None);
    assert_eq!(parameters.max_udp_payload_size, 1200);
    assert_eq!(parameters.initial_max_data, (1 << 62) - 1);
    assert_eq!(parameters.initial_max_streams_bidi, 1 << 60);
    assert_eq!(parameters.initial_max_streams_uni, 1 << 60);
    assert_eq!(parameters.max_ack_delay, Duration::from_millis(16_383));
    assert_eq!(parameters.active_connection_id_limit, 2);
    // In microseconds.
    for (configured, timeout) in [(0, 0), (1, 1000), (9_000_000, 9_000_000)] {
        config.max_idle_timeout = Some(crate::Duration::from_micros(configured));
        let timeout = Duration::from_micros(timeout);
        let known = Some(timeout).filter(|t| !t.is_zero());
        assert_eq!(idle_timeout(&config), known);
        assert_eq!(sent(&config, None).max_idle_timeout, timeout);
    }
    config.max_idle_timeout = None;
    assert_eq!(idle_timeout(&config), None);
    assert_eq!(sent(&config, None).max_idle_timeout, Duration::ZERO);
}

/// RFC 9000 §17.2.2: flags, version, IDs of 20 and 8 bytes with a length each, lengths of token and
/// packet of 2 bytes each, a packet number of 4 bytes, and a tag of 16 bytes. 64 bytes remain for
/// frames.
#[test]
fn a_token_leaves_room_for_frames() {
    let header = 1 + 4 + 21 + 9 + 2 + 2 + 4;
    assert_eq!(longest_token(&config()), 1200 - header - 16 - 64);
}

#[test]
fn a_client_migrates_unless_its_server_forbids_it() {
    assert!(server(9).is_migration_forbidden());
    assert!(!client().is_migration_forbidden(), "it is not known yet");
    for forbidden in [false, true] {
        let crypto = NullCrypto::new(&[b"test"]);
        let others = TransportParameters {
            disable_active_migration: forbidden,
            ack_delay_exponent: 7,
            ..TransportParameters::DEFAULT
        };
        let (mut client, mut server) = (client_of(crypto.clone()), server_of(crypto, 9, &others));
        assert!(client.on_source(id(9)));
        exchange(&mut client, &mut server);
        assert_eq!(client.read_parameters(), Ok(true));
        assert_eq!(client.is_migration_forbidden(), forbidden);
        let peer = client.peer().unwrap();
        assert_eq!(peer.disable_active_migration, forbidden);
        assert_eq!(client.peer_ack_delay_exponent(), 7);
    }
}

fn accepts(handshake: &Handshake, ty: PacketType, source: u8, token: bool) -> bool {
    handshake.accepts(&Protected {
        ty,
        dcid: id(2),
        scid: id(source),
        token: 0..usize::from(token),
        number_at: 20,
        len: 100,
    })
}

#[test]
fn packets_are_opened_when_their_sender_and_their_time_are_right() {
    // [9001 5.7 not-before-complete] [9001 5.6 client-opens-none] [9000 17.2.2 no-server-token]
    // [9000 7.2 client-drops-other-source] [9000 7.2 server-follows-first]
    let (mut client, mut server) = (client(), server(9));
    assert!(client.on_source(id(9)));
    for (side, source) in [(&client, 9), (&server, 2)] {
        for token in [false, true] {
            let expected = side.side() == Side::Server || !token;
            assert_eq!(accepts(side, PacketType::Initial, source, token), expected);
            assert!(!accepts(side, PacketType::Initial, 7, token));
        }
        assert!(accepts(side, PacketType::Handshake, source, false));
        assert!(!accepts(side, PacketType::Handshake, 7, false));
        let early = accepts(side, PacketType::ZeroRtt, source, false);
        assert_eq!(early, side.side() == Side::Server);
        assert!(!accepts(side, PacketType::ZeroRtt, 7, false));
        assert!(!accepts(side, PacketType::OneRtt, source, false));
    }
    exchange(&mut client, &mut server);
    assert!(accepts(&client, PacketType::OneRtt, 9, false));
    assert!(accepts(&server, PacketType::OneRtt, 2, false));
}
