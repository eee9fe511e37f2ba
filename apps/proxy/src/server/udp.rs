//! Relays datagrams of UDP flows (RFC 9298) between a tunnel and a UDP socket.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pathmark_http3::wire::capsule::Capsules;
use pathmark_http3::wire::{DatagramFlow, DatagramRefused, TunnelRecv, TunnelSend, capsule};
use pathmark_transport::Ecn;
use tokio::net::UdpSocket;

use super::Shared;
use super::counters::{add, count};
use crate::decapsulation::leaving;
use crate::flows::Carried;
use crate::flows::idle::UdpFlow;
use crate::marked;
use crate::payload::{self, MOST, Marking};

/// Relays until the client ends the flow or the idle timeout expires.
pub(super) async fn relay(
    socket: &UdpSocket,
    (mut send, mut recv): (TunnelSend, TunnelRecv),
    (datagrams, marking): (&DatagramFlow, Marking),
    (shared, flow, place): (&Shared, &Carried, &UdpFlow),
    idle: Duration,
) {
    flow.set_queue(Arc::clone(datagrams.queue()));
    let out = Out {
        socket,
        marking,
        shared,
        flow,
        place,
    };
    tokio::select! {
        () = async { while let Ok((datagram, mark)) = datagrams.receive().await {
            out.to_target(&datagram, mark).await;
        } } => {}
        // The end of the stream ends the flow.
        ended = out.capsules(&mut recv) => if ended.is_err() {
            send.reset();
        },
        () = out.to_client(&mut send, datagrams) => {}
        () = place.idle(|| idle) => count(&shared.counters.udp_idle),
    }
    // Ignore errors, because the client may be gone.
    let _ = send.finish().await;
}

struct Out<'a> {
    socket: &'a UdpSocket,
    marking: Marking,
    shared: &'a Shared,
    flow: &'a Carried,
    place: &'a UdpFlow,
}

impl Out<'_> {
    /// Sends the payload of an HTTP datagram to the target. `mark` is the ECN field of its packet.
    async fn to_target(&self, datagram: &[u8], mark: Ecn) {
        let counters = &self.shared.counters;
        let sent = match self.marking.udp(datagram) {
            Some((ecn, payload)) => {
                let ecn = leaving(ecn, mark, &counters.marks_refused);
                marked::send(self.socket, payload, None, ecn).await
            }
            None => Err(io::ErrorKind::InvalidData.into()),
        };
        match sent {
            Ok(bytes) => {
                self.place.sent();
                count(&counters.datagrams_up);
                add(&counters.bytes_up, bytes);
                self.flow.up().add(bytes);
            }
            // Either an ICMP message about an earlier datagram, or this one is too large for the
            // path.
            Err(_) => count(&counters.datagrams_dropped),
        }
    }

    async fn capsules(&self, recv: &mut TunnelRecv) -> io::Result<()> {
        let mut capsules = Capsules::new(payload::MOST_DATAGRAM);
        let mut datagrams = VecDeque::new();
        while let Some(chunk) = recv.chunk().await? {
            let fed = capsules.feed(chunk, &mut datagrams);
            fed.map_err(io::Error::other)?;
            while let Some(datagram) = datagrams.pop_front() {
                // Stream data doesn't belong to a single packet.
                self.to_target(&datagram, Ecn::NotEct).await;
            }
        }
        Ok(())
    }

    /// Sends datagrams from the target to the client.
    async fn to_client(&self, send: &mut TunnelSend, datagrams: &DatagramFlow) {
        let counters = &self.shared.counters;
        let mut buffer = vec![0; MOST];
        loop {
            let received = match marked::receive(self.socket, &mut buffer).await {
                Ok(received) => received,
                // An ICMP message about a datagram doesn't end the flow.
                Err(error) if error.raw_os_error().is_some() => continue,
                Err(_) => return,
            };
            let (length, ecn) = (received.length, received.ecn);
            let contexts = self.marking.contexts(ecn);
            let payload = buffer.get(..length).unwrap_or_default();
            let sent = match datagrams.send(contexts, ecn, payload) {
                Err(DatagramRefused::TooLong) => {
                    count(&counters.capsules_down);
                    let capsule: Bytes = capsule::datagram([&[contexts.0], payload]);
                    send.send(capsule).await.is_ok()
                }
                sent => sent.is_ok(),
            };
            if !sent {
                return;
            }
            self.place.answered();
            count(&counters.datagrams_down);
            add(&counters.bytes_down, length);
            self.flow.down().add(length);
        }
    }
}
