//! Streams over whole connections: large, numerous, lossy, and limited.

use super::*;
use crate::streams::StreamEvent;

#[test]
fn a_megabyte_arrives() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload(1 << 20, Duration::from_secs(30));
    assert_eq!(pair.client.get().stats().packets_lost, 0);
    assert_eq!(pair.client.log().wrong_states, 0);
    let batch = pair.client.batches.iter().map(|b| b.len).max().unwrap();
    assert!(batch > 5000, "datagrams leave in batches: {batch}");
    for batch in &pair.client.batches {
        assert!(batch.len <= batch.segment_size * 10);
    }
}

#[test]
fn a_megabyte_arrives_over_a_bad_path() {
    // [9000 2.2 ordered-bytes]
    for seed in 0..8 {
        let mut pair = Pair::connected(Setup::new(|setup| setup.seed = seed));
        pair.set_faults(Faults {
            loss: 50_000,
            reorder: 50_000,
            duplicate: 20_000,
            corrupt: 20_000,
            ..Faults::default()
        });
        pair.upload(1 << 20, Duration::from_secs(120));
        let stats = pair.client.get().stats().clone();
        assert!(stats.packets_lost > 10, "{stats:?}");
        assert!(pair.server.get().stats().packets_duplicate > 0);
        assert!(pair.server.get().stats().packets_dropped > 0);
    }
}

#[test]
fn small_windows_slow_a_transfer_and_do_not_stop_it() {
    let mut setup = Setup::default();
    setup.server.streams.initial_connection_window = 3000;
    setup.server.streams.initial_stream_window = 2000;
    setup.server.streams.max_window = 4000;
    let mut pair = Pair::connected(setup);
    pair.upload(200_000, Duration::from_secs(60));
    let bounds = pair.client.get().path_report(pair.now).bounded_by;
    assert!(bounds.peer > 0.8, "{bounds:?}");
}

/// Requests of 100 bytes one after the other, as many at a time as the peer permits: 10 in a round
/// trip. The peer's limit holds the sender back while the application waits to open another stream,
/// but no longer.
#[test]
fn the_limit_of_streams_bounds_a_sender_of_many_small_ones() {
    let mut pair = Pair::connected(Setup::new(|setup| {
        setup.server.streams.max_uni_streams = 10;
    }));
    let mut begun = 0;
    let opened = pair.run_until(Duration::from_secs(60), |pair| {
        let (client, server) = (&mut pair.client, &mut pair.server);
        while begun < 500
            && let Ok(id) = client.get().streams().open(Dir::Uni)
        {
            client.get().streams().write(id, &[7; 100]).unwrap();
            client.get().streams().finish(id).unwrap();
            begun += 1;
        }
        while let Some(id) = server.get().streams().accept(Dir::Uni) {
            while let Ok(Some(_)) = server.get().streams().read(id, &mut [0; 200]) {}
        }
        begun == 500
    });
    assert!(opened);
    let bounds = pair.client.get().path_report(pair.now).bounded_by;
    assert!(bounds.streams > 0.8, "{bounds:?}");
    // It waits for one more stream and gives up.
    while pair.client.get().streams().open(Dir::Uni).is_ok() {}
    assert!(pair.client.get().streams().opening.is_waited_for());
    pair.client.get().streams().give_up_opening(Dir::Uni);
    assert!(!pair.client.get().streams().opening.is_waited_for());
    pair.ping_and_run(Duration::from_secs(1));
    let later = pair.now + Duration::from_secs(60);
    let bounds = pair.client.get().path_report(later).bounded_by;
    assert!(bounds.application > 0.5, "{bounds:?}");
}

#[test]
fn the_window_bounds_what_is_in_flight() {
    // [9002 7 window]
    let mut pair = Pair::connected(Setup::with_window(12_000));
    let took = pair.upload(240_000, Duration::from_secs(60)).as_secs_f64();
    // 12,000 bytes per round trip of 20 ms, including headers.
    assert!((0.40..0.50).contains(&took), "{took}");
    let log = pair.client.log();
    assert!(log.window_limited_acks > 10, "{log:?}");
    let report = pair.client.get().path_report(pair.now);
    assert!(report.bounded_by.window > 0.7, "{report:?}");
}

#[test]
fn an_idle_sender_is_not_window_limited() {
    let mut pair = Pair::connected(Setup::default());
    for _ in 0..5 {
        pair.upload_and_run(3000, 1, Duration::from_millis(500));
    }
    let log = pair.client.log();
    assert_eq!(log.window_limited_acks, 0);
    assert!(log.restarts >= 4, "{log:?}");
    let report = pair.client.get().path_report(pair.now);
    assert!(report.bounded_by.application > 0.9, "{report:?}");
}

#[test]
fn what_is_written_after_a_stop_is_refused() {
    let mut pair = Pair::connected(Setup::default());
    let id = pair.client.write(b"hello");
    pair.run(Duration::from_millis(50));
    assert_eq!(pair.server.get().streams().accept(Dir::Uni), Some(id));
    pair.server.get().streams().stop(id, 42).unwrap();
    pair.run(Duration::from_millis(50));
    let stopped = Event::Stream(StreamEvent::Stopped(id, 42));
    assert!(pair.client.has(|event| *event == stopped));
    let refused = pair.client.get().streams().write(id, b"more").unwrap_err();
    assert!([WriteError::Stopped(42), WriteError::Closed].contains(&refused));
}

#[test]
fn a_transfer_survives_a_blackout() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload(50_000, Duration::from_secs(5));
    pair.up.rate = Some(1_000_000);
    let lost_before = pair.client.get().stats().packets_lost;
    let begin = pair.now + Duration::from_millis(50);
    let end = begin + Duration::from_secs(3);
    pair.transfer(true, 100_000, Duration::from_secs(60), |pair, _| {
        let dark = (begin..end).contains(&pair.now);
        if dark && pair.up.faults.loss == 0 {
            pair.up.cut();
            pair.down.cut();
        }
        pair.up.faults.loss = if dark { 1_000_000 } else { 0 };
    });
    let stats = pair.client.get().stats();
    assert!(stats.probe_timeouts >= 2, "{stats:?}");
    assert!(stats.packets_lost > lost_before);
}

#[test]
fn a_connection_at_rest_is_small_and_so_is_the_record_of_a_packet() {
    use crate::connection::building::Carried;
    use crate::recovery::SentPacket;
    let sizes = (size_of::<Connection>(), size_of::<SentPacket<Carried>>());
    assert!(sizes.0 <= 10 * 1024 && sizes.1 <= 120, "{sizes:?}");
}
