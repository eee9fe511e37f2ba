//! Assignment of the places of half-open handshakes.

use std::net::SocketAddr;

use super::*;

#[test]
fn hosts_that_begin_and_never_end_keep_no_other_out() {
    for hosts in [1, 2, 4] {
        let mut endpoint = server();
        endpoint.config.max_half_open = 16;
        endpoint.set_retry(RetryPolicy::Never);
        let greedy_from = |n: u64| {
            let host = [198, 51, 100, (n % hosts) as u8];
            Received::plain(SocketAddr::from((host, 1)))
        };
        let mut answer = Vec::new();
        let mut begin = |endpoint: &mut Endpoint, n| {
            endpoint.handle(NOW, &greedy_from(n), &hello(n, &[]), &mut answer)
        };
        let greedy = (0..16).map(|n| match begin(&mut endpoint, n) {
            DatagramEvent::Incoming(incoming) => incoming,
            other => panic!("{other:?}"),
        });
        let mut greedy: Vec<_> = greedy.collect();
        assert!(matches!(begin(&mut endpoint, 16), DatagramEvent::Nothing));
        assert_eq!(endpoint.stats().dropped_full, 1);
        let other = |port| Received::plain(SocketAddr::from(([192, 0, 2, 8], port)));
        let mut answer = Vec::new();
        // One that waits to be accepted is evicted, then one that was accepted.
        let (first, mut connection) = endpoint.accept(NOW, greedy.remove(1)).unwrap();
        let mut honest = Vec::new();
        for n in 17..19 {
            let mut forged = hello(n, &[]);
            forged[1100] ^= 1;
            endpoint.handle(NOW, &other(n as u16), &forged, &mut answer);
            assert_eq!(endpoint.half_open(), 16);
            let event = endpoint.handle(NOW, &other(n as u16), &hello(n, &[]), &mut answer);
            let DatagramEvent::Incoming(client) = event else {
                panic!("{event:?}");
            };
            honest.push(client);
        }
        assert_eq!((endpoint.half_open(), endpoint.stats().evicted), (16, 2));
        let late = greedy.remove(0);
        assert!(!endpoint.is_waiting(&late) && endpoint.is_waiting(&honest[0]));
        let late = endpoint.accept(NOW, late);
        assert!(matches!(late, Err(AcceptError::Expired)));
        assert_eq!(endpoint.poll_evicted(), Some(first));
        assert_eq!(endpoint.poll_evicted(), None);
        // It may send a close to the client, and is then forgotten.
        connection.refuse(NOW);
        assert!(connection.poll_transmit(NOW, &mut [0; 1500], 1).is_some());
        assert!(!endpoint.update(NOW, first, &mut connection));
        assert_eq!(endpoint.connections(), 16);
        for client in greedy.into_iter().chain(honest) {
            endpoint.ignore(client);
        }
        assert_eq!((endpoint.half_open(), endpoint.connections()), (0, 0));
        assert_eq!(endpoint.demux.len(), 0);
    }
}

#[test]
fn retry_switches_itself_on_when_handshakes_pile_up() {
    let mut endpoint = server();
    endpoint.set_retry(RetryPolicy::Automatic { half_open: 10 });
    let waiting = (0..10).map(|n| incoming(&mut endpoint, 1, &hello(n, &[])));
    let waiting: Vec<_> = waiting.collect();
    let retry = answer(&mut endpoint, 1, &hello(10, &[]));
    // Clients that follow the Retry are admitted.
    let (token, dcid) = follow(&retry, &id(10));
    let again = initial(&*crypto(), &dcid, &id(2), &token, 1200);
    assert!(incoming(&mut endpoint, 1, &again).is_validated());
    for client in waiting {
        endpoint.ignore(client);
    }
    let mut out = Vec::new();
    let mut calm = |seconds| {
        let now = NOW + Duration::from_secs(seconds);
        endpoint.handle(now, &from(1), &hello(100 + seconds, &[]), &mut out)
    };
    assert!(matches!(calm(9), DatagramEvent::Respond));
    assert!(matches!(calm(10), DatagramEvent::Incoming(_)));
}

#[test]
fn application_may_refuse_retry_or_ignore() {
    let mut endpoint = server();
    let mut out = Vec::new();
    let client = incoming(&mut endpoint, 1, &hello(1, &[]));
    let event = endpoint.refuse(NOW, client, &mut out);
    assert!(matches!(event, DatagramEvent::Respond));
    let code = close_code(&out, &id(1));
    assert_eq!(code, TransportErrorCode::CONNECTION_REFUSED);

    let client = incoming(&mut endpoint, 1, &hello(1, &[]));
    let event = endpoint.retry(NOW, client, &mut out);
    assert!(matches!(event, DatagramEvent::Respond));
    let (token, dcid) = follow(&out, &id(1));
    let again = initial(&*crypto(), &dcid, &id(2), &token, 1200);
    let client = incoming(&mut endpoint, 1, &again);
    let event = endpoint.retry(NOW, client, &mut out);
    assert!(matches!(event, DatagramEvent::Nothing));

    let client = incoming(&mut endpoint, 1, &hello(1, &[]));
    endpoint.ignore(client);
    assert_eq!((endpoint.connections(), endpoint.half_open()), (0, 0));
    assert_eq!(endpoint.demux.len(), 0);
}

#[test]
fn failed_handshakes_count_until_they_are_forgotten() {
    let mut endpoint = server();
    endpoint.config.max_half_open = 1;
    let first = incoming(&mut endpoint, 1, &hello(1, &[]));
    let (handle, mut connection) = endpoint.accept(NOW, first).unwrap();
    connection.close(NOW, 0, bytes::Bytes::new());
    assert!(endpoint.update(NOW, handle, &mut connection));
    assert_eq!(endpoint.half_open(), 1);
    nothing(&mut endpoint, 2, &hello(2, &[]));
    assert_eq!(endpoint.stats().dropped_full, 1);

    let end = connection.deadline().unwrap();
    connection.handle_timeout(end);
    assert!(!endpoint.update(end, handle, &mut connection));
    assert_eq!(endpoint.half_open(), 0);
    let _ = incoming(&mut endpoint, 2, &hello(2, &[]));
}

#[test]
fn what_waits_is_bounded_and_expires() {
    let mut endpoint = server();
    let client = incoming(&mut endpoint, 1, &hello(1, &[]));
    for _ in 0..100 {
        nothing(&mut endpoint, 1, &hello(1, &[]));
    }
    // 16 KiB hold 13 datagrams of 1200 bytes.
    assert_eq!(endpoint.stats().dropped_waiting, 101 - 13);
    let late = NOW + Duration::from_secs(10);
    let mut out = Vec::new();
    let _other = endpoint.handle(late, &from(2), &hello(2, &[]), &mut out);
    assert_eq!((endpoint.stats().expired, endpoint.connections()), (1, 1));
    let accepted = endpoint.accept(late, client);
    assert!(matches!(accepted, Err(AcceptError::Expired)));
    assert_eq!(endpoint.connections(), 1);
}
