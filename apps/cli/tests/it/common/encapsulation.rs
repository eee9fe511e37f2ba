//! Tunnels between two nodes: IP in IP by threads of the test, and VXLAN by the kernel.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use pathmark_testbed::{IpNet, Node};
use socket2::{SockAddr, Socket};

const OUTER_HEADER: usize = 20;
/// IP in IP (RFC 2003).
const IP_IN_IP: i32 = 4;
/// Protocol number of UDP.
const UDP: u8 = 17;
const VNET_HEADER: usize = 10;

/// UDP datagrams that entered a tunnel, counted by their differentiated services code point.
pub(crate) type CodePoints = [AtomicU64; 64];

/// How the gateway at the far end treats the outer ECN field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It replaces the inner field.
    Copy,
    /// RFC 6040 §4.2: only the more severe of the outer and inner marks survives, and ECT(0) counts
    /// as less than ECT(1).
    Rfc6040,
    /// All packets leave with this field: 0 simulates a hop that bleaches it.
    Always(u8),
}

impl Exit {
    /// Returns the ECN field that arrives, or `None` if the packet must be dropped.
    fn ecn(self, outer: u8, inner: u8) -> Option<u8> {
        match (self, outer, inner) {
            (Self::Copy, _, _) => Some(outer),
            (Self::Always(ecn), _, _) => Some(ecn),
            (Self::Rfc6040, 3, 0) => None,
            (Self::Rfc6040, 3, _) => Some(3),
            (Self::Rfc6040, 1, 2) => Some(1),
            (Self::Rfc6040, _, _) => Some(inner),
        }
    }
}

/// Computes the checksum of RFC 1071.
fn ip_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let words = header
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    header[10..12].copy_from_slice(&(!folded as u16).to_be_bytes());
}

fn octets(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => unreachable!("the test's own addresses"),
    }
}

/// Returns `inner` behind an outer header with the same traffic class.
fn encapsulate(inner: &[u8], from: IpAddr, to: IpAddr) -> Vec<u8> {
    let total = u16::try_from(OUTER_HEADER + inner.len()).unwrap();
    let mut outer = vec![0x45, inner[1]];
    outer.extend(total.to_be_bytes());
    outer.extend([0, 0, 0x40, 0, 64, IP_IN_IP as u8, 0, 0]);
    outer.extend(octets(from));
    outer.extend(octets(to));
    ip_checksum(&mut outer);
    outer.extend(inner);
    outer
}

/// Returns the inner packet preceded by a vnet header, or `None` if it must be dropped.
fn decapsulate(outer: &[u8], exit: Exit) -> Option<Vec<u8>> {
    let inner = outer.get(OUTER_HEADER..)?;
    let mut packet = vec![0; VNET_HEADER];
    packet.extend(inner);
    let header = packet.get_mut(VNET_HEADER..VNET_HEADER + 20)?;
    let ecn = exit.ecn(outer[1] & 3, header[1] & 3)?;
    header[1] = outer[1] & !3 | ecn;
    ip_checksum(header);
    Some(packet)
}

/// Creates one end of the tunnel, for inner packets of at most `mtu` bytes: an interface and a raw
/// socket of `node`. Its threads live as long as the process.
pub(crate) fn gateway(
    node: &Node,
    own: (IpAddr, IpAddr),
    peer: (IpAddr, IpAddr),
    mtu: u32,
    exit: Exit,
    seen: &Arc<CodePoints>,
) {
    let seen = Arc::clone(seen);
    let ((inner, outer), (inner_peer, outer_peer)) = (own, peer);
    let tun = node.tun("tun9", mtu).unwrap();
    node.add_address("tun9", IpNet::from(inner)).unwrap();
    node.add_route(IpNet::from(inner_peer), "tun9", None)
        .unwrap();
    let raw = |protocol| {
        let fd = node.socket(nix::libc::AF_INET, nix::libc::SOCK_RAW, protocol);
        Socket::from(fd.unwrap())
    };
    let (sending, mut arriving) = (raw(nix::libc::IPPROTO_RAW), raw(IP_IN_IP));
    // This sets a flag of the descriptor, which needn't be a socket.
    let descriptor = Socket::from(tun.fd);
    descriptor.set_nonblocking(false).unwrap();
    let mut from_host = File::from(OwnedFd::from(descriptor));
    let mut to_host = from_host.try_clone().unwrap();
    let to = SockAddr::from(SocketAddr::new(outer_peer, 0));
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok(len) = from_host.read(&mut buffer) {
            let packet = buffer.get(VNET_HEADER..len).unwrap_or(&[]);
            // Packets other than IPv4 are the kernel's own neighbour discovery.
            if packet.first().is_some_and(|byte| byte >> 4 == 4) {
                if packet.get(9) == Some(&UDP) {
                    seen[usize::from(packet[1] >> 2)].fetch_add(1, Ordering::Relaxed);
                }
                // Packets for which the interface has no room are lost.
                let _ = sending.send_to(&encapsulate(packet, outer, outer_peer), &to);
            }
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok(len) = arriving.read(&mut buffer) {
            if let Some(packet) = decapsulate(&buffer[..len], exit) {
                let _ = to_host.write(&packet);
            }
        }
    });
}

/// Creates one end of the kernel's VXLAN.
pub(crate) fn kernel_gateway(
    node: &Node,
    (inner, outer): (IpAddr, IpAddr),
    peer: IpAddr,
    mtu: u32,
) {
    let link = format!(
        "link add tun9 mtu {mtu} type vxlan id 9 local {outer} remote {peer} dstport 4789 \
         tos inherit"
    );
    for arguments in [
        link,
        format!("address add {inner}/24 dev tun9"),
        "link set tun9 up".into(),
    ] {
        let mut ip = Command::new("ip");
        ip.args(arguments.split(' '));
        let status = node.spawn(ip, &[]).unwrap().wait().unwrap();
        assert!(status.success(), "ip {arguments}: {status}");
    }
}
