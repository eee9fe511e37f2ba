//! Unusual wakers, unusual configurations, and temporary errors of the kernel.

use std::any::Any;
use std::future::poll_fn;
use std::net::{SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::io::Interest;

use super::shared::BATCH_BYTES;
use super::socket::{Outgoing, Sent, Socket};
use super::testing::*;
use super::*;
use pathmark_transport::connection::ConnectionError;

async fn connected() -> (Connection, Connection, Endpoint) {
    let server = server();
    let (near, far) = both(connect(&endpoint(), &server), &server).await;
    (near, far, server)
}

/// A task of a simple executor that no longer exists, so that no thread will run the task.
struct Waits {
    future: Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Wake for Waits {
    fn wake(self: Arc<Self>) {}
}

/// Polls `future` once, as a task that is only kept alive by the resource for which it waits.
fn leave_waiting(future: impl Future<Output = ()> + Send + 'static) {
    let task = Arc::new(Waits {
        future: Mutex::new(Box::pin(future)),
    });
    let waker = Waker::from(Arc::clone(&task));
    let mut future = task.future.lock().unwrap();
    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
}

/// A task's last waker may hold its only reference, so that its future is dropped as it is woken.
#[test]
fn a_task_may_end_as_it_is_woken() {
    ends("a connection is closed", async {
        let (near, far, _server) = connected().await;
        let waiting = near.clone();
        let stream = near.open_uni().await.unwrap();
        leave_waiting(async move {
            drop(waiting.accept_uni().await);
            drop(stream);
        });
        far.close(1_u32.into(), b"");
        near.closed().await;
    });
}

/// The same for tasks that wait at an endpoint for a client, for the endpoint's end, or for the end
/// of its last connection.
#[test]
fn a_task_that_waits_for_an_endpoint_may_end_as_it_is_woken() {
    let waiting_server = || {
        let server = server();
        let waiting = server.clone();
        leave_waiting(async move { drop(waiting.accept().await) });
        server
    };
    let incoming = async move {
        let server = waiting_server();
        both(connect(&endpoint(), &server), &server).await;
    };
    let closed = async move { waiting_server().close(0_u32.into(), b"") };
    let idle = async {
        let (near, far, server) = connected().await;
        let waiting = server.clone();
        let stream = far.open_uni().await.unwrap();
        leave_waiting(async move {
            waiting.wait_idle().await;
            drop(stream);
        });
        near.close(0_u32.into(), b"");
        far.closed().await;
        server.wait_idle().await;
    };
    ends("a client comes", incoming);
    ends("an endpoint is closed", closed);
    ends("a connection is over", idle);
}

/// A waker that owns a value, as a task's waker owns its future.
struct Holds(#[expect(dead_code, reason = "held until the waker goes")] Mutex<Box<dyn Any + Send>>);

impl Wake for Holds {
    fn wake(self: Arc<Self>) {}
}

/// Polls `future` with a waker that is the last owner of `held`, then replaces this waker or drops
/// the future.
fn forget_waker(held: impl Any + Send, future: impl Future, replaced: bool) {
    let mut future = Box::pin(future);
    let waker = Waker::from(Arc::new(Holds(Mutex::new(Box::new(held)))));
    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    drop(waker);
    if replaced {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut cx).is_pending());
    }
}

/// A waker may also be the last reference to a task when another waker replaces it or when the task
/// stops waiting. A stream or an endpoint is then dropped with it.
#[test]
fn a_task_may_end_as_its_waker_is_forgotten() {
    for replaced in [false, true] {
        ends("waits for a connection", async move {
            let (near, _far, _server) = connected().await;
            let held = near.open_uni().await.unwrap();
            forget_waker(held, near.closed(), replaced);
            let held = near.open_uni().await.unwrap();
            forget_waker(held, near.accept_uni(), replaced);
        });
        ends("waits for a stream", async move {
            let (near, _far, _server) = connected().await;
            let (send, mut recv) = near.open_bi().await.unwrap();
            let held = near.open_uni().await.unwrap();
            forget_waker(held, recv.read(&mut [0; 10]), replaced);
            let held = near.open_uni().await.unwrap();
            forget_waker(held, send.stopped(), replaced);
        });
        ends("waits for an endpoint", async move {
            let (_near, _far, server) = connected().await;
            forget_waker(server.clone(), server.accept(), replaced);
            forget_waker(server.clone(), server.wait_idle(), replaced);
        });
    }
}

fn ends(what: &str, test: impl Future<Output = ()> + Send + 'static) {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime(2).block_on(test);
        done.send(()).unwrap();
    });
    let limit = Duration::from_secs(10);
    assert!(is_done.recv_timeout(limit).is_ok(), "stands still: {what}");
}

/// If the configured MTU of a path is larger than the kernel accepts, less is tried. Loopback
/// interfaces carry packets of 65,536 bytes: this allows datagrams of 65,507 bytes over IPv4, but
/// not over IPv6.
#[tokio::test]
async fn what_the_kernel_refuses_as_too_long_leaves_as_less() {
    let loopback = [
        (65_000, "127.0.0.1:0"),
        (65_535, "127.0.0.1:0"),
        (65_535, "[::1]:0"),
    ];
    for (mtu, at) in loopback {
        let mut transport = transport();
        transport.initial_mtu = mtu;
        transport.max_idle_timeout = Some(Duration::from_secs(2));
        let server = Endpoint::server(server_config(), at.parse().unwrap()).unwrap();
        serve(&server);
        let endpoint = Endpoint::client(at.parse().unwrap()).unwrap();
        let connecting = connect_with(&endpoint, &server, client(transport));
        let ended = async {
            let near = connecting.await?;
            let mut stream = near.open_uni().await?;
            let _ = stream.write_all(&vec![7; 1_000_000]).await;
            let _ = stream.finish();
            match stream.stopped().await {
                Ok(_) => Ok(()),
                Err(_) => Err(near.closed().await),
            }
        };
        let ended = soon("the transfer", ended).await;
        assert!(ended.is_ok(), "{mtu}, {at}: {ended:?}");
    }
}

/// The kernel accepts the largest batch that a task builds, whatever the MTU.
#[tokio::test]
async fn the_kernel_takes_the_largest_batch() {
    let socket = Socket::new(UdpSocket::bind(loopback()).unwrap()).unwrap();
    let to = UdpSocket::bind(loopback()).unwrap();
    let mut refused = Vec::new();
    for mtu in 1200..=8972 {
        // This is how `poll_transmit` fills a buffer.
        let segments = socket.max_segments().min(BATCH_BYTES / mtu);
        let bytes = vec![0; segments * mtu];
        let message = sys::OutgoingMessage {
            to: to.local_addr().unwrap(),
            from: None,
            tos: 0,
            bytes: &bytes,
            segment: Some(mtu as u16),
        };
        if let Err(error) = sys::send(to.as_fd(), &message)
            && error.raw_os_error() == Some(libc::EMSGSIZE)
        {
            refused.push((mtu, segments));
        }
    }
    assert!(refused.is_empty(), "{refused:?}");
}

/// An error of an earlier datagram doesn't affect segmentation offload.
#[tokio::test]
async fn an_error_that_passes_switches_no_offload_off() {
    let [sending, open, closed] = [(); 3].map(|()| UdpSocket::bind(loopback()).unwrap());
    let unused = closed.local_addr().unwrap();
    drop(closed);
    // A connected socket keeps the ICMP error of an earlier datagram.
    sending.connect(unused).unwrap();
    let watching = sending.try_clone().unwrap();
    let socket = Socket::new(sending).unwrap();
    let watching = tokio::net::UdpSocket::from_std(watching).unwrap();
    let before = socket.max_segments();
    let bytes = [0; 2400];
    let mut waiter = socket.sender();
    let writable = poll_fn(|cx| socket.poll_writable(cx, &mut waiter));
    writable.await.unwrap();
    assert_eq!(socket.send(&outgoing(unused, &bytes[..1200])), Sent::Done);
    watching.ready(Interest::ERROR).await.unwrap();
    let sent = socket.send(&Outgoing {
        segment: 1200,
        ..outgoing(open.local_addr().unwrap(), &bytes)
    });
    assert_eq!((sent, socket.max_segments()), (Sent::Done, before));
}

/// If a controller's creation panics, the connection ends, even if nothing else happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_panics_as_it_is_made_ends_its_connection() {
    let mut transport = transport();
    transport.max_idle_timeout = None;
    let (near, _far) = connected_from(&endpoint(), transport).await;
    // The remaining work of the handshake would wake the connection's task, and the test would pass
    // without testing anything.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let other = near.clone();
    let waiting = tokio::spawn(async move { other.closed().await });
    let broken = near.clone();
    let made = std::thread::spawn(move || {
        type Made = Box<dyn pathmark_cc::Controller>;
        let factory = |_: pathmark_transport::Instant, _: u16| -> Made { panic!("no controller") };
        broken.set_controller(Arc::new(factory));
    });
    assert!(made.join().is_err());
    let ended = soon("the end", waiting).await.unwrap();
    assert_eq!(ended, ConnectionError::Panicked);
}

/// The flow label and the interface in an address don't belong to the peer (RFC 3493 §3.3).
#[tokio::test]
async fn an_address_with_a_flow_label_or_a_scope_connects() {
    let server = Endpoint::server(server_config(), "[::1]:0".parse().unwrap()).unwrap();
    serve(&server);
    let SocketAddr::V6(at) = server.local_address() else {
        unreachable!()
    };
    let mut wrong = Vec::new();
    for (flow, scope) in [(0, 0), (7, 0), (0, 1)] {
        let endpoint = Endpoint::client("[::]:0".parse().unwrap()).unwrap();
        let to = SocketAddrV6::new(*at.ip(), at.port(), flow, scope);
        let mut transport = transport();
        transport.handshake_timeout = Duration::from_secs(3);
        let connecting = endpoint.connect_with(client(transport), to.into(), NAME);
        if let Err(error) = connecting.unwrap().await {
            wrong.push((flow, scope, error));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A token that no connection has used remains available for the next one.
#[tokio::test]
async fn a_connection_that_cannot_begin_takes_no_token() {
    let mut config = server_config();
    config.max_connections(0);
    let endpoint = Endpoint::server(config, loopback()).unwrap();
    endpoint.set_token(NAME, bytes::Bytes::from_static(b"token"));
    let to = "127.0.0.1:9".parse().unwrap();
    let refused = endpoint.connect_with(client(transport()), to, NAME);
    assert!(refused.is_err());
    assert!(endpoint.take_token(NAME).is_some());
}
