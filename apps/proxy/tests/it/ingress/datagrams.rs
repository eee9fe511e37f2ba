//! Datagrams: forwards, and associations of SOCKS clients.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use pathmark_proxy::ingress::spec::Bind;
use pathmark_proxy::ingress::{Limits, Service, listen};
use pathmark_proxy::outbound::{Outbound, Refusal};
use pathmark_proxy::target::Target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::bed::{Bed, socks_address, until, within};
use super::direct::Direct;

/// A target that returns each datagram preceded by the sender's port.
async fn echo(address: &str) -> Target {
    let socket = UdpSocket::bind(address).await.unwrap();
    let target = socket.local_addr().unwrap().to_string().parse().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_527];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            let answer = match length {
                // There is no room for a port.
                60_000.. => buffer[..length].to_vec(),
                _ => [&from.port().to_be_bytes(), &buffer[..length]].concat(),
            };
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    target
}

fn forward(bed: &Bed<impl Outbound>, target: &Target) -> SocketAddr {
    let socket = listen::udp(&"127.0.0.1:0".parse::<Bind>().unwrap()).unwrap();
    let socket = socket.into_iter().next().unwrap();
    let address = socket.local_addr().unwrap();
    let (ingress, target) = (bed.ingress.clone(), target.clone());
    tokio::spawn(async move { ingress.serve_udp(socket, target).await });
    address
}

async fn client(to: SocketAddr) -> UdpSocket {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => "127.0.0.1:0".parse().unwrap(),
        SocketAddr::V6(_) => "[::1]:0".parse().unwrap(),
    };
    let client = UdpSocket::bind(any).await.unwrap();
    client.connect(to).await.unwrap();
    client
}

/// Sends a payload and returns the answer.
async fn ask(client: &UdpSocket, payload: &[u8]) -> Vec<u8> {
    client.send(payload).await.unwrap();
    let mut buffer = vec![0; 65_535];
    let length = within(client.recv(&mut buffer)).await.unwrap();
    buffer.truncate(length);
    buffer
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_has_a_flow_of_its_own() {
    let bed = Bed::new(Direct::default());
    let address = forward(&bed, &echo("127.0.0.1:0").await);
    let (first, second) = (client(address).await, client(address).await);
    let mut ports = Vec::new();
    for round in 0..50_u8 {
        first.send(&[b'a', round]).await.unwrap();
        second.send(&[b'b', round]).await.unwrap();
        for (client, name) in [(&first, b'a'), (&second, b'b')] {
            let mut got = [0; 8];
            assert_eq!(within(client.recv(&mut got)).await.unwrap(), 4);
            assert_eq!(got[2..4], [name, round]);
            ports.push([got[0], got[1]]);
        }
    }
    ports.sort_unstable();
    ports.dedup();
    assert_eq!((ports.len(), bed.ingress.counts().udp_flows), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_of_all_sizes_are_whole() {
    let bed = Bed::new(Direct::default());
    let target = echo("127.0.0.1:0").await;
    let forward = client(forward(&bed, &target)).await;
    let association = Association::new(&bed, "127.0.0.1").await;
    for size in [0, 1, 1_200, 1_472, 9_000, 59_000] {
        let payload: Vec<_> = (0..size).map(|at: usize| at as u8).collect();
        assert_eq!(ask(&forward, &payload).await[2..], payload, "{size}");
        let (from, got) = association.ask(&target, &payload).await;
        assert_eq!((from, &got[2..]), (target.clone(), &payload[..]), "{size}");
    }
    // The longest payload over IPv4.
    let payload = vec![1; 65_507];
    assert_eq!(ask(&forward, &payload).await, payload);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_ends_when_it_is_idle_and_begins_again() {
    let mut limits = Limits::default();
    (limits.udp_idle, limits.udp_flows) = (Duration::from_millis(20), 1);
    let bed = Bed::with_limits(Direct::default(), limits);
    let address = forward(&bed, &echo("127.0.0.1:0").await);
    let (first, second) = (client(address).await, client(address).await);
    assert_eq!(ask(&first, b"a").await[2..], *b"a");
    // The second flow has no room until the first has ended.
    let served = async {
        let mut got = [0; 8];
        loop {
            second.send(b"b").await.unwrap();
            let answer = tokio::time::timeout(Duration::from_millis(5), second.recv(&mut got));
            if let Ok(length) = answer.await {
                break assert_eq!(got[2..length.unwrap()], *b"b");
            }
        }
    };
    within(served).await;
    assert!(bed.ingress.counts().udp_flows >= 2);
}

/// When a flow exceeds the limit, the one that has been idle longest ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_flow_beyond_the_limit_ends_the_longest_idle_one() {
    let limits = Limits {
        udp_flows: 2,
        ..Limits::default()
    };
    let bed = Bed::with_limits(Direct::default(), limits);
    let address = forward(&bed, &echo("127.0.0.1:0").await);
    let (first, second) = (client(address).await, client(address).await);
    let third = client(address).await;
    assert_eq!(ask(&first, b"a").await[2..], *b"a");
    // This takes another millisecond, the unit of the flows' time.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let of_second = ask(&second, b"b").await;
    assert_eq!(ask(&third, b"c").await[2..], *b"c");
    // The second client's flow still has the same port at the target.
    assert_eq!(ask(&second, b"b").await, of_second);
    let counts = bed.ingress.counts();
    assert_eq!((counts.udp_flows, counts.dropped), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_flow_drops_its_datagrams() {
    let direct = Direct::default();
    let bed = Bed::new(direct.clone());
    let address = forward(&bed, &"missing.invalid:53".parse().unwrap());
    let client = client(address).await;
    for _ in 0..10 {
        client.send(b"a").await.unwrap();
    }
    until(|| bed.ingress.counts().dropped >= 10).await;
    assert_eq!((direct.asked().len(), bed.ingress.counts().refused), (1, 1));
}

/// The association of a SOCKS client.
struct Association {
    control: TcpStream,
    socket: UdpSocket,
}

impl Association {
    async fn new(bed: &Bed<impl Outbound>, ip: &str) -> Self {
        let target = Target::new(ip, 1).unwrap().to_string();
        let bind = target.trim_end_matches('1').to_owned() + "0";
        let listener = listen::tcp(&bind.parse().unwrap()).unwrap().remove(0);
        let address = listener.local_addr().unwrap();
        let ingress = bed.ingress.clone();
        tokio::spawn(async move { ingress.serve(listener, Service::Socks).await });
        let mut control = TcpStream::connect(address).await.unwrap();
        control.write_all(b"\x05\x01\0").await.unwrap();
        control.read_exact(&mut [0; 2]).await.unwrap();
        let request = b"\x05\x03\0\x01\0\0\0\0\0\0";
        control.write_all(request).await.unwrap();
        let mut head = [0; 4];
        within(control.read_exact(&mut head)).await.unwrap();
        assert_eq!(head[..3], [5, 0, 0]);
        let ip: IpAddr = match head[3] {
            1 => control.read_u32().await.unwrap().to_be_bytes().into(),
            _ => control.read_u128().await.unwrap().to_be_bytes().into(),
        };
        let relay = SocketAddr::new(ip, control.read_u16().await.unwrap());
        assert_eq!(relay.ip(), address.ip());
        Self {
            control,
            socket: client(relay).await,
        }
    }

    async fn ask(&self, target: &Target, payload: &[u8]) -> (Target, Vec<u8>) {
        let datagram = [&[0; 3], &socks_address(target)[..], payload].concat();
        let got = ask(&self.socket, &datagram).await;
        let (from, payload) = pathmark_proxy::ingress::socks::datagram(&got).unwrap();
        (from, payload.to_vec())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_association_reaches_targets_of_both_versions_from_clients_of_both() {
    let direct = Direct::with_names(&[("far.invalid", "127.0.0.1")]);
    let bed = Bed::new(direct.clone());
    let (v4, v6) = (echo("127.0.0.1:0").await, echo("[::1]:0").await);
    let named: Target = format!("far.invalid:{}", v4.port).parse().unwrap();
    for ip in ["127.0.0.1", "::1"] {
        let association = Association::new(&bed, ip).await;
        for target in [&v4, &v6, &named] {
            let (from, got) = association.ask(target, b"a").await;
            assert_eq!((&from, &got[2..]), (target, &b"a"[..]), "{ip}");
        }
    }
    assert!(direct.asked().contains(&named));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_association_is_its_clients_alone_and_ends_with_it() {
    let bed = Bed::new(Direct::default());
    let target = echo("127.0.0.1:0").await;
    let mut association = Association::new(&bed, "127.0.0.1").await;
    association.ask(&target, b"a").await;
    let stranger = client(association.socket.peer_addr().unwrap()).await;
    let datagram = [&[0; 3], &socks_address(&target)[..], b"b"].concat();
    stranger.send(&datagram).await.unwrap();
    for bad in [&b""[..], b"\0\0\x01\x01\x7f\0\0\x01\0\x50", b"\0\0\0\x09\0"] {
        association.socket.send(bad).await.unwrap();
    }
    association.ask(&target, b"c").await;
    let counts = bed.ingress.counts();
    assert_eq!((counts.udp_flows, counts.dropped), (1, 4));
    association.control.shutdown().await.unwrap();
    assert_eq!(within(association.control.read(&mut [0])).await.unwrap(), 0);
    // The socket is closed, so the kernel answers instead, and the next send returns this as an
    // error.
    let refused = async {
        loop {
            match association.socket.send(&datagram).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => return error.kind(),
            }
        }
    };
    assert_eq!(within(refused).await, std::io::ErrorKind::ConnectionRefused);
}

/// A flow that the proxy refuses remains for a second, but not the socket of its listener.
#[tokio::test(flavor = "multi_thread")]
async fn a_socket_closes_before_its_flows_have_ended() {
    let bed = Bed::new(Direct::refusing(Refusal::Busy));
    let target: Target = "127.0.0.1:9".parse().unwrap();
    let flows = async |flows| until(|| bed.ingress.counts().udp_flows >= flows).await;
    let mut association = Association::new(&bed, "127.0.0.1").await;
    let relay = association.socket.peer_addr().unwrap();
    let datagram = [&[0; 3], &socks_address(&target)[..], b"a"].concat();
    association.socket.send(&datagram).await.unwrap();
    flows(1).await;
    association.control.shutdown().await.unwrap();
    assert_eq!(within(association.control.read(&mut [0])).await.unwrap(), 0);
    UdpSocket::bind(relay).await.unwrap();

    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let ingress = bed.ingress.clone();
    let listener = tokio::spawn(async move { ingress.serve_udp(socket, target).await });
    client(address).await.send(b"a").await.unwrap();
    flows(2).await;
    listener.abort();
    assert!(listener.await.unwrap_err().is_cancelled());
    UdpSocket::bind(address).await.unwrap();
}
