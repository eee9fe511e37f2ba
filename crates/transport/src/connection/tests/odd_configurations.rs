//! For every value that a configuration can contain, transfers end and time advances.

use super::*;

/// Transfers data between ends whose configuration is changed by `set`, and returns true if this
/// panics.
fn fails(set: impl Fn(&mut TransportConfig)) -> bool {
    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut pair = Pair::connected(Setup::both(set));
        pair.upload_and_run(300_000, 30, Duration::from_secs(5));
    }));
    tried.is_err()
}

#[test]
fn odd_durations_do_no_harm() {
    let longest = Duration::MAX;
    type Set = fn(&mut TransportConfig, Duration);
    let set: [(&str, Set); 4] = [
        ("max_idle_timeout", |c, d| c.max_idle_timeout = Some(d)),
        ("keep_alive", |c, d| c.keep_alive = Some(d)),
        ("max_ack_delay", |c, d| c.max_ack_delay = d),
        ("handshake_timeout", |c, d| c.handshake_timeout = d),
    ];
    let mut wrong = Vec::new();
    for (what, set) in set {
        for value in [Duration::ZERO, Duration::from_nanos(1), longest] {
            let unfit = what == "handshake_timeout" && value != longest;
            if !unfit && fails(|config| set(config, value)) {
                wrong.push((what, value));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Impossible values are clamped when a connection starts, instead of being refused
/// (`TransportConfig`).
#[test]
fn odd_numbers_do_no_harm() {
    type Set = fn(&mut TransportConfig);
    let set: [(&str, Set); 14] = [
        ("connection window", |c| {
            c.streams.initial_connection_window = u64::MAX;
        }),
        ("stream window", |c| {
            c.streams.initial_stream_window = u64::MAX;
        }),
        ("bidi", |c| c.streams.max_bidi_streams = u64::MAX),
        ("uni", |c| c.streams.max_uni_streams = u64::MAX),
        ("uni 2^60", |c| c.streams.max_uni_streams = (1 << 60) + 1),
        ("max window", |c| c.streams.max_window = u64::MAX),
        ("max window 0", |c| c.streams.max_window = 0),
        ("send buffer", |c| c.streams.max_send_buffer = u64::MAX),
        ("send buffer 0", |c| c.streams.max_send_buffer = 0),
        ("key update", |c| c.key_update_after = 0),
        ("ids", |c| c.active_connection_id_limit = u64::MAX),
        ("datagrams", |c| c.datagrams.receive_bytes = usize::MAX),
        ("datagrams sent", |c| c.datagrams.send_bytes = usize::MAX),
        ("known rate", |c| c.known_rate = Some(u64::MAX)),
    ];
    let wrong = set.into_iter().filter(|(_, set)| fails(set));
    let wrong: Vec<_> = wrong.map(|(what, _)| what).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A limit on streams that is configured is granted, however high it is.
#[test]
fn as_many_streams_as_are_configured_can_be_opened_at_once() {
    let mut setup = Setup::default();
    setup.server.streams.max_uni_streams = 1 << 20;
    let mut pair = Pair::connected(setup);
    let streams = pair.client.get().streams();
    let opened = (0..=1_u32 << 20).take_while(|_| streams.open(Dir::Uni).is_ok());
    assert_eq!(opened.count(), 1 << 20);
}

/// A timeout too short for the transport parameter still ends the connection.
#[test]
fn an_idle_timeout_of_a_nanosecond_is_the_shortest_for_both() {
    let mut setup = Setup::default();
    setup.client.max_idle_timeout = Some(Duration::from_nanos(1));
    setup.server.max_idle_timeout = None;
    let mut pair = Pair::connected(setup);
    pair.run(Duration::from_secs(20));
    for host in [&pair.client, &pair.server] {
        assert_eq!(host.error(), Some(ConnectionError::TimedOut));
    }
}
