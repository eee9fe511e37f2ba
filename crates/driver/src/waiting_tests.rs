//! Futures that are dropped leave no waker behind.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;

use super::shared::Awaited;
use super::testing::*;
use super::waiters::Place;
use super::*;
use pathmark_transport::connection::ConnectionError;

/// Polls a future a few times and drops it.
fn give_up<T>(future: impl Future<Output = T>) {
    let mut future = pin!(future);
    for _ in 0..3 {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(future.as_mut().poll(&mut cx), Poll::Pending));
    }
}

/// Polls a separate handle for everything, twice with one waker and once with another, and drops
/// the handle.
fn give_up_by_polls(connection: &Connection) {
    let mut handle = connection.clone();
    let other = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&other));
    for waker in [Waker::noop(), Waker::noop(), &waker] {
        let mut cx = Context::from_waker(waker);
        assert!(handle.poll_accept_bi(&mut cx).is_pending());
        assert!(handle.poll_accept_uni(&mut cx).is_pending());
        assert!(handle.poll_open_bi(&mut cx).is_pending());
        assert!(handle.poll_open_uni(&mut cx).is_pending());
        assert!(handle.poll_read_datagram(&mut cx).is_pending());
    }
    assert_eq!(handle.shared().lock().waiting_places(), 5);
    drop(waker);
    assert_eq!(Arc::strong_count(&other), 6);
    drop(handle);
    assert_eq!(Arc::strong_count(&other), 1);
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns both ends of a connection, the client's and the server's, before the handshake is
/// complete.
async fn connecting() -> (Connecting, Connecting) {
    let mut transport = transport();
    transport.streams.max_bidi_streams = 1;
    transport.streams.max_uni_streams = 1;
    let config = ServerConfig::with_transport(Arc::new(server_tls()), Arc::new(transport.clone()));
    let server = Endpoint::server(config, loopback()).unwrap();
    let connecting = connect_with(&endpoint(), &server, client(transport));
    let incoming = server.accept().await.unwrap();
    (connecting, incoming.accept().unwrap())
}

/// Returns both ends of a connection.
async fn connected() -> (Connection, Connection) {
    let (client, server) = connecting().await;
    tokio::try_join!(client, server).unwrap()
}

/// A connection that the client closes right after the handshake was still established: the server
/// gets the connection and the reason for its end, no matter how late it looks.
#[tokio::test]
async fn a_connection_that_ends_before_it_is_looked_at_is_handed_over() {
    let (client, server) = connecting().await;
    client.await.unwrap().close(7_u32.into(), b"done");
    poll_fn(|cx| {
        let mut state = server.shared().lock();
        if state.lost().is_some() {
            return Poll::Ready(());
        }
        let mut place = Place::default();
        state.wait(Awaited::Progress, &mut place, cx);
        Poll::Pending
    })
    .await;
    let reason = server.await.unwrap().closed().await;
    let ConnectionError::ApplicationClosed(close) = reason else {
        panic!("{reason:?}");
    };
    assert_eq!(close.error_code, 7_u32.into());
}

/// If a peer asks to stop before the stream is accepted, the application that accepts it is
/// informed.
#[tokio::test]
async fn a_stop_that_comes_before_its_stream_is_accepted_is_reported() {
    let (ours, theirs) = connected().await;
    let (mut send, mut recv) = ours.open_bi().await.unwrap();
    send.write_all(b"a question").await.unwrap();
    recv.stop(9_u32.into()).unwrap();
    let mut later = ours.open_uni().await.unwrap();
    later.write_all(b"later").await.unwrap();
    later.finish().unwrap();
    let mut arrived = theirs.accept_uni().await.unwrap();
    assert_eq!(arrived.read_to_end(10).await.unwrap(), b"later");
    let (stopped, _question) = theirs.accept_bi().await.unwrap();
    assert_eq!(soon("the stop", stopped.stopped()).await, Ok(Some(9)));
    drop((stopped, send));
    assert!(theirs.shared().lock().senders.is_empty());
}

/// Several handles of one connection poll for the same event, and the peer opens one stream after
/// the other.
#[tokio::test]
async fn each_handle_that_polls_gets_its_turn() {
    let (ours, theirs) = connected().await;
    let accepting: Vec<_> = (0..10)
        .map(|_| {
            let mut handle = theirs.clone();
            tokio::spawn(async move {
                let mut stream = poll_fn(|cx| handle.poll_accept_uni(cx)).await.unwrap();
                poll_fn(|cx| stream.poll_read_chunk(cx)).await.unwrap()
            })
        })
        .collect();
    let opening: Vec<_> = (0..10)
        .map(|n| {
            // The peer allows one stream at a time.
            let mut handle = ours.clone();
            tokio::spawn(async move {
                let mut stream = poll_fn(|cx| handle.poll_open_uni(cx)).await.unwrap();
                let mut chunk = Bytes::from(vec![n; 3]);
                let written = poll_fn(|cx| stream.poll_write_chunk(cx, &mut chunk)).await;
                assert_eq!(written, Ok(3));
                stream.finish().unwrap();
                let stopped = poll_fn(|cx| stream.poll_stopped(cx)).await;
                assert!(matches!(stopped, Ok(None | Some(0))), "{stopped:?}");
            })
        })
        .collect();
    let mut seen = Vec::new();
    for task in accepting {
        let chunk = task.await.unwrap().unwrap();
        assert_eq!(chunk.len(), 3);
        seen.push(chunk[0]);
    }
    for task in opening {
        task.await.unwrap();
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<u8>>());
    assert_eq!(theirs.shared().lock().waiting_places(), 0);
}

/// After dropping a reader and a writer, the stream keeps none of their wakers. The connection's
/// end wakes tasks that poll.
#[tokio::test]
async fn a_stream_keeps_no_waker_of_a_future_that_is_dropped() {
    let (mut ours, theirs) = connected().await;
    let (mut send, mut recv) = ours.open_bi().await.unwrap();
    let full = vec![7; 1 << 20];
    while let Poll::Ready(written) = poll_once(&mut send, &full) {
        written.unwrap();
    }
    for _ in 0..10 {
        give_up(recv.read(&mut [0; 10]));
        give_up(recv.read_chunk());
        give_up(send.write(&full));
        give_up(send.write_all(&full));
        give_up(send.write_chunk(Bytes::from_static(b"more")));
        give_up(send.stopped());
    }
    {
        let state = ours.shared().lock();
        assert!(state.readers.is_empty());
        assert!(state.senders.values().all(|sender| sender.waker.is_none()));
    }

    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = Context::from_waker(&waker);
    assert!(recv.poll_read_chunk(&mut cx).is_pending());
    assert!(send.poll_stopped(&mut cx).is_pending());
    assert!(ours.poll_accept_bi(&mut cx).is_pending());
    theirs.close(5_u32.into(), b"enough");
    ours.closed().await;
    assert_eq!(count.0.load(Ordering::Relaxed), 3);
    let end = ours.poll_accept_bi(&mut cx);
    assert!(matches!(end, Poll::Ready(Err(_))));
}

fn poll_once(stream: &mut SendStream, data: &[u8]) -> Poll<Result<usize, WriteError>> {
    stream.poll_write_bytes(&mut Context::from_waker(Waker::noop()), data)
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_no_waker_behind() {
    let endpoint = server();
    // This socket never answers.
    let silent = std::net::UdpSocket::bind(loopback()).unwrap();
    let silent = silent.local_addr().unwrap();
    let connecting = endpoint.connect_with(client(transport()), silent, NAME);
    let connecting = connecting.unwrap();
    let shared = Arc::clone(connecting.shared());
    let connection = Connection::new(Arc::clone(&shared));
    give_up(connecting);
    for _ in 0..100 {
        give_up(endpoint.accept());
        give_up(endpoint.wait_idle());
        give_up(connection.closed());
        give_up(connection.confirmed());
        give_up(connection.accept_bi());
        give_up(connection.accept_uni());
        give_up(connection.open_bi());
        give_up(connection.open_uni());
        give_up(connection.read_datagram());
    }
    give_up_by_polls(&connection);
    let state = endpoint.shared.lock();
    assert_eq!((state.accepting.len(), state.idle.len()), (0, 0));
    drop(state);
    assert_eq!(shared.lock().waiting_places(), 0);
}

/// A failing socket ends its connections for all waiting tasks, and also frees the connections'
/// memory. This takes much less time than an idle timeout, which needn't be set.
#[tokio::test]
async fn connections_at_a_socket_that_fails_are_over() {
    let (ours, _theirs) = connected().await;
    let shared = Arc::clone(ours.shared());
    let reason = ConnectionError::Socket(io::ErrorKind::NotConnected);
    let socket = shared.endpoint.socket();
    shared.fail(&socket, &reason);
    assert_eq!(ours.closed().await, reason);
    until("its end", || shared.endpoint.lock().alive == 0).await;
    assert_eq!(ours.close_reason(), Some(reason));
}
