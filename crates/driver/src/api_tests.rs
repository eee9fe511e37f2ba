//! Calls that endpoints and connections offer to an application, each over real sockets.

use std::net::UdpSocket;

use bytes::Bytes;

use super::testing::*;
use super::*;
use pathmark_transport::VarInt;
use pathmark_transport::connection::ConnectionError;

/// All clones of an endpoint share the client configuration that it was given. At a server,
/// `incoming.await` returns the connection or the reason why there is none.
#[tokio::test]
async fn connections_begin_with_the_default_configuration() {
    let (server, endpoint) = (server(), endpoint());
    let connect = || endpoint.connect(server.local_address(), NAME);
    assert_eq!(connect().unwrap_err(), ConnectError::NoDefaultClientConfig);
    let shared = endpoint.clone();
    shared.set_default_client_config(client(transport()));
    let connecting = connect().unwrap();
    let accepting = async { server.accept().await.unwrap().await };
    let both = soon("both", async { tokio::try_join!(connecting, accepting) });
    let (near, far) = both.await.unwrap();
    assert_eq!(far.remote_address(), endpoint.local_address());
    drop((near, far));

    let connecting = connect().unwrap();
    let incoming = soon("a client", server.accept()).await.unwrap();
    server.close(0_u32.into(), b"");
    let ended = soon("the client", incoming.into_future()).await;
    assert_eq!(ended.unwrap_err(), ConnectionError::LocallyClosed);
    drop(connecting);
}

/// The application can set the endpoint's own limits.
#[tokio::test]
async fn an_endpoint_takes_its_configuration() {
    let socket = UdpSocket::bind(loopback()).unwrap();
    let config = EndpointConfig::adjusted(|config| config.max_connections = 1);
    let runtime = default_runtime().unwrap();
    let endpoint = Endpoint::new(config, None, socket, runtime).unwrap();
    let (server, config) = (server(), client(transport()));
    let connect = || endpoint.connect_with(config.clone(), server.local_address(), NAME);
    let first = connect().unwrap();
    assert!(connect().is_err());
    drop(first);
}

/// Dropping a future loses no data: the next read continues where the last completed one ended.
#[tokio::test]
async fn reads_that_are_dropped_lose_nothing() {
    let endpoint = endpoint();
    let (near, far) = connected_from(&endpoint, transport()).await;
    for way in 0..4 {
        let mut sending = near.open_uni().await.unwrap();
        sending.write_all(b"first half, ").await.unwrap();
        let mut received = far.accept_uni().await.unwrap();
        let mut read = polled_once(&mut received);
        while read == 0 {
            tokio::task::yield_now().await;
            read = polled_once(&mut received);
        }
        assert_eq!(read, 12);
        sending.write_all(b"second half").await.unwrap();
        sending.finish().unwrap();
        let whole = b"first half, second half";
        let mut got = vec![0; 5];
        match way {
            0 => got.clear(),
            1 => assert_eq!(received.read(&mut got).await.unwrap(), Some(5)),
            2 => got = received.read_chunk().await.unwrap().unwrap().to_vec(),
            _ => {
                let error = received.read_to_end(20).await.unwrap_err();
                assert_eq!(error, ReadToEndError::TooLong);
                got.clear();
            }
        }
        got.extend(received.read_to_end(23).await.unwrap());
        assert_eq!(got, whole, "{way}");
    }
}

/// Stopping a stream drops what reading to the end has kept.
#[tokio::test]
async fn a_stopped_stream_keeps_nothing() {
    let endpoint = endpoint();
    let (near, far) = connected_from(&endpoint, transport()).await;
    let mut sending = near.open_uni().await.unwrap();
    sending.write_all(b"more than three bytes").await.unwrap();
    let mut received = far.accept_uni().await.unwrap();
    let read = received.read_to_end(3).await;
    assert_eq!(read, Err(ReadToEndError::TooLong));
    received.stop(0_u32.into()).unwrap();
    let read = received.read_chunk().await;
    assert_eq!(read, Err(ReadError::ClosedStream));
}

/// Starts to read to the end, gives up immediately, and returns how much data the stream keeps.
fn polled_once(received: &mut RecvStream) -> usize {
    {
        let reading = std::pin::pin!(received.read_to_end(100));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(reading.poll(&mut cx).is_pending());
    }
    received.kept()
}

/// A connection's number is not reused even if another one takes its place in memory.
#[tokio::test]
async fn numbers_of_connections_are_never_used_again() {
    let mut seen = std::collections::HashSet::new();
    let server = server();
    for _ in 0..20 {
        let endpoint = endpoint();
        let (near, far) = both(connect(&endpoint, &server), &server).await;
        assert!(seen.insert(near.stable_id()) && seen.insert(far.stable_id()));
        near.close(0_u32.into(), b"");
        drop(near);
        endpoint.wait_idle().await;
        far.closed().await;
    }
}

/// A connection is identified by its number and its address, and a weak handle leads to it while it
/// is open.
#[tokio::test]
async fn a_connection_differs_from_others_and_is_found_by_weak_handles() {
    let endpoint = endpoint();
    let (near, far) = connected_from(&endpoint, transport()).await;
    let (other, _far) = connected_from(&endpoint, transport()).await;
    assert_eq!(near.stable_id(), near.clone().stable_id());
    assert_ne!(near.stable_id(), other.stable_id());
    assert_eq!(far.local_ip(), Some(loopback().ip()));
    let mut stream = near.open_uni().await.unwrap();
    let weak = near.weak_handle();
    let again = weak.upgrade().unwrap();
    assert_eq!(again.stable_id(), near.stable_id());
    drop(near);
    assert_eq!(again.close_reason(), None);
    drop(again);
    // The stream keeps the connection open.
    drop(weak.upgrade().unwrap());
    stream.write_all(b"all").await.unwrap();
    let mut read = soon("a stream", far.accept_uni()).await.unwrap();
    read.read_exact(&mut [0; 3]).await.unwrap();
    drop(stream);
    let ended = soon("the end", far.closed()).await;
    assert!(matches!(
        ended,
        ConnectionError::ApplicationClosed(close) if close.error_code == 0_u32.into()
    ));
    assert!(weak.clone().upgrade().is_none());
}

/// The peer can open as many streams at once as the new limit allows.
#[tokio::test]
async fn the_limit_of_streams_may_be_raised() {
    let mut transport = transport();
    transport.streams.max_bidi_streams = 0;
    transport.streams.max_uni_streams = 1;
    let endpoint = endpoint();
    let (near, far) = connected_from(&endpoint, transport).await;
    let first = near.open_uni().await.unwrap();
    let waiting = tokio::spawn({
        let near = near.clone();
        async move {
            let streams = (near.open_uni().await, near.open_uni().await);
            let bi = near.open_bi().await;
            (streams.0.is_ok() && streams.1.is_ok(), bi.is_ok())
        }
    });
    far.set_max_concurrent_uni_streams(3_u32.into());
    far.set_max_concurrent_bi_streams(VarInt::from_u32(1));
    assert_eq!(soon("streams", waiting).await.unwrap(), (true, true));
    drop(first);
}

/// Datagrams need no configuration. Those that wait for room all arrive, no matter how many are
/// sent and how small the queue is, whereas those that don't wait may be dropped and counted.
#[tokio::test]
async fn datagrams_that_wait_for_room_are_not_dropped() {
    const DATAGRAMS: u32 = 400;
    let mut transport = transport();
    transport.datagrams.send_bytes = 4000;
    let endpoint = endpoint();
    let (near, far) = connected_from(&endpoint, transport).await;
    assert_eq!(near.datagram_send_buffer_space(), 4000 - 64);
    let sending = async {
        let tasks = (0..4_u32).map(|task| {
            let near = near.clone();
            tokio::spawn(async move {
                for n in 0..DATAGRAMS / 4 {
                    let mut data = vec![7; 1000];
                    data[..4].copy_from_slice(&(4 * n + task).to_be_bytes());
                    near.send_datagram_wait(data.into()).await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        // No datagram may be lost for good, because it would be missing below.
        while near.datagram_send_buffer_space() < 4000 - 64 {
            tokio::task::yield_now().await;
        }
    };
    let receiving = async {
        let mut seen = std::collections::HashSet::new();
        while seen.len() < DATAGRAMS as usize {
            let data = far.read_datagram().await.unwrap();
            seen.insert(data.first_chunk::<4>().copied());
        }
    };
    soon("datagrams", async { tokio::join!(sending, receiving) }).await;
    assert_eq!(near.stats().datagram_frames_unsent, 0);
    // Four such datagrams fill the queue.
    for _ in 0..10 {
        near.send_datagram(Bytes::from_static(&[7; 1000])).unwrap();
    }
    assert!(near.stats().datagram_frames_unsent > 0);
    let longest = near.max_datagram_size().unwrap();
    let refused = near.send_datagram_wait(vec![0; longest + 1].into()).await;
    assert_eq!(refused, Err(SendDatagramError::TooLarge));
    near.close(0_u32.into(), b"");
    let refused = near.send_datagram_wait(Bytes::new()).await;
    let over = ConnectionError::LocallyClosed;
    assert_eq!(refused, Err(SendDatagramError::ConnectionLost(over)));
}

/// The search for the path's MTU makes longer datagrams possible, which wakes those who wait.
#[tokio::test]
async fn longer_datagrams_are_reported() {
    let endpoint = endpoint();
    let (near, _far) = connected_from(&endpoint, transport()).await;
    let first = near.max_datagram_size();
    assert!(first.unwrap() < 1200);
    let all = async {
        let mut sizes = vec![first];
        while *sizes.last().unwrap() < Some(1400) {
            let known = *sizes.last().unwrap();
            sizes.push(near.max_datagram_size_changed(known).await.unwrap());
        }
        sizes
    };
    // The search begins once there is data to send.
    let mut stream = near.open_uni().await.unwrap();
    stream.write_all(&[0; 100_000]).await.unwrap();
    let sizes = soon("a larger MTU", all).await;
    assert!(sizes.is_sorted(), "{sizes:?}");
    let known = near.max_datagram_size();
    let wait = || near.max_datagram_size_changed(known);
    let given_up = tokio::time::timeout(std::time::Duration::ZERO, wait()).await;
    assert!(given_up.is_err());
    let (one, other, ()) = tokio::join!(wait(), wait(), async {
        near.close(0_u32.into(), b"");
    });
    for changed in [one, other] {
        assert_eq!(changed, Err(ConnectionError::LocallyClosed));
    }
}

/// A connection that is closed once all is delivered loses nothing of streams that were finished,
/// even if their parts were dropped. A stream that is open or reset delays nothing.
#[tokio::test]
async fn a_close_after_delivery_loses_nothing() {
    const STREAMS: usize = 20;
    const BYTES: usize = 200_000;
    let endpoint = endpoint();
    let (near, far) = connected_from(&endpoint, transport()).await;
    let reading = async {
        let mut readers = Vec::new();
        while let Ok(mut stream) = far.accept_uni().await {
            let all = async move { stream.read_to_end(BYTES).await.map_or(0, |data| data.len()) };
            readers.push(tokio::spawn(all));
        }
        let mut read = 0;
        for reader in readers {
            read += reader.await.unwrap();
        }
        read
    };
    let writing = async {
        near.delivered().await.unwrap();
        let mut open = near.open_uni().await.unwrap();
        open.write_all(b"more follows").await.unwrap();
        let mut abandoned = near.open_uni().await.unwrap();
        abandoned.write_all(b"no more follows").await.unwrap();
        abandoned.reset(1_u32.into()).unwrap();
        let writers = (0..STREAMS).map(|_| {
            let near = near.clone();
            tokio::spawn(async move {
                let mut stream = near.open_uni().await.unwrap();
                stream.write_all(&[7; BYTES]).await.unwrap();
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        // Several tasks wait, and one of them gives up.
        let mut given_up = Box::pin(near.delivered());
        is_pending(&mut given_up).await;
        let waiting = || near.delivered();
        let others = async { tokio::join!(waiting(), waiting(), waiting()) };
        drop(given_up);
        assert_eq!(others.await, (Ok(()), Ok(()), Ok(())));
        near.close(0_u32.into(), b"");
        // Nothing is missing, although the connection is over.
        near.delivered().await
    };
    let (read, late) = soon("all streams", async { tokio::join!(reading, writing) }).await;
    assert_eq!(read, STREAMS * BYTES);
    assert_eq!(late, Ok(()));
}

/// A task that waits for delivery gets the error if the connection ends first.
#[tokio::test]
async fn a_connection_that_ends_delivers_no_more() {
    let endpoint = endpoint();
    let (near, _far) = connected_from(&endpoint, transport()).await;
    let mut stream = near.open_uni().await.unwrap();
    stream.write_all(b"in flight").await.unwrap();
    stream.finish().unwrap();
    let mut waiting = Box::pin(near.delivered());
    is_pending(&mut waiting).await;
    near.close(0_u32.into(), b"");
    let ended = soon("the end", waiting).await;
    assert_eq!(ended, Err(ConnectionError::LocallyClosed));
}

/// A task that waits for room gets the error when the connection ends.
#[tokio::test]
async fn waiting_for_room_ends_with_the_connection() {
    let mut transport = transport();
    transport.datagrams.send_bytes = 1000;
    let endpoint = endpoint();
    let (near, _far) = connected_from(&endpoint, transport).await;
    let data = Bytes::from_static(&[7; 900]);
    // The sending task can't run before the second one waits.
    near.send_datagram(data.clone()).unwrap();
    let mut waiting = Box::pin(near.send_datagram_wait(data));
    is_pending(&mut waiting).await;
    near.close(0_u32.into(), b"");
    assert!(soon("the end", waiting).await.is_err());
}

#[tokio::test]
async fn the_default_transport_connects_and_asks_routers() {
    let endpoint = endpoint();
    let default = crate::TransportConfig::default();
    let (near, far) = connected_from(&endpoint, (*default).clone()).await;
    assert!(near.path_report().signal.is_some());
    let mut stream = near.open_uni().await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    stream.finish().unwrap();
    let mut received = far.accept_uni().await.unwrap();
    assert_eq!(received.read_to_end(10).await.unwrap(), b"hello");
}
