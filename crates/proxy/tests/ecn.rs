//! The ECN field of UDP flows, from one end to the other.

mod support;

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::cmsg_space;
use nix::sys::socket::sockopt::{IpRecvTos, Ipv4Tos, Ipv6RecvTClass, Ipv6TClass};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};
use pathmark_proxy::ingress::spec::Bind;
use pathmark_proxy::ingress::{Ingress, Limits, listen};
use support::{Served, access, target};
use tokio::runtime::Runtime;

/// Not-ECT, ECT(1), ECT(0), CE.
const FIELDS: [u8; 4] = [0, 1, 2, 3];

/// A socket that learns the field of what it receives.
struct Marked(UdpSocket);

impl Marked {
    fn new(address: &str) -> Self {
        let socket = UdpSocket::bind(address).unwrap();
        let time = Some(Duration::from_secs(30));
        socket.set_read_timeout(time).unwrap();
        match socket.local_addr().unwrap() {
            SocketAddr::V4(_) => setsockopt(&socket, IpRecvTos, &true).unwrap(),
            SocketAddr::V6(_) => setsockopt(&socket, Ipv6RecvTClass, &true).unwrap(),
        }
        Self(socket)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn send(&self, payload: &[u8], to: SocketAddr, ecn: u8) {
        match to {
            SocketAddr::V4(_) => setsockopt(&self.0, Ipv4Tos, &ecn.into()).unwrap(),
            SocketAddr::V6(_) => setsockopt(&self.0, Ipv6TClass, &ecn.into()).unwrap(),
        }
        self.0.send_to(payload, to).unwrap();
    }

    fn receive(&self) -> (Vec<u8>, SocketAddr, u8) {
        let (mut buffer, mut control) = ([0; 2000], cmsg_space!(i32));
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let (fd, flags) = (self.0.as_raw_fd(), MsgFlags::empty());
        let received = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control), flags);
        let received = received.unwrap();
        let ecn = received.cmsgs().unwrap().map(|message| match message {
            ControlMessageOwned::Ipv4Tos(tos) => tos,
            ControlMessageOwned::Ipv6TClass(class) => class as u8,
            other => panic!("{other:?}"),
        });
        let ecn = ecn.last().unwrap();
        let from = received.address.unwrap();
        let v4 = from.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
        let v6 = || SocketAddr::V6((*from.as_sockaddr_in6().unwrap()).into());
        let length = received.bytes;
        (buffer[..length].to_vec(), v4.unwrap_or_else(v6), ecn)
    }
}

/// Both directions, over both IP versions, in datagrams and in capsules.
#[test]
fn each_field_arrives_as_it_was_sent() {
    let runtime = Runtime::new().unwrap();
    let _entered = runtime.enter();
    let served = Served::new(access(&["a"]));
    let ingress = Ingress::new(served.tunnel("a"), Limits::default());
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (client, far) = (Marked::new(address), Marked::new(address));
        let bind: Bind = address.parse().unwrap();
        let listener = listen::udp(&bind).unwrap().remove(0);
        let forward = listener.local_addr().unwrap();
        let (serving, to) = (ingress.clone(), target(far.address()));
        tokio::spawn(async move { serving.serve_udp(listener, to).await });
        for length in [3, 1_900] {
            for (up, down) in FIELDS.iter().flat_map(|up| FIELDS.map(|down| (*up, down))) {
                client.send(&vec![up; length], forward, up);
                let (payload, from, ecn) = far.receive();
                assert_eq!((payload, ecn), (vec![up; length], up), "{address}");
                far.send(&vec![down; length], from, down);
                let (payload, _, ecn) = client.receive();
                assert_eq!((payload, ecn), (vec![down; length], down), "{address}");
            }
        }
    }
}
