//! Calls outside a runtime, and the error at each end if the other end fails.

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;

use super::testing::*;
use super::*;
use pathmark_transport::connection::{ApplicationClose, ConnectionError};
use pathmark_transport::wire::TransportErrorCode;
use pathmark_transport::{Duration, VarInt};

/// No call panics outside a runtime. Creating an endpoint there returns an error, and all that an
/// endpoint starts there runs in the endpoint's runtime.
#[test]
fn calls_outside_a_runtime_fail_or_use_the_endpoints() {
    assert!(Endpoint::client(loopback()).is_err());
    assert!(Endpoint::server(server_config(), loopback()).is_err());
    let runtime = runtime(2);
    let (endpoint, server) = runtime.block_on(async { (endpoint(), server()) });
    let connecting = connect(&endpoint, &server);
    let incoming = runtime.block_on(soon("the client", server.accept()));
    let accepting = incoming.unwrap().accept().unwrap();
    let (near, far) = runtime.block_on(async {
        let near = soon("the connection", connecting).await.unwrap();
        near.confirmed().await.unwrap();
        (near, soon("its other end", accepting).await.unwrap())
    });
    let socket = UdpSocket::bind(loopback()).unwrap();
    let moved = socket.local_addr().unwrap();
    endpoint.rebind(socket).unwrap();
    runtime.block_on(soon("the move", async {
        while far.remote_address() != moved {
            near.ping();
            tokio::task::yield_now().await;
        }
    }));
    let closing = thread::spawn(move || {
        near.close(7_u32.into(), b"");
        drop((near, endpoint));
    });
    closing.join().unwrap();
    let ended = runtime.block_on(soon("the end", far.closed()));
    assert!(matches!(
        ended,
        ConnectionError::ApplicationClosed(close) if close.error_code == 7_u32.into()
    ));
}

/// A runtime with several threads runs a task that was woken last before the others. What several
/// tasks write at the same time shares packets all the same.
#[test]
fn calls_of_several_tasks_share_packets() {
    const CALLERS: u64 = 8;
    const CALLS: u64 = 50;
    let runtime = runtime(1);
    // In a task of the runtime, because `block_on` uses a thread of its own.
    let calling = runtime.spawn(async {
        let endpoint = endpoint();
        let (near, far) = connected_from(&endpoint, transport()).await;
        near.confirmed().await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut send, mut recv)) = far.accept_bi().await {
                tokio::spawn(async move {
                    let question = recv.read_to_end(100).await.unwrap();
                    send.write_all(&question).await.unwrap();
                    send.finish().unwrap();
                });
            }
        });
        let before = near.stats().packets_sent;
        let callers = (0..CALLERS).map(|_| {
            let near = near.clone();
            tokio::spawn(async move {
                for _ in 0..CALLS {
                    let (mut send, mut recv) = near.open_bi().await.unwrap();
                    send.write_all(b"a little").await.unwrap();
                    send.finish().unwrap();
                    assert_eq!(recv.read_to_end(100).await.unwrap(), b"a little");
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.unwrap();
        }
        near.stats().packets_sent - before
    });
    let packets = runtime.block_on(soon("the calls", calling)).unwrap();
    assert!(2 * packets < CALLERS * CALLS, "{packets}");
}

/// Returns a socket whose receive buffer is small, whatever the system's default is.
fn with_small_buffer() -> UdpSocket {
    let socket = UdpSocket::bind(loopback()).unwrap();
    let reference = socket2::SockRef::from(&socket);
    reference.set_recv_buffer_size(4096).unwrap();
    socket
}

/// All connections of an endpoint can send a request at the same time.
#[tokio::test]
async fn the_receive_buffer_follows_the_number_of_connections() {
    let server = Endpoint::from_socket(with_small_buffer(), Some(server_config())).unwrap();
    let begun = server.receive_buffer();
    assert_eq!(begun.requested, begun.granted);
    let endpoint = endpoint();
    let mut connections = Vec::new();
    for _ in 0..9 {
        let near = connect(&endpoint, &server);
        let incoming = soon("the client", server.accept()).await.unwrap();
        let far = soon("the server's end", incoming.accept().unwrap()).await;
        let near = soon("the client's end", near).await;
        connections.push((near.unwrap(), far.unwrap()));
    }
    let grown = server.receive_buffer();
    assert_eq!(grown.requested, 16 * 4096);
    assert!(grown.granted > begun.granted, "{begun:?} {grown:?}");
    // It shrinks with their number.
    drop(connections);
    soon("a smaller buffer", async {
        while server.receive_buffer() != begun {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Forwards datagrams of one client in both directions, each after `delay`. Returns the address for
/// the client.
async fn delayed(server: std::net::SocketAddr, delay: Duration) -> std::net::SocketAddr {
    let bind = || tokio::net::UdpSocket::bind(loopback());
    let (near, far) = (bind().await.unwrap(), bind().await.unwrap());
    let (near, far) = (Arc::new(near), Arc::new(far));
    let address = near.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut up, mut down) = ([0; 2048], [0; 2048]);
        let mut client = None;
        loop {
            let (through, to, datagram) = tokio::select! {
                Ok((len, from)) = near.recv_from(&mut up) => {
                    client = Some(from);
                    (&far, server, up[..len].to_vec())
                }
                Ok((len, _)) = far.recv_from(&mut down) => {
                    (&near, client.unwrap(), down[..len].to_vec())
                }
            };
            let through = Arc::clone(through);
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                through.send_to(&datagram, to).await.unwrap();
            });
        }
    });
    address
}

/// A quarter of a round trip at 2.5 Gbit/s has room, also at a socket that replaces another.
#[tokio::test]
async fn the_receive_buffer_follows_the_round_trip_time() {
    let mut transport = transport();
    transport.max_mtu = Some(1200);
    let (endpoint, server) = (endpoint(), server());
    let address = delayed(server.local_address(), Duration::from_millis(20)).await;
    let connecting = endpoint.connect_with(client(transport), address, NAME);
    let incoming = soon("the client", server.accept()).await.unwrap();
    let far = soon("the server's end", incoming.accept().unwrap());
    let (near, far) = tokio::join!(connecting.unwrap(), far);
    let (near, far) = (near.unwrap(), far.unwrap());
    let is_grown = |end: &Connection| {
        let requested = end.receive_buffer().requested;
        assert!(requested < 6 << 20, "{requested} for a short round trip");
        requested >= 3 << 20
    };
    let mut moved = false;
    soon("larger buffers at both ends", async {
        while !moved || !is_grown(&near) {
            let mut stream = near.open_uni().await.unwrap();
            stream.write_all(&[7; 100_000]).await.unwrap();
            stream.finish().unwrap();
            let mut stream = far.accept_uni().await.unwrap();
            stream.read_to_end(100_000).await.unwrap();
            if !moved && is_grown(&near) && is_grown(&far) {
                moved = true;
                rebind(&endpoint);
                assert!(!is_grown(&near));
            }
        }
    })
    .await;
    // Once nobody needs it, it shrinks again, for the connections of others.
    let begun = server.receive_buffer().requested;
    near.close(0_u32.into(), b"");
    soon("both ends", async {
        tokio::join!(endpoint.wait_idle(), server.wait_idle())
    })
    .await;
    soon("a smaller buffer", async {
        while server.receive_buffer().requested >= begun {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A controller that panics ends its connection, and the peer immediately gets INTERNAL_ERROR.
#[tokio::test]
async fn the_peer_of_a_connection_that_panics_hears_of_it() {
    for defect in [Defect::Sending, Defect::Receiving] {
        let mut transport = transport();
        transport.max_idle_timeout = None;
        let endpoint = endpoint();
        let (near, far) = connected_from(&endpoint, transport).await;
        near.confirmed().await.unwrap();
        near.set_controller(boundless_but(Some(defect)));
        let mut stream = near.open_uni().await.unwrap();
        let _ = stream.write_all(&[7; 10_000]).await;
        let ours = soon("our end", near.closed()).await;
        assert_eq!(ours, ConnectionError::Panicked);
        match soon("the peer's end", far.closed()).await {
            ConnectionError::ConnectionClosed(error) => {
                assert_eq!(error.code, TransportErrorCode::INTERNAL_ERROR);
            }
            other => panic!("{other}"),
        }
        soon("wait_idle", endpoint.wait_idle()).await;
    }
}

/// Application error codes have 62 bits (RFC 9000 §20.2), so that those of WebTransport over HTTP/3
/// are passed unchanged.
#[tokio::test]
async fn codes_of_62_bits_reach_the_peer() {
    for number in [0, 0x52e4_a40f_a8db, VarInt::MAX.into_inner()] {
        let code = VarInt::try_from(number).unwrap();
        let endpoint = endpoint();
        let (near, far) = connected_from(&endpoint, transport()).await;
        let (mut send, mut recv) = near.open_bi().await.unwrap();
        send.write_all(b"begun").await.unwrap();
        let (theirs, mut asked) = far.accept_bi().await.unwrap();
        assert_eq!(asked.read_chunk().await.unwrap().unwrap(), "begun");
        send.reset(code).unwrap();
        assert_eq!(asked.read_chunk().await, Err(ReadError::Reset(number)));
        recv.stop(code).unwrap();
        assert_eq!(theirs.stopped().await, Ok(Some(number)));
        near.close(code, b"bye");
        let reason = Bytes::from_static(b"bye");
        let ended = ConnectionError::ApplicationClosed(ApplicationClose {
            error_code: code,
            reason,
        });
        assert_eq!(soon("the end", far.closed()).await, ended);
    }
    assert!(VarInt::try_from(1_u64 << 62).is_err());
}

/// In a single `select!`, a writer that waits for the peer's credit also learns that the peer has
/// stopped the stream. The future of the end outlives its part and resolves for all waiting tasks.
#[tokio::test]
async fn the_end_of_a_part_is_awaited_during_writes_and_after_it() {
    let mut transport = transport();
    transport.streams.initial_stream_window = 1000;
    transport.streams.max_window = 1000;
    let endpoint = endpoint();
    let (near, far) = connected_from(&endpoint, transport).await;
    let mut blocked = near.open_uni().await.unwrap();
    let stopped = blocked.stopped();
    let others: Vec<_> = (0..3).map(|_| tokio::spawn(blocked.stopped())).collect();
    let reading = async {
        let mut stream = far.accept_uni().await.unwrap();
        let mut read = 0;
        while read < 1000 {
            read += stream.read(&mut [0; 100]).await.unwrap().unwrap();
        }
        stream.stop(5_u32.into()).unwrap();
    };
    let writing = async {
        let data = vec![7; 1 << 20];
        tokio::select! {
            biased;
            stopped = stopped => stopped,
            written = async {
                // Until the stream is stopped, there is always something to write.
                while blocked.write_all(&data).await.is_ok() {}
                std::future::pending::<()>().await;
            } => panic!("{written:?}"),
        }
    };
    let (stopped, ()) = soon("both", async { tokio::join!(writing, reading) }).await;
    assert_eq!(stopped, Ok(Some(5)));
    for other in others {
        assert_eq!(soon("another", other).await.unwrap(), Ok(Some(5)));
    }
    drop(blocked);

    let mut finished = near.open_uni().await.unwrap();
    finished.write_all(b"all").await.unwrap();
    let stopped = finished.stopped();
    let given_up = finished.stopped();
    drop((finished, given_up));
    assert_eq!(soon("the end", stopped).await, Ok(None));
    assert!(near.shared().lock().senders.is_empty());
}
