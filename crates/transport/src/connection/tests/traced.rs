//! Events of connections for logs.

use super::*;
use crate::crypto::Side;
use crate::observe::{Trace, TraceEvent, TraceFactory, TracedPacket};
use crate::wire::{ConnectionId, SpaceId};

/// What a log has got so far.
#[derive(Debug, Default)]
struct Got {
    sent: Vec<TracedPacket>,
    received: Vec<TracedPacket>,
    lost: Vec<TracedPacket>,
    reports: Vec<(Instant, u64)>,
    closed: Vec<ConnectionError>,
}

/// Logs of both ends, the client's first.
#[derive(Clone, Debug, Default)]
struct Logs([Arc<Mutex<Got>>; 2]);

struct Log(Arc<Mutex<Got>>);

impl TraceFactory for Logs {
    fn start(&self, _: Instant, side: Side, _: ConnectionId) -> Option<Box<dyn Trace>> {
        let got = &self.0[usize::from(side.is_server())];
        Some(Box::new(Log(Arc::clone(got))))
    }
}

impl Trace for Log {
    fn on_event(&mut self, now: Instant, event: &TraceEvent<'_>) {
        let mut got = self.0.lock().unwrap();
        match event {
            TraceEvent::Sent(packet) => got.sent.push(*packet),
            TraceEvent::Received(packet) => got.received.push(*packet),
            TraceEvent::Lost(packet) => got.lost.push(*packet),
            TraceEvent::Report(_, stats) => got.reports.push((now, stats.packets_sent)),
            TraceEvent::Closed(error) => got.closed.push((*error).clone()),
            _ => {}
        }
    }
}

/// Returns a connected pair whose ends have logs.
fn traced() -> (Pair, Logs) {
    let logs = Logs::default();
    let pair = Pair::connected(Setup::new(|setup| {
        setup.client.trace = Some(Arc::new(logs.clone()));
        setup.server.trace = Some(Arc::new(logs.clone()));
    }));
    (pair, logs)
}

#[test]
fn a_log_has_what_the_counters_count() {
    let (mut pair, Logs([client, server])) = traced();
    pair.set_faults(Faults {
        loss: 20_000,
        ..Faults::default()
    });
    pair.upload(300_000, Duration::from_secs(60));
    let (client, server) = (client.lock().unwrap(), server.lock().unwrap());
    for (got, stats) in [
        (&client, pair.client.get().stats()),
        (&server, pair.server.get().stats()),
    ] {
        assert_eq!(got.sent.len() as u64, stats.packets_sent);
        assert_eq!(got.received.len() as u64, stats.packets_received);
        let lost = got.lost.iter().filter(|packet| !packet.mtu_probe);
        assert_eq!(lost.count() as u64, stats.packets_lost);
        for space in SpaceId::ALL {
            let of_space = got.sent.iter().filter(|packet| packet.ty.space() == space);
            assert!(of_space.is_sorted_by_key(|packet| packet.number));
        }
    }
    assert!(client.lost.len() > 2);
    let was_sent = |packet: &TracedPacket| {
        let same = |sent: &&TracedPacket| (sent.ty, sent.number) == (packet.ty, packet.number);
        client.sent.iter().any(|sent| same(&sent))
    };
    assert!(server.received.iter().all(was_sent));
    assert!(client.lost.iter().all(was_sent));
}

#[test]
fn reports_come_each_second_and_at_the_end() {
    let (mut pair, Logs([client, server])) = traced();
    for _ in 0..30 {
        pair.ping_and_run(Duration::from_millis(100));
    }
    let sent = pair.client.get().stats().packets_sent;
    pair.client
        .get()
        .close(pair.now, 7_u32.into(), Bytes::new());
    pair.run(Duration::from_secs(1));
    let client = client.lock().unwrap();
    let [reports @ .., last] = client.reports.as_slice() else {
        panic!("no report");
    };
    assert_eq!(reports.len(), 3, "{reports:?}");
    for pair in reports.windows(2) {
        let between = pair[1].0 - pair[0].0;
        let expected = Duration::from_millis(1000)..Duration::from_millis(1200);
        assert!(expected.contains(&between), "{reports:?}");
    }
    assert!(last.1 >= sent);
    assert_eq!(client.closed, [ConnectionError::LocallyClosed]);
    let closed = server.lock().unwrap().closed.clone();
    assert!(matches!(
        closed.as_slice(),
        [ConnectionError::ApplicationClosed(_)]
    ));
}

#[test]
fn a_connection_that_is_dropped_has_a_last_report_and_a_broken_one_has_none() {
    let (pair, Logs([client, server])) = traced();
    let mut pair = pair;
    let now = pair.now;
    assert!(
        pair.client
            .get()
            .close_after_panic(now, &mut [0; 1500])
            .is_some()
    );
    drop(pair);
    assert_eq!(client.lock().unwrap().reports.len(), 0);
    let server = server.lock().unwrap();
    let [(_, sent)] = server.reports.as_slice() else {
        panic!("{:?}", server.reports);
    };
    assert_eq!(*sent, server.sent.len() as u64);
    assert_eq!(server.closed, []);
}
