//! A transparent listener on a gateway, with the rules that redirect packets to it.
//!
//! ```text
//!   inside ──── gateway ──── outside
//! ```

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use pathmark_proxy::ingress::transparent::rules::{OWN, Rules, Step};
use pathmark_proxy::ingress::{Ingress, Limits, Service, transparent};
use pathmark_proxy::outbound::Refusal;
use pathmark_testbed::Node;
use pathmark_testbed::subnet::{GATEWAY, INSIDE, OUTSIDE, OUTSIDE_TOO, Subnet};
use socket2::Socket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::bed::{failure, reset, until, within};
use super::direct::Direct;

const PORT: u16 = 12_345;
/// Addresses that no node has.
const NOWHERE: [&str; 2] = ["198.51.100.9", "2001:db8:9::9"];
/// The server of the tunnel, on the outside node.
const SERVER: [IpAddr; 2] = OUTSIDE_TOO;

struct Bed(Subnet);

impl std::ops::Deref for Bed {
    type Target = Subnet;

    fn deref(&self) -> &Subnet {
        &self.0
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

impl Bed {
    fn new() -> Self {
        Self(Subnet::new().unwrap())
    }

    fn run(&self, steps: &[Step]) {
        let script: String = steps.iter().map(|step| format!("{step}\n")).collect();
        self.gateway.script(&script).unwrap();
    }

    fn listen(&self, ingress: &Ingress<Direct>) -> Vec<tokio::task::JoinHandle<()>> {
        let loopback = ["127.0.0.1", "::1"].map(|text| SocketAddr::new(ip(text), PORT));
        let listeners = loopback.map(|address| {
            loop {
                let socket = Socket::from(socket(&self.gateway, address));
                match transparent::adopt(socket, address) {
                    // A process started by another test inherits the previous listener until its
                    // exec.
                    Err(error) if error.kind() == ErrorKind::AddrInUse => {
                        std::thread::yield_now();
                    }
                    adopted => break adopted.unwrap(),
                }
            }
        });
        let serve = |listener| {
            let ingress = ingress.clone();
            tokio::spawn(async move { ingress.serve(listener, Service::Transparent).await })
        };
        listeners.into_iter().map(serve).collect()
    }
}

fn socket(node: &Node, address: SocketAddr) -> std::os::fd::OwnedFd {
    let domain = match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    node.socket(domain, libc::SOCK_STREAM, 0).unwrap()
}

/// Connects from a node, with a mark if given.
async fn connect(node: &Node, to: SocketAddr, mark: Option<u32>) -> std::io::Result<TcpStream> {
    let socket = Socket::from(socket(node, to));
    socket.set_nonblocking(true).unwrap();
    if let Some(mark) = mark {
        socket.set_mark(mark).unwrap();
    }
    TcpSocket::from_std_stream(socket.into()).connect(to).await
}

fn listener(node: &Node, address: SocketAddr) -> TcpListener {
    let listener = node.tcp_listener(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    TcpListener::from_std(listener).unwrap()
}

fn rules() -> Rules {
    Rules {
        port: PORT,
        servers: SERVER.to_vec(),
        bypass: Vec::new(),
        from: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_of_the_gateway_and_of_a_subnet_take_the_tunnel() {
    let bed = Bed::new();
    let far = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let direct = Direct::to(far.local_addr().unwrap());
    let ingress = Ingress::new(direct.clone(), Limits::default());
    let _listeners = bed.listen(&ingress);
    // Twice, because existing rules are replaced.
    bed.run(&rules().apply(true));
    bed.run(&rules().apply(true));
    for (node, name) in [(&bed.inside, "inside"), (&bed.gateway, "gateway")] {
        for address in NOWHERE {
            let to = SocketAddr::new(ip(address), 80);
            let pair = async { tokio::join!(connect(node, to, None), far.accept()) };
            let (client, served) = within(pair).await;
            let (mut client, mut served) = (client.unwrap(), served.unwrap().0);
            assert_eq!(client.peer_addr().unwrap(), to);
            client.write_all(b"request").await.unwrap();
            client.shutdown().await.unwrap();
            let mut got = String::new();
            within(served.read_to_string(&mut got)).await.unwrap();
            assert_eq!(got, "request", "{name} {to}");
            served.write_all(b"answer").await.unwrap();
            let mut got = [0; 6];
            within(client.read_exact(&mut got)).await.unwrap();
            assert_eq!(&got, b"answer", "{name} {to}");
            reset(served);
            let ended = failure(&mut client).await;
            assert_eq!(ended, ErrorKind::ConnectionReset, "{name} {to}");
            let asked = direct.asked().last().unwrap().to_string();
            assert_eq!(asked, to.to_string(), "{name}");
        }
    }
}

/// The connection already exists when the proxy refuses the flow, so a reset is the only possible
/// answer.
#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_is_a_reset_and_a_reset_reaches_the_target() {
    let bed = Bed::new();
    bed.run(&rules().apply(true));
    for refusal in [
        Refusal::Refused,
        Refusal::Proxy("it was stopped".to_owned()),
    ] {
        let ingress = Ingress::new(Direct::refusing(refusal.clone()), Limits::default());
        let listeners = bed.listen(&ingress);
        for address in NOWHERE {
            let to = SocketAddr::new(ip(address), 80);
            let refused = async { connect(&bed.inside, to, None).await?.read_u8().await };
            let error = within(refused).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{refusal} {to}");
        }
        for listener in listeners {
            listener.abort();
            assert!(listener.await.is_err());
        }
    }
    let far = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let direct = Direct::to(far.local_addr().unwrap());
    let ingress = Ingress::new(direct, Limits::default());
    let _listeners = bed.listen(&ingress);
    for address in NOWHERE {
        let to = SocketAddr::new(ip(address), 80);
        let pair = async { tokio::join!(connect(&bed.inside, to, None), far.accept()) };
        let (client, served) = within(pair).await;
        let (mut client, mut served) = (client.unwrap(), served.unwrap().0);
        client.write_u8(1).await.unwrap();
        assert_eq!(within(served.read_u8()).await.unwrap(), 1, "{to}");
        reset(client);
        let ended = failure(served).await;
        assert_eq!(ended, ErrorKind::ConnectionReset, "{to}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exempt_goes_directly() {
    let bed = Bed::new();
    let direct = Direct::default();
    let ingress = Ingress::new(direct.clone(), Limits::default());
    let _listeners = bed.listen(&ingress);
    bed.run(&rules().apply(true));
    for at in 0..2 {
        let server = listener(&bed.outside, SocketAddr::new(SERVER[at], 443));
        let outside = listener(&bed.outside, SocketAddr::new(OUTSIDE[at], 80));
        let private = listener(&bed.inside, SocketAddr::new(INSIDE[at], 80));
        let service = listener(&bed.gateway, SocketAddr::new(GATEWAY[at], 22));
        for (what, node, listener, mark) in [
            ("the tunnel's server", &bed.gateway, &server, None),
            ("the server, from inside", &bed.inside, &server, None),
            ("the tunnel's own mark", &bed.gateway, &outside, Some(OWN)),
            ("a private network", &bed.gateway, &private, None),
            ("a service of the gateway", &bed.outside, &service, None),
        ] {
            let to = listener.local_addr().unwrap();
            let pair = async { tokio::join!(connect(node, to, mark), listener.accept()) };
            let (client, served) = within(pair).await;
            let (mut client, mut served) = (client.expect(what), served.unwrap().0);
            served.write_all(b"a").await.unwrap();
            assert_eq!(within(client.read_u8()).await.unwrap(), b'a', "{what}");
        }
    }
    assert_eq!(direct.asked(), []);
}

/// While no ingress is listening, nothing passes directly, but without the rules everything does.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_passes_a_tunnel_that_is_down() {
    let bed = Bed::new();
    bed.run(&rules().apply(true));
    for (node, name, own) in [
        (&bed.inside, "inside", INSIDE),
        (&bed.gateway, "gateway", GATEWAY),
    ] {
        for address in OUTSIDE {
            let outside = listener(&bed.outside, SocketAddr::new(address, 80));
            let to = outside.local_addr().unwrap();
            let mut attempt = tokio::spawn({
                let node = node.clone();
                async move { connect(&node, to, None).await }
            });
            // The SYN has been dropped or has arrived.
            tokio::select! {
                _ = outside.accept() => panic!("{name} has reached {to}"),
                ended = &mut attempt => panic!("{name} has an answer of {to}: {ended:?}"),
                () = until(|| drops(&bed.gateway) > 0) => {}
            }
            attempt.abort();
            bed.run(&rules().apply(true));
            let [v4, v6] = own;
            let own = if to.is_ipv4() { v4 } else { v6 };
            let target = bed.outside.udp(to).unwrap();
            let client = node.udp(SocketAddr::new(own, 0)).unwrap();
            client.send_to(b"datagram", to).unwrap();
            until(|| drops(&bed.gateway) > 0).await;
            target.set_nonblocking(true).unwrap();
            let got = target.recv(&mut [0; 9]).unwrap_err();
            assert_eq!(got.kind(), ErrorKind::WouldBlock, "{name} {to}");
            bed.run(&rules().apply(true));
        }
    }
    bed.run(&Rules::undo(true));
    bed.run(&Rules::undo(true));
    let outside = listener(&bed.outside, SocketAddr::new(OUTSIDE[0], 80));
    let to = outside.local_addr().unwrap();
    let pair = async { tokio::join!(connect(&bed.inside, to, None), outside.accept()) };
    assert!(within(pair).await.0.is_ok());
}

/// Returns the packets that the rules have dropped.
fn drops(node: &Node) -> u64 {
    let text = node.script("nft list table inet pathmark_tunnel").unwrap();
    let (_, count) = text.split_once("counter packets ").unwrap();
    count.split(' ').next().unwrap().parse().unwrap()
}

/// A client that connects to the listener itself would start a flow that returns to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_is_no_target_of_its_own() {
    let bed = Bed::new();
    let direct = Direct::default();
    let ingress = Ingress::new(direct.clone(), Limits::default());
    let _listeners = bed.listen(&ingress);
    for address in ["127.0.0.1", "::1"] {
        let to = SocketAddr::new(ip(address), PORT);
        let mut client = within(connect(&bed.gateway, to, None)).await.unwrap();
        assert!(!matches!(within(client.read(&mut [0])).await, Ok(1)));
    }
    let counted = (direct.asked().len(), ingress.counts().bad_requests);
    assert_eq!(counted, (0, 2));
}
