//! Receiving: many datagrams per system call, each with the fields of its IP header.

mod own;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use quinn_udp::UdpSocketState;

use pathmark_transport::Ecn;
use pathmark_transport::connection::Received;

#[cfg(target_os = "linux")]
use linux::ReceiveBatch;
#[cfg(not(target_os = "linux"))]
use other::ReceiveBatch;

use super::own_socket::DatagramSocket;
use own::OwnBatch;

/// Largest UDP payload with GRO, plus 20 cache lines. If buffers began at multiples of 64 KiB, they
/// would compete for the same few cache sets, because small datagrams only use the start of each.
const RECEIVE_BUFFER: usize = 64 * 1024 + 20 * 64;

/// A datagram that has arrived.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: Option<IpAddr>,
    pub(super) ecn: Ecn,
    /// IP's TTL or hop limit, if known.
    pub(super) ttl: Option<u8>,
    pub(super) bytes: &'a mut [u8],
}

impl Incoming<'_> {
    /// Returns the fields of the IP header.
    pub(super) fn received(&self) -> Received {
        Received {
            remote: self.from,
            local: self.to,
            ecn: self.ecn,
            ttl: self.ttl,
        }
    }
}

/// Buffers for one batch of arriving datagrams, depending on the kind of socket.
pub(super) struct Batch {
    system: Option<ReceiveBatch>,
    own: Option<OwnBatch>,
}

impl Batch {
    pub(super) fn of_system() -> Self {
        Self {
            system: Some(ReceiveBatch::new()),
            own: None,
        }
    }

    pub(super) fn own() -> Self {
        Self {
            system: None,
            own: Some(OwnBatch::new()),
        }
    }

    /// Receives a batch of datagrams from a system socket. Returns true if the socket is now empty.
    pub(super) fn fill_by_system(
        &mut self,
        state: &UdpSocketState,
        io: &tokio::net::UdpSocket,
    ) -> io::Result<bool> {
        let batch = self.system.get_or_insert_with(ReceiveBatch::new);
        batch.fill(state, io)?;
        Ok(batch.is_last())
    }

    /// Receives a batch of datagrams from a socket that the application provides.
    pub(super) fn poll_fill_by(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Arc<dyn DatagramSocket>,
    ) -> Poll<io::Result<()>> {
        let batch = self.own.get_or_insert_with(OwnBatch::new);
        batch.poll_fill(cx, socket)
    }

    /// Returns how many messages of the batch had their control messages cut off.
    pub(super) fn cut_off(&self) -> usize {
        self.system.as_ref().map_or(0, ReceiveBatch::cut_off)
    }

    /// Iterates over the datagrams of the batch in order of arrival.
    pub(super) fn datagrams(&mut self) -> impl Iterator<Item = Incoming<'_>> {
        let system = self.system.iter_mut().flat_map(ReceiveBatch::datagrams);
        system.chain(self.own.iter_mut().flat_map(OwnBatch::datagrams))
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::AsFd as _;

    use super::super::sys::{CONTROL, Message, Messages};
    use super::*;

    /// Buffers for one batch of arriving datagrams.
    pub(crate) struct ReceiveBatch(Messages);

    impl ReceiveBatch {
        pub(crate) fn new() -> Self {
            Self::with_control_room(CONTROL)
        }

        /// Creates a batch with less room for the control messages of each datagram.
        pub(crate) fn with_control_room(bytes: usize) -> Self {
            Self(Messages::new(RECEIVE_BUFFER, bytes))
        }

        pub(crate) fn fill(
            &mut self,
            _state: &UdpSocketState,
            io: &tokio::net::UdpSocket,
        ) -> io::Result<()> {
            self.0.receive(io.as_fd())
        }

        /// Returns true if the socket was empty after this batch was received.
        pub(crate) fn is_last(&self) -> bool {
            self.0.is_last()
        }

        /// Returns how many messages of the batch had their control messages cut off.
        pub(crate) fn cut_off(&self) -> usize {
            self.0.cut_off()
        }

        /// Iterates over the datagrams of the batch in order of arrival.
        pub(crate) fn datagrams(&mut self) -> impl Iterator<Item = Incoming<'_>> {
            self.0.iter().flat_map(|message| {
                let Message {
                    from,
                    control,
                    is_control_cut,
                    bytes,
                } = message;
                let (bytes, segment) = match control.segment {
                    Some(segment) => (bytes, usize::from(segment)),
                    // The segment size was cut off, so the datagrams can't be told apart and are
                    // lost.
                    None if is_control_cut => (&mut [][..], 1),
                    None => {
                        let length = bytes.len();
                        (bytes, length)
                    }
                };
                bytes.chunks_mut(segment.max(1)).map(move |bytes| Incoming {
                    from,
                    to: control.to,
                    ecn: Ecn::from_bits(control.tos.unwrap_or(0) & 3),
                    ttl: control.ttl,
                    bytes,
                })
            })
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::io::IoSliceMut;

    use quinn_udp::{RecvMeta, UdpSockRef};

    use super::*;

    /// Messages received by one system call, if the kernel supports this.
    const BATCH: usize = 32;

    /// Buffers for one batch of arriving datagrams.
    pub(crate) struct ReceiveBatch {
        storage: Box<[u8]>,
        meta: [RecvMeta; BATCH],
        filled: usize,
    }

    impl ReceiveBatch {
        pub(crate) fn new() -> Self {
            Self {
                storage: vec![0; BATCH * RECEIVE_BUFFER].into_boxed_slice(),
                meta: [RecvMeta::default(); BATCH],
                filled: 0,
            }
        }

        pub(crate) fn fill(
            &mut self,
            state: &UdpSocketState,
            io: &tokio::net::UdpSocket,
        ) -> io::Result<()> {
            self.filled = 0;
            let mut rest = self.storage.chunks_mut(RECEIVE_BUFFER);
            let mut slices: [IoSliceMut<'_>; BATCH] =
                std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or(&mut [])));
            self.filled = state.recv(UdpSockRef::from(io), &mut slices, &mut self.meta)?;
            Ok(())
        }

        /// Always false, because these systems don't report this.
        pub(crate) fn is_last(&self) -> bool {
            false
        }

        /// Always 0, because these systems don't report this.
        pub(crate) fn cut_off(&self) -> usize {
            0
        }

        /// Iterates over the datagrams of the batch in order of arrival.
        pub(crate) fn datagrams(&mut self) -> impl Iterator<Item = Incoming<'_>> {
            self.storage
                .chunks_mut(RECEIVE_BUFFER)
                .zip(&self.meta)
                .take(self.filled)
                .flat_map(|(storage, meta)| {
                    let length = meta.len.min(storage.len());
                    let (bytes, _) = storage.split_at_mut(length);
                    bytes.chunks_mut(meta.stride.max(1)).map(|bytes| Incoming {
                        from: meta.addr,
                        to: meta.dst_ip,
                        ecn: Ecn::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8)),
                        ttl: None,
                        bytes,
                    })
                })
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::UdpSocket;

    use quinn_udp::{EcnCodepoint, Transmit, UdpSockRef};

    use super::super::sys::{CONTROL, prepare};
    use super::*;

    /// A datagram as one of our own sockets received it.
    #[derive(Debug, PartialEq)]
    struct Seen {
        from: SocketAddr,
        to: Option<IpAddr>,
        ecn: Ecn,
        ttl: Option<u8>,
        length: usize,
    }

    /// Sends `bytes` in segments of `segment` with ECT(0), from a socket bound to `from` after
    /// `prepare` was applied, to the address `to` of a socket bound to `at`. Returns the datagrams
    /// that arrive, and the number of messages whose control messages were cut off.
    async fn pass(
        [from, at, to]: [&str; 3],
        (length, segment): (usize, usize),
        control: usize,
    ) -> (SocketAddr, Vec<Seen>, usize) {
        let bind = |address: &str| {
            let socket = UdpSocket::bind(address).unwrap();
            let state = UdpSocketState::new(UdpSockRef::from(&socket)).unwrap();
            prepare(&socket).unwrap();
            socket.set_nonblocking(true).unwrap();
            (tokio::net::UdpSocket::from_std(socket).unwrap(), state)
        };
        let (sender, sender_state) = bind(from);
        let (receiver, state) = bind(at);
        let mut destination: SocketAddr = to.parse().unwrap();
        destination.set_port(receiver.local_addr().unwrap().port());
        let transmit = Transmit {
            destination,
            ecn: Some(EcnCodepoint::Ect0),
            contents: &vec![7; length],
            segment_size: Some(segment),
            src_ip: None,
        };
        sender.writable().await.unwrap();
        let sending = UdpSockRef::from(&sender);
        sender_state.try_send(sending, &transmit).unwrap();
        receiver.readable().await.unwrap();
        let mut batch = ReceiveBatch::with_control_room(control);
        batch.fill(&state, &receiver).unwrap();
        let seen = batch.datagrams().map(|incoming| Seen {
            from: incoming.from,
            to: incoming.to,
            ecn: incoming.ecn,
            ttl: incoming.ttl,
            length: incoming.bytes.len(),
        });
        let seen = seen.collect();
        (sender.local_addr().unwrap(), seen, batch.cut_off())
    }

    #[tokio::test]
    async fn coalesced_datagrams_come_with_all_that_ip_says() {
        const V4: &str = "127.0.0.1:0";
        const V6: &str = "[::1]:0";
        const MAPPED: &str = "::ffff:127.0.0.1";
        for (from, at, to, to_here, from_there) in [
            (V4, V4, V4, "127.0.0.1", "127.0.0.1"),
            (V6, V6, V6, "::1", "::1"),
            // A socket for both IP versions.
            (V4, "[::]:0", V4, MAPPED, MAPPED),
            (
                "[::]:0",
                V4,
                "[::ffff:127.0.0.1]:0",
                "127.0.0.1",
                "127.0.0.1",
            ),
            (V6, "[::]:0", V6, "::1", "::1"),
        ] {
            let (sender, seen, cut_off) = pass([from, at, to], (30_100, 1000), CONTROL).await;
            let expected = |length| Seen {
                from: SocketAddr::new(from_there.parse().unwrap(), sender.port()),
                to: Some(to_here.parse().unwrap()),
                ecn: Ecn::Ect0,
                ttl: Some(64),
                length,
            };
            let mut all: Vec<_> = (0..30).map(|_| expected(1000)).collect();
            all.push(expected(100));
            assert_eq!((seen, cut_off), (all, 0), "{from} {at}");
        }
    }

    #[tokio::test]
    async fn what_the_kernel_could_not_say_is_counted_and_not_guessed() {
        let loopback = ["127.0.0.1:0"; 3];
        // Room for the segment size, which comes first, and nothing else.
        let (_, seen, cut_off) = pass(loopback, (30_100, 1000), 24).await;
        assert_eq!((seen.len(), cut_off), (31, 1));
        let is_unknown = |s: &Seen| s.ecn == Ecn::NotEct && s.ttl.is_none() && s.to.is_none();
        assert!(seen.iter().all(is_unknown));
        // Not even room for the segment size, so the datagrams can't be told apart.
        let (_, seen, cut_off) = pass(loopback, (30_100, 1000), 16).await;
        assert_eq!((seen.len(), cut_off), (0, 1));
    }
}
