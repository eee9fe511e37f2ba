//! Streams over whole connections: large, numerous, lossy, and limited.

use super::*;

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
    pair.client.get().ping();
    pair.run(Duration::from_secs(1));
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
        pair.upload(3000, Duration::from_secs(1));
        pair.run(Duration::from_millis(500));
    }
    let log = pair.client.log();
    assert_eq!(log.window_limited_acks, 0);
    assert!(log.restarts >= 4, "{log:?}");
    let report = pair.client.get().path_report(pair.now);
    assert!(report.bounded_by.application > 0.9, "{report:?}");
}

#[test]
fn a_connection_at_rest_is_small_and_so_is_the_record_of_a_packet() {
    use crate::connection::carried::Carried;
    use crate::recovery::SentPacket;
    let sizes = (size_of::<Connection>(), size_of::<SentPacket<Carried>>());
    assert!(sizes.0 <= 10 * 1024 && sizes.1 <= 120, "{sizes:?}");
}
