//! A transparent listener on a gateway, with the rules that bring packets to it.
//!
//! ```text
//!   inside ──── gateway ──── outside
//! ```

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

use pathmark_proxy::ingress::transparent::rules::{OWN, Rules, Step};
use pathmark_proxy::ingress::{Ingress, Limits, Service, transparent};
use pathmark_proxy::outbound::Refusal;
use pathmark_testbed::{IpNet, Node, Testbed};
use socket2::Socket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::bed::{reset, within};
use crate::direct::Direct;

const PORT: u16 = 12_345;
/// Addresses of the node outside, and one that no node has.
const OUTSIDE: [&str; 2] = ["203.0.113.2", "2001:db8:2::2"];
const NOWHERE: [&str; 2] = ["198.51.100.9", "2001:db8:9::9"];
/// The server of the tunnel, on the node outside.
const SERVER: [&str; 2] = ["203.0.113.3", "2001:db8:2::3"];

struct Bed {
    inside: Node,
    gateway: Node,
    outside: Node,
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

impl Bed {
    fn new() -> Self {
        let bed = Testbed::new().unwrap();
        let [inside, gateway, outside] =
            ["inside", "gateway", "outside"].map(|name| bed.node(name).unwrap());
        bed.veth((&inside, "a"), (&gateway, "b"), 1500).unwrap();
        bed.veth((&gateway, "c"), (&outside, "d"), 1500).unwrap();
        for (node, interface, addresses) in [
            (&inside, "a", &["192.168.7.2/24", "fd00:7::2/64"][..]),
            (&gateway, "b", &["192.168.7.1/24", "fd00:7::1/64"]),
            (&gateway, "c", &["203.0.113.1/24", "2001:db8:2::1/64"]),
            (&outside, "d", &["203.0.113.2/24", "2001:db8:2::2/64"]),
            (&outside, "d", &["203.0.113.3/24", "2001:db8:2::3/64"]),
        ] {
            for address in addresses {
                node.add_address(interface, net(address)).unwrap();
            }
        }
        for (node, interface, routers) in [
            (&inside, "a", ["192.168.7.1", "fd00:7::1"]),
            (&gateway, "c", OUTSIDE),
            (&outside, "d", ["203.0.113.1", "2001:db8:2::1"]),
        ] {
            let [v4, v6] = routers.map(|router| Some(ip(router)));
            node.add_route(net("0.0.0.0/0"), interface, v4).unwrap();
            node.add_route(net("::/0"), interface, v6).unwrap();
        }
        gateway.forward().unwrap();
        Self {
            inside,
            gateway,
            outside,
        }
    }

    fn run(&self, steps: &[Step]) {
        let script: String = steps.iter().map(|step| format!("{step}\n")).collect();
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &script]).stdin(Stdio::null());
        let status = self.gateway.spawn(shell, &[]).unwrap().wait().unwrap();
        assert!(status.success(), "{script}");
    }

    fn listen(&self, ingress: &Ingress<Direct>) -> Vec<tokio::task::JoinHandle<()>> {
        let loopback = ["127.0.0.1", "::1"].map(|text| SocketAddr::new(ip(text), PORT));
        let listeners = loopback.map(|address| {
            let socket = Socket::from(socket(&self.gateway, address));
            transparent::adopt(socket, address).unwrap()
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

/// Connects from a node, with a mark if it is to have one.
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
        servers: SERVER.map(ip).to_vec(),
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
    // Twice: what is there is replaced.
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
            let error = within(client.read_u8()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{name} {to}");
            let asked = direct.asked().last().unwrap().to_string();
            assert_eq!(asked, to.to_string(), "{name}");
        }
    }
}

/// The connection exists when the proxy refuses the flow: a reset is what is left to say.
#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_is_a_reset_and_a_reset_reaches_the_target() {
    let bed = Bed::new();
    bed.run(&rules().apply(true));
    for refusal in [
        Refusal::Refused,
        Refusal::TimedOut,
        Refusal::Unreachable,
        Refusal::Denied,
        Refusal::Busy,
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
        reset(client.unwrap());
        let error = within(served.unwrap().0.read_u8()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{to}");
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
        let server = listener(&bed.outside, SocketAddr::new(ip(SERVER[at]), 443));
        let outside = listener(&bed.outside, SocketAddr::new(ip(OUTSIDE[at]), 80));
        let inside = ["192.168.7.2", "fd00:7::2"][at];
        let private = listener(&bed.inside, SocketAddr::new(ip(inside), 80));
        let own = ["203.0.113.1", "2001:db8:2::1"][at];
        let service = listener(&bed.gateway, SocketAddr::new(ip(own), 22));
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

/// While no ingress listens nothing goes directly; without the rules all does.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_passes_a_tunnel_that_is_down() {
    let bed = Bed::new();
    bed.run(&rules().apply(true));
    for (node, name) in [(&bed.inside, "inside"), (&bed.gateway, "gateway")] {
        for address in OUTSIDE {
            let outside = listener(&bed.outside, SocketAddr::new(ip(address), 80));
            let to = outside.local_addr().unwrap();
            let mut attempt = tokio::spawn({
                let node = node.clone();
                async move { connect(&node, to, None).await }
            });
            // The SYN has been dropped, or has arrived.
            let dropped = async {
                while drops(&bed.gateway) == 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            };
            tokio::select! {
                _ = outside.accept() => panic!("{name} has reached {to}"),
                ended = &mut attempt => panic!("{name} has an answer of {to}: {ended:?}"),
                () = within(dropped) => {}
            }
            attempt.abort();
            bed.run(&rules().apply(true));
            let own = match (name, to.is_ipv4()) {
                ("inside", true) => "192.168.7.2",
                ("inside", false) => "fd00:7::2",
                (_, true) => "203.0.113.1",
                (_, false) => "2001:db8:2::1",
            };
            let target = bed.outside.udp(to).unwrap();
            let client = node.udp(SocketAddr::new(ip(own), 0)).unwrap();
            client.send_to(b"datagram", to).unwrap();
            within(async {
                while drops(&bed.gateway) == 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            })
            .await;
            target.set_nonblocking(true).unwrap();
            let got = target.recv(&mut [0; 9]).unwrap_err();
            assert_eq!(got.kind(), ErrorKind::WouldBlock, "{name} {to}");
            bed.run(&rules().apply(true));
        }
    }
    bed.run(&Rules::undo(true));
    bed.run(&Rules::undo(true));
    let outside = listener(&bed.outside, SocketAddr::new(ip(OUTSIDE[0]), 80));
    let to = outside.local_addr().unwrap();
    let pair = async { tokio::join!(connect(&bed.inside, to, None), outside.accept()) };
    assert!(within(pair).await.0.is_ok());
}

/// Packets that the rules have dropped.
fn drops(node: &Node) -> u64 {
    let mut nft = Command::new("nft");
    nft.args(["list", "table", "inet", "pathmark_tunnel"]);
    nft.stdout(Stdio::piped());
    let mut nft = node.spawn(nft, &[]).unwrap();
    let mut text = String::new();
    let mut stdout = nft.child().stdout.take().unwrap();
    std::io::Read::read_to_string(&mut stdout, &mut text).unwrap();
    nft.wait().unwrap();
    let (_, count) = text.split_once("counter packets ").unwrap();
    count.split(' ').next().unwrap().parse().unwrap()
}

/// A client that names the listener itself would begin a flow that comes back to it.
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
    assert_eq!(
        (direct.asked().len(), ingress.counts().bad_requests),
        (0, 2)
    );
}
