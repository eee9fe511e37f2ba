//! Configures interfaces, addresses and routes of one namespace through a routing netlink socket.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroI32;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::netdevice::name_to_index;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::sys::{self, Enter, Operation};

/// How long to wait for an IPv6 address. On a busy machine, the kernel's work queues, which also
/// remove namespaces that have ended, can be seconds behind.
const READY_WITHIN: Duration = Duration::from_secs(30);

fn family(prefix: &IpNet) -> AddressFamily {
    match prefix {
        IpNet::V4(_) => AddressFamily::Inet,
        IpNet::V6(_) => AddressFamily::Inet6,
    }
}

/// A routing netlink socket that was opened inside a namespace.
pub(crate) struct Netlink {
    socket: OwnedFd,
    /// An ordinary socket of the same namespace, for looking up interface indices.
    lookup: OwnedFd,
    sequence: u32,
}

impl Netlink {
    pub(crate) fn open(enter: Enter<'_>) -> io::Result<Self> {
        let open = |domain, kind, protocol| {
            let operation = Operation::Socket {
                domain,
                kind,
                protocol,
            };
            sys::run(Some(enter), &operation)?
                .ok_or_else(|| io::Error::other("the kernel passed no socket"))
        };
        Ok(Self {
            socket: open(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?,
            lookup: open(libc::AF_INET, libc::SOCK_DGRAM, 0)?,
            sequence: 0,
        })
    }

    pub(crate) fn set_up(&mut self, interface: &str) -> io::Result<()> {
        let mut link = self.link(interface)?;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    pub(crate) fn set_mtu(&mut self, interface: &str, mtu: u32) -> io::Result<()> {
        let mut link = self.link(interface)?;
        link.attributes.push(LinkAttribute::Mtu(mtu));
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    pub(crate) fn add_veth(
        &mut self,
        name: &str,
        peer_name: &str,
        peer_namespace: BorrowedFd<'_>,
        mtu: u32,
    ) -> io::Result<()> {
        let mut peer = LinkMessage::default();
        peer.attributes = vec![
            LinkAttribute::IfName(peer_name.to_owned()),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::NetNsFd(peer_namespace.as_raw_fd()),
        ];
        let mut link = LinkMessage::default();
        link.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
        ];
        self.create(RouteNetlinkMessage::NewLink(link))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "what the kernel does is waited for in real time"
    )]
    pub(crate) fn add_address(&mut self, interface: &str, address: IpNet) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(&address);
        message.header.prefix_len = address.prefix_len();
        message.header.flags = AddressHeaderFlags::Nodad;
        message.header.scope = AddressScope::Universe;
        message.header.index = self.index(interface)?;
        message.attributes = vec![
            AddressAttribute::Local(address.addr()),
            AddressAttribute::Address(address.addr()),
        ];
        let index = message.header.index;
        self.create(RouteNetlinkMessage::NewAddress(message))?;
        // The kernel prepares an IPv6 address in a work queue, and only routes packets to it at the
        // end of this. Until then they are lost.
        if address.addr().is_ipv4() {
            return Ok(());
        }
        let asked = Instant::now();
        while asked.elapsed() < READY_WITHIN {
            if !self.is_tentative(index, address.addr())? && self.is_local(address.addr())? {
                return Ok(());
            }
            std::thread::yield_now();
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the kernel does not ready the address: is the interface up?",
        ))
    }

    /// Returns true if packets to this IPv6 address are accepted in this namespace.
    fn is_local(&mut self, address: IpAddr) -> io::Result<bool> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet6;
        let destination = RouteAttribute::Destination(address.into());
        let mut local = false;
        self.dump(RouteNetlinkMessage::GetRoute(message), |answer| {
            if let RouteNetlinkMessage::NewRoute(found) = answer {
                local |= found.header.kind == RouteType::Local
                    && found.attributes.contains(&destination);
            }
        })?;
        Ok(local)
    }

    fn is_tentative(&mut self, index: u32, address: IpAddr) -> io::Result<bool> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet6;
        let mut tentative = false;
        self.dump(RouteNetlinkMessage::GetAddress(message), |answer| {
            if let RouteNetlinkMessage::NewAddress(found) = answer
                && found.header.index == index
                && found
                    .attributes
                    .contains(&AddressAttribute::Address(address))
            {
                tentative |= found.header.flags.contains(AddressHeaderFlags::Tentative);
            }
        })?;
        Ok(tentative)
    }

    pub(crate) fn add_route(
        &mut self,
        destination: IpNet,
        interface: &str,
        gateway: Option<IpAddr>,
    ) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(&destination);
        message.header.destination_prefix_length = destination.prefix_len();
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.kind = RouteType::Unicast;
        message.header.scope = gateway.map_or(RouteScope::Link, |_| RouteScope::Universe);
        message.attributes = vec![
            RouteAttribute::Destination(destination.addr().into()),
            RouteAttribute::Oif(self.index(interface)?),
        ];
        let gateway = gateway.map(|gateway| RouteAttribute::Gateway(gateway.into()));
        message.attributes.extend(gateway);
        self.create(RouteNetlinkMessage::NewRoute(message))
    }

    fn link(&self, interface: &str) -> io::Result<LinkMessage> {
        let mut link = LinkMessage::default();
        link.header.index = self.index(interface)?;
        Ok(link)
    }

    fn index(&self, interface: &str) -> io::Result<u32> {
        Ok(name_to_index(&self.lookup, interface)?)
    }

    fn dump(
        &mut self,
        message: RouteNetlinkMessage,
        on_answer: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.transact(message, NLM_F_DUMP, on_answer)
    }

    fn create(&mut self, message: RouteNetlinkMessage) -> io::Result<()> {
        self.request(message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Sends one request and waits for the kernel's acknowledgement.
    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.transact(message, NLM_F_ACK | flags, |_| ())
    }

    /// Sends one request and calls `on_answer` for each answer until the kernel reports the end.
    fn transact(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        mut on_answer: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut buffer = vec![0; request.buffer_len()];
        request.serialize(&mut buffer);
        send(&self.socket, &buffer, SendFlags::empty())?;
        let mut received = vec![0; 32 * 1024];
        loop {
            let (got, _) = recv(&self.socket, &mut received[..], RecvFlags::empty())?;
            let mut rest = received.get(..got).unwrap_or(&[]);
            while !rest.is_empty() {
                let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| io::Error::other(error.to_string()))?;
                // Messages are padded to four bytes.
                let length = (answer.header.length as usize).next_multiple_of(4);
                rest = rest.get(length.max(4)..).unwrap_or(&[]);
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) => {
                        let failed = |code: NonZeroI32| io::Error::from_raw_os_error(-code.get());
                        return error.code.map_or(Ok(()), |code| Err(failed(code)));
                    }
                    NetlinkPayload::InnerMessage(answer) => on_answer(answer),
                    _ => {}
                }
            }
        }
    }
}
