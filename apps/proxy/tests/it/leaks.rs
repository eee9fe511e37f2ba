//! Many flows, which must leave nothing behind.

use bytes::Bytes;
use pathmark_proxy::ingress::Service;
use pathmark_proxy::outbound::{Datagrams, Outbound};
use pathmark_testbed::own_process;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::runtime::Runtime;

use crate::ingress::bed::Bed;
use crate::support::{Served, access, bounded, listener, loopback, reset, target, until};

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
    let bed = Bed::new(tunnel.clone());
    let (listener, to) = listener().await;
    let echo = UdpSocket::bind(loopback()).await.unwrap();
    let datagrams = target(echo.local_addr().unwrap());
    let address = bed.listen(Service::Forward(to));
    let mut before = 0;
    for round in 0..600 {
        let pair = async { tokio::try_join!(TcpStream::connect(address), listener.accept()) };
        let (mut client, (mut far, _)) = bounded(pair).await.unwrap();
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
                reset(far);
                assert!(client.read_u8().await.is_err());
            }
            _ => {
                reset(client);
                assert!(far.read_u8().await.is_err());
            }
        }
        let flow = tunnel.udp(&datagrams).await.unwrap();
        flow.send(Bytes::from_static(b"a")).await.unwrap();
        echo.recv_from(&mut [0]).await.unwrap();
        drop(flow);
        if round == 99 || round == 599 {
            until(|| served.proxy.flows() == 0 && bed.ingress.flows().count() == (0, 0)).await;
            match round {
                99 => before = open(),
                _ => assert!(open() <= before, "{before} descriptors, then {}", open()),
            }
        }
    }
    assert_eq!(bed.ingress.counts().ended, 600);
}
