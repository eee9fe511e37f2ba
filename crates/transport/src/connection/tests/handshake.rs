//! Handshakes: clean, lossy, limited, failed.

use super::pair::Pair;
use crate::connection::Event;
use crate::{Duration, Instant};

#[test]
fn a_clean_handshake_takes_one_round_trip_and_is_confirmed_after_one_more() {
    let mut pair = Pair::new();
    pair.record = true;
    assert!(pair.run_until(Duration::from_secs(1), |p| p.client.get().is_established()));
    assert_eq!(
        pair.now - Instant::from_millis(1),
        Duration::from_millis(20)
    );
    pair.connect();
    assert_eq!(
        pair.now - Instant::from_millis(1),
        Duration::from_millis(40)
    );
    for host in [&pair.client, &pair.server] {
        let order: Vec<_> = host
            .events
            .iter()
            .filter(|e| !matches!(e, Event::Stream(_)))
            .collect();
        assert_eq!(
            order,
            [
                &Event::HandshakeDataReady,
                &Event::Connected,
                &Event::Confirmed
            ]
        );
    }
    // Datagrams with an Initial packet of the client's are of full size (RFC 9000 §14.1).
    assert_eq!(pair.client.sent[0].len(), 1200);
    assert_eq!(pair.server.sent[0].len(), 1200);
    assert_eq!(pair.client.get().stats().packets_lost, 0);
    assert_eq!(
        pair.client.get().handshake_data().protocol.as_deref(),
        Some(&b"test"[..])
    );
}
