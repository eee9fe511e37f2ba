//! TCP flows through a proxy to real targets.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use pathmark_proxy::ingress::{EARLY, Ingress, Limits, Service};
use pathmark_proxy::outbound::{Abort, Outbound, Refusal};
use pathmark_proxy::server::Times;
use pathmark_proxy::target::Target;
use pathmark_proxy::tunnel::{Tunnel, TunnelTimes};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Served, access, bounded, echo, listener, loopback, target};

/// Makes dropping the stream send RST.
fn reset(stream: TcpStream) {
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_arrive_both_ways_and_half_close_is_kept() {
    bounded(async {
        let served = Served::new(access(&["a"]));
        let (listener, to) = listener().await;
        tokio::spawn(echo(listener));
        let tunnel = served.tunnel("a");
        let (mut read, mut write) = tunnel.tcp(&to).await.unwrap();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
        let writing = async {
            write.write_all(&sent).await.unwrap();
            write.shutdown().await.unwrap();
        };
        let mut received = Vec::new();
        let (read, ()) = tokio::join!(read.read_to_end(&mut received), writing);
        assert_eq!(read.unwrap(), sent.len());
        assert!(received == sent);
        let counts = served.proxy.counts();
        assert_eq!((counts.tcp_flows, counts.tcp_resets), (1, 0));
        assert_eq!(counts.bytes_up, 3_000_000);
        assert_eq!(counts.bytes_down, 3_000_000);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_side_may_end_first() {
    bounded(async {
        let served = Served::new(access(&["a"]));
        let (listener, to) = listener().await;
        let tunnel = served.tunnel("a");
        let (mut read, mut write) = tunnel.tcp(&to).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        // The target ends its direction, and still receives.
        stream.write_all(b"bye").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut received = Vec::new();
        read.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"bye");
        write.write_all(b"late").await.unwrap();
        let mut late = [0; 4];
        stream.read_exact(&mut late).await.unwrap();
        assert_eq!(&late, b"late");
        // The client ends its direction.
        write.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut late).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_of_the_target_is_one_for_the_client() {
    bounded(async {
        let served = Served::new(access(&["a"]));
        let (listener, to) = listener().await;
        let tunnel = served.tunnel("a");
        let (mut read, _write) = tunnel.tcp(&to).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"x").await.unwrap();
        assert_eq!(read.read_u8().await.unwrap(), b'x');
        reset(stream);
        let error = read.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        // The same after the client has ended its direction and reads nothing.
        let (mut read, mut write) = tunnel.tcp(&to).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        write.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
        reset(stream);
        let error = read.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_resets_at_once_opens_a_flow_that_is_reset() {
    bounded(async {
        let served = Served::new(access(&["a"]));
        let (listener, to) = listener().await;
        let tunnel = served.tunnel("a");
        tokio::spawn(async move {
            loop {
                reset(listener.accept().await.unwrap().0);
            }
        });
        for _ in 0..20 {
            match tunnel.tcp(&to).await {
                Ok((mut read, _write)) => {
                    let error = read.read_u8().await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                }
                Err(refusal) => assert_eq!(refusal, Refusal::Refused),
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_of_the_client_is_one_for_the_target() {
    bounded(async {
        let served = Served::new(access(&["a"]));
        let (listener, to) = listener().await;
        let tunnel = served.tunnel("a");
        // One direction at a time, because TCP has a single reset for both.
        for direction in 0..2 {
            let (mut read, mut write) = tunnel.tcp(&to).await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            write.write_all(b"x").await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), b'x');
            match direction {
                0 => write.abort(),
                _ => read.abort(),
            }
            let error = stream.read_u8().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{direction}");
        }
        // A target that doesn't read gets the reset, too.
        let (_read, mut write) = tunnel.tcp(&to).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let fill = async {
            loop {
                write.write_all(&[0; 65536]).await.unwrap();
            }
        };
        let filled = tokio::time::timeout(Duration::from_secs(1), fill).await;
        assert!(filled.is_err());
        write.abort();
        let ready = stream.ready(tokio::io::Interest::ERROR).await.unwrap();
        assert!(ready.is_error());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_ends_resets_its_targets() {
    bounded(async {
        let served = Served::new(access(&["a"]));
        let (listener, to) = listener().await;
        let tunnel = served.tunnel("a");
        let flow = tunnel.tcp(&to).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        drop((flow, tunnel));
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    })
    .await;
}

/// A client leaves once everything that it has sent is acknowledged. A target that has ended its
/// own direction and reads slowly still receives the rest, followed by the end.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_has_ended_arrives_after_its_connection_is_over() {
    bounded(async {
        let served = Served::new(access(&["a"]));
        let (listener, to) = listener().await;
        SockRef::from(&listener).set_recv_buffer_size(4096).unwrap();
        let (tunnel, sent) = (served.tunnel("a"), vec![7; 4 << 20]);
        // Several targets, which end at the same time.
        let mut targets = Vec::new();
        let mut flows = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let (mut read, mut write) = tunnel.tcp(&to).await.unwrap();
            let (mut target, _) = listener.accept().await.unwrap();
            target.shutdown().await.unwrap();
            targets.push(target);
            let sent = sent.clone();
            flows.spawn(async move {
                assert_eq!(read.read(&mut [0; 1]).await.unwrap(), 0);
                write.write_all(&sent).await.unwrap();
                write.shutdown().await.unwrap();
            });
        }
        flows.join_all().await;
        let connection = tunnel.connection().unwrap();
        connection.close(0x100_u32, b"done");
        drop((tunnel, connection));
        // The proxy knows.
        let is_over = |served: &Served| {
            let connections = served.proxy.connections();
            connections.iter().all(|one| one.close_reason().is_some())
        };
        while !is_over(&served) {
            tokio::task::yield_now().await;
        }
        assert!(
            served.proxy.counts().bytes_up < 3 * (4 << 20),
            "nothing waits"
        );
        for mut target in targets {
            let mut received = Vec::new();
            target.read_to_end(&mut received).await.unwrap();
            assert!(received == sent, "{} bytes", received.len());
        }
        while served.proxy.flows() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(served.proxy.counts().tcp_resets, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_their_reason() {
    bounded(async {
        let times = Times {
            connect: Duration::from_millis(500),
            ..Times::default()
        };
        let served = Served::with(access(&["a"]), times);
        let tunnel = served.tunnel("a");
        let refused = |text: &'static str| {
            let tunnel = tunnel.clone();
            async move {
                tunnel
                    .tcp(&text.parse().unwrap())
                    .await
                    .map(drop)
                    .unwrap_err()
            }
        };
        let closed = {
            let (_listener, to) = listener().await;
            to
        };
        assert_eq!(tunnel.tcp(&closed).await.map(drop), Err(Refusal::Refused));
        for text in ["10.0.0.1:80", "169.254.169.254:80", "[::ffff:10.0.0.1]:80"] {
            assert_eq!(refused(text).await, Refusal::Denied, "{text}");
        }
        assert_eq!(refused("127.0.0.66:80").await, Refusal::Denied);
        assert_eq!(refused("no-such-host.invalid:80").await, Refusal::Name);
        // Its queue of connections is full, so the kernel drops further SYNs.
        let silent =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        silent.bind(&loopback().into()).unwrap();
        silent.listen(0).unwrap();
        let address = silent.local_addr().unwrap().as_socket().unwrap();
        let _first = TcpStream::connect(address).await.unwrap();
        let full = tunnel.tcp(&target(address)).await.map(drop);
        assert_eq!(full, Err(Refusal::TimedOut));
        let counts = served.proxy.counts();
        assert_eq!((counts.denied, counts.unresolved), (4, 1));
        assert_eq!(counts.unreached, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_flow_of_many_that_is_killed_leaves_the_others() {
    bounded(async {
        let served = Served::new(access(&["a"]));
        let (listener, to) = listener().await;
        tokio::spawn(echo(listener));
        let tunnel = served.tunnel("a");
        let mut flows = tokio::task::JoinSet::new();
        for number in 0..50_u8 {
            let (tunnel, to) = (tunnel.clone(), to.clone());
            flows.spawn(async move {
                let (mut read, mut write) = tunnel.tcp(&to).await.unwrap();
                let data = vec![number; 200_000];
                if number == 25 {
                    write.write_all(&data[..50_000]).await.unwrap();
                    write.abort();
                    read.abort();
                    return;
                }
                let writing = async {
                    write.write_all(&data).await.unwrap();
                    write.shutdown().await.unwrap();
                };
                let mut back = Vec::new();
                let (read, ()) = tokio::join!(read.read_to_end(&mut back), writing);
                read.unwrap();
                assert!(back == data, "{number}");
            });
        }
        while let Some(ended) = flows.join_next().await {
            ended.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_connects_again_and_new_flows_wait_for_it() {
    bounded(async {
        let mut served = Served::new(access(&["a"]));
        let (listener, to) = listener().await;
        tokio::spawn(echo(listener));
        let times = TunnelTimes {
            wait: Duration::from_secs(20),
            ..TunnelTimes::default()
        };
        let tunnel = served.tunnel_with("a", times);
        let (mut read, _write) = tunnel.tcp(&to).await.unwrap();
        served.stop().await;
        assert!(read.read_u8().await.is_err());
        let waiting = tokio::spawn({
            let (tunnel, to) = (tunnel.clone(), to.clone());
            async move { tunnel.tcp(&to).await }
        });
        served.again();
        let (mut read, mut write) = waiting.await.unwrap().unwrap();
        write.write_all(b"x").await.unwrap();
        assert_eq!(read.read_u8().await.unwrap(), b'x');
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_proxy_a_flow_fails_within_its_time() {
    bounded(async {
        let mut served = Served::new(access(&["a"]));
        served.stop().await;
        let times = TunnelTimes {
            wait: Duration::from_millis(300),
            ..TunnelTimes::default()
        };
        let tunnel = served.tunnel_with("a", times);
        let refused = tunnel.tcp(&"127.0.0.1:9".parse().unwrap()).await;
        assert!(matches!(refused.map(drop), Err(Refusal::Proxy(_))));
    })
    .await;
}

/// Creates a forward to a target, and returns its address.
fn forward(ingress: &Ingress<Tunnel>, to: Target) -> SocketAddr {
    let listener = std::net::TcpListener::bind(loopback()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let address = listener.local_addr().unwrap();
    let ingress = ingress.clone();
    tokio::spawn(async move { ingress.serve(listener, Service::Forward(to)).await });
    address
}

/// Both ends report that a flow waits for a target that reads nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_reads_nothing_is_waited_for() {
    bounded(async {
        let served = Served::new(access(&["a"]));
        let ingress = Ingress::new(served.tunnel("a"), Limits::default());
        let (listener, to) = listener().await;
        let forward = forward(&ingress, to);
        let mut client = TcpStream::connect(forward).await.unwrap();
        let (_target, _) = listener.accept().await.unwrap();
        let views = || [ingress.flows().view(), served.proxy.open_flows().view()];
        let zeros = vec![0; 1 << 16];
        let writing = async { while client.write_all(&zeros).await.is_ok() {} };
        let looking = async {
            loop {
                // No event reports that a report of the last second changes.
                tokio::time::sleep(Duration::from_millis(10)).await;
                let all = views().map(|flows| flows.into_iter().next().unwrap());
                if all.iter().all(|flow| flow.bounded_by.up == Some("target")) {
                    return all.map(|flow| flow.bounded_by.path_report.unwrap());
                }
            }
        };
        let [tunnel, proxy] = tokio::select! {
            () = writing => panic!("the flow has ended: {:?}", views()),
            found = looking => found,
        };
        assert!(tunnel.up.target > 0.5 && proxy.up.target > 0.5);
        assert!(tunnel.down.path > 0.5 && proxy.down.target > 0.5);
    })
    .await;
}

/// Early bytes arrive once, before all others. If the flow is refused, they are lost with a reset.
#[tokio::test(flavor = "multi_thread")]
async fn early_bytes_follow_the_request() {
    bounded(async {
        let served = Served::new(access(&["a"]));
        let limits = Limits {
            early: EARLY,
            ..Limits::default()
        };
        let ingress = Ingress::new(served.tunnel("a"), limits);
        let (listener, to) = listener().await;
        let forwarded = forward(&ingress, to);
        for length in [0, 1, EARLY, EARLY + 1, 1 << 20] {
            let sent: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut client = TcpStream::connect(forwarded).await.unwrap();
            let sending = async {
                client.write_all(&sent).await.unwrap();
                client.shutdown().await.unwrap();
            };
            let receiving = async {
                let (mut target, _) = listener.accept().await.unwrap();
                let mut got = Vec::new();
                target.read_to_end(&mut got).await.unwrap();
                got
            };
            let ((), got) = tokio::join!(sending, receiving);
            assert!(got == sent, "{length}");
        }
        drop(listener);
        // Each step may encounter the reset.
        let refused = async {
            let mut client = TcpStream::connect(forwarded).await?;
            client.write_all(b"early").await?;
            client.read(&mut [0]).await
        };
        let ended = refused.await.unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
    })
    .await;
}
