//! TCP flows through a proxy to real targets.

use std::io::ErrorKind;
use std::time::Duration;

use pathmark_proxy::ingress::{EARLY, Limits, Service};
use pathmark_proxy::outbound::{Abort, Outbound, Refusal};
use pathmark_proxy::server::Times;
use pathmark_proxy::tunnel::TunnelTimes;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ingress::bed::Bed;
use crate::support::{
    Served, access, echo, failure, listener, loopback, reset, run, target, until, with_target,
};

#[test]
fn bytes_arrive_both_ways_and_half_close_is_kept() {
    with_target(async |served, tunnel, listener, to| {
        tokio::spawn(echo(listener));
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
    });
}

#[test]
fn a_reset_of_the_target_after_the_clients_end_is_one_for_the_client() {
    with_target(async |_served, tunnel, listener, to| {
        // The client has ended its direction and reads nothing.
        let (mut read, mut write) = tunnel.tcp(&to).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        write.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
        reset(stream);
        assert_eq!(failure(&mut read).await, ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_target_that_resets_at_once_opens_a_flow_that_is_reset() {
    with_target(async |_served, tunnel, listener, to| {
        tokio::spawn(async move {
            loop {
                reset(listener.accept().await.unwrap().0);
            }
        });
        for _ in 0..20 {
            match tunnel.tcp(&to).await {
                Ok((mut read, _write)) => {
                    assert_eq!(failure(&mut read).await, ErrorKind::ConnectionReset);
                }
                Err(refusal) => assert_eq!(refusal, Refusal::Refused),
            }
        }
    });
}

#[test]
fn a_reset_of_the_client_is_one_for_the_target() {
    with_target(async |_served, tunnel, listener, to| {
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
            let ended = failure(&mut stream).await;
            assert_eq!(ended, ErrorKind::ConnectionReset, "{direction}");
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
    });
}

#[test]
fn a_tunnel_that_ends_resets_its_targets() {
    with_target(async |_served, tunnel, listener, to| {
        let flow = tunnel.tcp(&to).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        drop((flow, tunnel));
        assert_eq!(failure(&mut stream).await, ErrorKind::ConnectionReset);
    });
}

/// A client leaves once everything that it has sent is acknowledged. A target that has ended its
/// own direction and reads slowly still receives the rest, followed by the end.
#[test]
fn what_a_client_has_ended_arrives_after_its_connection_is_over() {
    with_target(async |served, tunnel, listener, to| {
        SockRef::from(&listener).set_recv_buffer_size(4096).unwrap();
        let sent = vec![7; 4 << 20];
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
        connection.close(0x100_u32.into(), b"done");
        drop((tunnel, connection));
        // The proxy knows.
        let is_over = || {
            let connections = served.proxy.connections();
            connections.iter().all(|one| one.close_reason().is_some())
        };
        until(is_over).await;
        let up = served.proxy.counts().bytes_up;
        assert!(up < 3 * (4 << 20), "nothing waits");
        for mut target in targets {
            let mut received = Vec::new();
            target.read_to_end(&mut received).await.unwrap();
            assert!(received == sent, "{} bytes", received.len());
        }
        until(|| served.proxy.flows() == 0).await;
        assert_eq!(served.proxy.counts().tcp_resets, 0);
    });
}

#[test]
fn refusals_have_their_reason() {
    run(async {
        let times = Times {
            connect: Duration::from_millis(500),
            ..Times::default()
        };
        let served = Served::with(access(&["a"]), times);
        let tunnel = served.tunnel("a");
        let refused = async |text: &str| {
            let flow = tunnel.tcp(&text.parse().unwrap()).await;
            flow.map(drop).unwrap_err()
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
    });
}

#[test]
fn a_tunnel_connects_again_and_new_flows_wait_for_it() {
    run(async {
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
    });
}

#[test]
fn without_a_proxy_a_flow_fails_within_its_time() {
    run(async {
        let mut served = Served::new(access(&["a"]));
        served.stop().await;
        let times = TunnelTimes {
            wait: Duration::from_millis(300),
            ..TunnelTimes::default()
        };
        let tunnel = served.tunnel_with("a", times);
        let refused = tunnel.tcp(&"127.0.0.1:9".parse().unwrap()).await;
        assert!(matches!(refused.map(drop), Err(Refusal::Proxy(_))));
    });
}

/// Both ends report that a flow waits for a target that reads nothing.
#[test]
fn a_target_that_reads_nothing_is_waited_for() {
    with_target(async |served, tunnel, listener, to| {
        let bed = Bed::new(tunnel);
        let forward = bed.listen(Service::Forward(to));
        let mut client = TcpStream::connect(forward).await.unwrap();
        let (_target, _) = listener.accept().await.unwrap();
        let views = || [bed.ingress.flows().view(), served.proxy.open_flows().view()];
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
    });
}

/// Early bytes arrive once, before all others. If the flow is refused, they are lost with a reset.
#[test]
fn early_bytes_follow_the_request() {
    with_target(async |_served, tunnel, listener, to| {
        let limits = Limits {
            early: EARLY,
            ..Limits::default()
        };
        let forwarded = Bed::with_limits(tunnel, limits).listen(Service::Forward(to));
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
    });
}
