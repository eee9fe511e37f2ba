//! A UDP socket that sends batches, by segmentation offload (GSO) or, if this is refused, segment
//! by segment. [`ReceiveBatch`] is for the other direction.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};

use quinn_udp::{UdpSockRef, UdpSocketState};
use socket2::SockRef;
use tokio::io::Interest;

mod errors;

use super::arrivals::Batch;
#[cfg(target_os = "linux")]
use super::error_queue::ErrorQueue;
use super::own_socket::{Datagram, DatagramSocket};
use super::receive_buffer::{ReceiveBuffer, Requested};
#[cfg(target_os = "linux")]
use super::sys;
use super::waiters::{Waiter, Waiters};
use errors::{is_of_one_peer, is_too_long, is_unsupported};
use pathmark_transport::Ecn;

/// How a socket sends and receives.
#[derive(Debug)]
enum Io {
    /// A non-blocking UDP socket of the system.
    System {
        io: tokio::net::UdpSocket,
        state: UdpSocketState,
    },
    /// A socket that the application provides.
    Own(Arc<dyn DatagramSocket>),
}

#[derive(Debug)]
pub(super) struct Socket {
    io: Io,
    receive_buffer: Requested,
    local: SocketAddr,
    /// An IPv6 socket that also sends and receives IPv4 packets.
    both_versions: bool,
    /// Messages whose control messages were cut off, at this socket and those that it replaced.
    cut_off: Arc<AtomicU64>,
    /// Largest number of segments per send: 1 once segmentation offload was refused.
    segments: AtomicUsize,
    /// Tasks that wait for room to send.
    senders: Arc<Waiters>,
    /// Wakes all these tasks, because the runtime only keeps one waker per direction.
    wakes_senders: Waker,
    #[cfg(target_os = "linux")]
    errors: ErrorQueue,
}

/// The result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The kernel has accepted it.
    Done,
    /// The kernel has refused it for this reason. It counts as lost.
    Failed(io::ErrorKind),
    /// The kernel's buffer is full: call again after [`Socket::poll_writable`].
    Full,
    /// The datagram is too large for the interface.
    TooLong,
}

/// One or more datagrams of the same size for the same address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) to: SocketAddr,
    pub(super) from: Option<IpAddr>,
    pub(super) ecn: Ecn,
    /// Differentiated services code point (RFC 2474), below 64.
    pub(super) dscp: u8,
    pub(super) bytes: &'a [u8],
    /// Bytes of each datagram except for the last, which may be shorter.
    pub(super) segment: usize,
}

impl Socket {
    pub(super) fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        // [9000 14 no-fragments]
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        #[cfg(target_os = "linux")]
        sys::prepare(&socket)?;
        let receive_buffer = Requested::new(&state, UdpSockRef::from(&socket))?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let both_versions = local.is_ipv6() && !SockRef::from(&socket).only_v6()?;
        let segments = state.max_gso_segments();
        let io = tokio::net::UdpSocket::from_std(socket)?;
        let mut made = Self::by(Io::System { io, state }, local, segments);
        made.receive_buffer = receive_buffer;
        made.both_versions = both_versions;
        Ok(made)
    }

    /// Creates a socket from one that the application provides.
    pub(super) fn own(socket: Arc<dyn DatagramSocket>) -> Self {
        let local = socket.local_address();
        Self::by(Io::Own(socket), local, 1)
    }

    fn by(io: Io, local: SocketAddr, segments: usize) -> Self {
        let senders = Arc::new(Waiters::default());
        Self {
            io,
            segments: AtomicUsize::new(segments),
            receive_buffer: Requested::default(),
            local,
            both_versions: false,
            cut_off: Arc::default(),
            wakes_senders: Waker::from(Arc::clone(&senders)),
            senders,
            #[cfg(target_os = "linux")]
            errors: ErrorQueue::default(),
        }
    }

    /// Returns true if datagrams from here use the system's interfaces.
    pub(super) fn is_of_system(&self) -> bool {
        matches!(self.io, Io::System { .. })
    }

    /// Creates the buffers for a batch of arriving datagrams.
    pub(super) fn batch(&self) -> Batch {
        match self.io {
            Io::System { .. } => Batch::of_system(),
            Io::Own(_) => Batch::own(),
        }
    }

    /// Continues the counter of `former`, the socket that this one replaces.
    pub(super) fn succeed(&mut self, former: &Self) {
        self.cut_off = Arc::clone(&former.cut_off);
    }

    pub(super) fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Returns `address` in the form in which this socket sends to it: an IPv6 socket for both
    /// versions sends to IPv4-mapped addresses, and an IPv4 socket never does. Returns `None` if
    /// the socket can't reach this address.
    pub(super) fn reaches(&self, address: SocketAddr) -> Option<SocketAddr> {
        let port = address.port();
        let remote = match (address.ip().to_canonical(), self.local) {
            (IpAddr::V4(to), SocketAddr::V6(_)) if self.sends_ipv4() => {
                SocketAddr::new(to.to_ipv6_mapped().into(), port)
            }
            (IpAddr::V4(to), SocketAddr::V4(_)) => SocketAddr::new(to.into(), port),
            // This is how the kernel reports the source of arriving datagrams: without a flow
            // label, and with a scope if the address is link-local.
            (IpAddr::V6(to), SocketAddr::V6(local)) if local.ip().to_ipv4_mapped().is_none() => {
                let scope = match address {
                    SocketAddr::V6(v6) if to.is_unicast_link_local() => v6.scope_id(),
                    _ => 0,
                };
                SocketAddrV6::new(to, port, 0, scope).into()
            }
            _ => return None,
        };
        (port != 0).then_some(remote)
    }

    /// Returns true for a socket that can send IPv4 packets. An IPv6 socket can do so if it is
    /// bound to the unspecified address of both versions or to an IPv4-mapped address.
    fn sends_ipv4(&self) -> bool {
        match self.local.ip() {
            IpAddr::V4(_) => true,
            IpAddr::V6(local) => {
                local.to_ipv4_mapped().is_some() || (self.both_versions && local.is_unspecified())
            }
        }
    }

    /// Returns the size of the receive buffer, which is 0 if the application provides the socket.
    pub(super) fn receive_buffer(&self) -> ReceiveBuffer {
        let of_system = match &self.io {
            Io::System { io, state } => self.receive_buffer.compare(state, UdpSockRef::from(io)),
            Io::Own(_) => Err(io::ErrorKind::Unsupported.into()),
        };
        of_system.unwrap_or_default()
    }

    /// Makes sure that this much can arrive while nothing is read.
    pub(super) fn grow_receive_buffer(&self, bytes: usize) {
        if let Io::System { io, state } = &self.io {
            let socket = || UdpSockRef::from(io);
            self.receive_buffer.grow(state, socket, bytes);
        }
    }

    /// Returns the size requested for the receive buffer in bytes.
    pub(super) fn requested_receive_buffer(&self) -> usize {
        self.receive_buffer.size()
    }

    /// Requests this much for the receive buffer, or its size at the beginning if that is more.
    pub(super) fn shrink_receive_buffer(&self, bytes: usize) {
        if let Io::System { io, state } = &self.io {
            self.receive_buffer
                .shrink(state, UdpSockRef::from(io), bytes);
        }
    }

    /// Returns how many messages so far had their control messages cut off.
    pub(super) fn cut_off(&self) -> u64 {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// Returns the largest number of segments per send.
    pub(super) fn max_segments(&self) -> usize {
        self.segments.load(Ordering::Relaxed)
    }

    /// Sends everything, or nothing if the kernel's buffer is full.
    pub(super) fn send(&self, outgoing: &Outgoing<'_>) -> Sent {
        let batched = outgoing.bytes.len() > outgoing.segment;
        match self.try_send(outgoing, outgoing.bytes, batched) {
            Ok(()) => Sent::Done,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Full,
            Err(error) if batched => {
                let sent = self.send_one_by_one(outgoing);
                if sent == Sent::Done && is_unsupported(&error) {
                    // The kernel doesn't support segmentation offload.
                    self.segments.store(1, Ordering::Relaxed);
                }
                sent
            }
            // The next call reports ICMP errors of earlier datagrams, perhaps to other peers, once.
            Err(error) if is_of_one_peer(&error) && !is_too_long(&error) => {
                match self.try_send(outgoing, outgoing.bytes, false) {
                    Ok(()) => Sent::Done,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Full,
                    Err(error) => not_sent(outgoing, &error),
                }
            }
            Err(error) => not_sent(outgoing, &error),
        }
    }

    /// Sends without segmentation offload. If one segment is too long, returns [`Sent::TooLong`].
    fn send_one_by_one(&self, outgoing: &Outgoing<'_>) -> Sent {
        let mut sent = Sent::Done;
        for segment in outgoing.bytes.chunks(outgoing.segment.max(1)) {
            if let Err(error) = self.try_send(outgoing, segment, false)
                && sent != Sent::TooLong
            {
                sent = not_sent(outgoing, &error);
            }
        }
        sent
    }

    fn try_send(&self, outgoing: &Outgoing<'_>, bytes: &[u8], batched: bool) -> io::Result<()> {
        match &self.io {
            Io::System { io, state } => send_by_system(io, state, outgoing, bytes, batched),
            Io::Own(socket) => socket.try_send(&Datagram {
                to: outgoing.to,
                from: outgoing.from,
                ecn: outgoing.ecn,
                dscp: outgoing.dscp,
                bytes,
            }),
        }
    }

    /// Returns a place among the tasks that wait for room to send.
    pub(super) fn sender(&self) -> Waiter {
        Waiter::new(&self.senders)
    }

    /// Waits until there may be room to send. `sender` is a place at this socket.
    pub(super) fn poll_writable(
        &self,
        cx: &Context<'_>,
        sender: &mut Waiter,
    ) -> Poll<io::Result<()>> {
        // Registering first makes sure that a wake-up between these two lines isn't lost.
        sender.wait(cx);
        let room = ready!(self.poll_room(&mut Context::from_waker(&self.wakes_senders)));
        sender.leave();
        Poll::Ready(room)
    }

    #[cfg(target_os = "linux")]
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let fresh = self.errors.poll_room(cx);
        fresh.unwrap_or_else(|| self.poll_own_room(cx))
    }

    #[cfg(not(target_os = "linux"))]
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_own_room(cx)
    }

    /// Waits for room by the socket's own registration at the runtime.
    fn poll_own_room(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.io {
            Io::System { io, .. } => io.poll_send_ready(cx),
            Io::Own(socket) => socket.poll_writable(cx),
        }
    }

    /// Wakes all tasks that wait for room, so that they check again.
    #[cfg(target_os = "linux")]
    pub(super) fn wake_senders(&self) {
        self.wakes_senders.wake_by_ref();
    }

    /// Returns true if ICMP errors have arrived since the error queue was switched on.
    pub(super) fn has_icmp_errors(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.errors.lock().has_reported;
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    #[cfg(target_os = "linux")]
    pub(super) fn errors(&self) -> &ErrorQueue {
        &self.errors
    }

    /// Returns the system's socket.
    ///
    /// # Errors
    /// If the application provides the socket.
    #[cfg(target_os = "linux")]
    pub(super) fn io(&self) -> io::Result<&tokio::net::UdpSocket> {
        match &self.io {
            Io::System { io, .. } => Ok(io),
            Io::Own(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Waits until something has arrived, and fills `batch`, which [`batch`](Self::batch) created.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        batch: &mut Batch,
    ) -> Poll<io::Result<()>> {
        let (io, state) = match &self.io {
            Io::System { io, state } => (io, state),
            Io::Own(socket) => return batch.poll_fill_by(cx, socket),
        };
        let mut errors = 0;
        loop {
            ready!(io.poll_recv_ready(cx))?;
            let mut is_filled = false;
            let result = io.try_io(Interest::READABLE, || {
                let is_last = batch.fill_by_system(state, io)?;
                is_filled = true;
                if is_last {
                    // Another call would find nothing left.
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(())
            });
            if is_filled {
                let cut_off = batch.cut_off();
                if cut_off > 0 {
                    self.cut_off.fetch_add(cut_off as u64, Ordering::Relaxed);
                }
                return Poll::Ready(Ok(()));
            }
            if let Err(error) = result
                && error.kind() != io::ErrorKind::WouldBlock
            {
                errors += 1;
                if errors > MOST_ERRORS || !is_of_one_peer(&error) {
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn send_by_system(
    io: &tokio::net::UdpSocket,
    _state: &UdpSocketState,
    outgoing: &Outgoing<'_>,
    bytes: &[u8],
    batched: bool,
) -> io::Result<()> {
    let message = sys::OutgoingMessage {
        to: outgoing.to,
        from: outgoing.from,
        tos: outgoing.dscp << 2 | outgoing.ecn as u8,
        bytes,
        segment: batched
            .then(|| u16::try_from(outgoing.segment).ok())
            .flatten(),
    };
    io.try_io(Interest::WRITABLE, || sys::send(io.as_fd(), &message))
}

/// Sends without a DSCP, because there is no portable way to set it.
#[cfg(not(target_os = "linux"))]
fn send_by_system(
    io: &tokio::net::UdpSocket,
    state: &UdpSocketState,
    outgoing: &Outgoing<'_>,
    bytes: &[u8],
    batched: bool,
) -> io::Result<()> {
    let transmit = quinn_udp::Transmit {
        destination: outgoing.to,
        ecn: quinn_udp::EcnCodepoint::from_bits(outgoing.ecn as u8),
        contents: bytes,
        segment_size: batched.then_some(outgoing.segment),
        src_ip: outgoing.from,
    };
    io.try_io(Interest::WRITABLE, || {
        state.try_send(UdpSockRef::from(io), &transmit)
    })
}

/// Largest number of consecutive errors of earlier datagrams. Since a socket only keeps one at a
/// time, more errors must be the socket's own and would not end.
const MOST_ERRORS: u32 = 64;

fn not_sent(outgoing: &Outgoing<'_>, error: &io::Error) -> Sent {
    tracing::debug!(%error, to = %outgoing.to, "datagram not sent");
    if is_too_long(error) {
        Sent::TooLong
    } else {
        Sent::Failed(error.kind())
    }
}
