//! Many flows, which must leave nothing behind.

use std::time::Duration;

use bytes::Bytes;
use pathmark_proxy::ingress::{Ingress, Limits, Service, listen};
use pathmark_proxy::outbound::{Datagrams, Outbound};
use pathmark_proxy::target::Target;
use pathmark_testbed::own_process;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Runtime;

use crate::support::{Served, access};

/// Returns the number of open descriptors of this process.
fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// No matter how flows end, they leave no descriptor, place or entry behind.
#[test]
fn many_flows_leave_nothing() {
    own_process("leaks::many_flows_leave_nothing", || {
        Runtime::new().unwrap().block_on(flows_that_end());
    });
}

async fn flows_that_end() {
    let served = Served::new(access(&["a"]));
    let tunnel = served.tunnel("a");
    let ingress = Ingress::new(tunnel.clone(), Limits::default());
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to: Target = target.local_addr().unwrap().to_string().parse().unwrap();
    let echo = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let datagrams: Target = echo.local_addr().unwrap().to_string().parse().unwrap();
    let bind = "127.0.0.1:0".parse().unwrap();
    let listener = listen::tcp(&bind).unwrap().remove(0);
    let address = listener.local_addr().unwrap();
    let serving = ingress.clone();
    let service = Service::Forward(to);
    tokio::spawn(async move { serving.serve(listener, service).await });
    let mut before = 0;
    for round in 0..600 {
        let pair = async { tokio::join!(TcpStream::connect(address), target.accept()) };
        let pair = tokio::time::timeout(Duration::from_secs(30), pair).await;
        let (client, far) = pair.unwrap();
        let (mut client, mut far) = (client.unwrap(), far.unwrap().0);
        match round % 3 {
            0 => {
                client.write_all(b"a").await.unwrap();
                client.shutdown().await.unwrap();
                let mut got = Vec::new();
                far.read_to_end(&mut got).await.unwrap();
                drop(far);
                assert_eq!(client.read_to_end(&mut got).await.unwrap(), 0);
            }
            1 => {
                SockRef::from(&far)
                    .set_linger(Some(Duration::ZERO))
                    .unwrap();
                drop(far);
                assert!(client.read_u8().await.is_err());
            }
            _ => {
                SockRef::from(&client)
                    .set_linger(Some(Duration::ZERO))
                    .unwrap();
                drop(client);
                assert!(far.read_u8().await.is_err());
            }
        }
        let flow = tunnel.udp(&datagrams).await.unwrap();
        flow.send(Bytes::from_static(b"a")).await.unwrap();
        echo.recv_from(&mut [0]).await.unwrap();
        drop(flow);
        if round == 99 || round == 599 {
            let ended = async {
                while served.proxy.flows() > 0 || ingress.flows().count() != (0, 0) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), ended)
                .await
                .unwrap();
            match round {
                99 => before = open(),
                _ => assert!(open() <= before, "{before} descriptors, then {}", open()),
            }
        }
    }
    assert_eq!(ingress.counts().ended, 600);
}
