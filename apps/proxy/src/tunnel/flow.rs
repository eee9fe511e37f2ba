//! A UDP flow through a proxy (RFC 9298).

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU8;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use pathmark_http3::wire::capsule::{self, Capsules};
use pathmark_http3::wire::{DatagramFlow, DatagramRefused, TunnelRecv, TunnelSend};
use pathmark_transport::{Ecn, QueueCounters};
use tokio::sync::Mutex;

use super::Opened;
use crate::outbound::{Datagrams, Marks};
use crate::payload::{self, MOST, Marking};

/// The datagrams of one flow. Those too long for the path are sent as capsules. The flow ends
/// once its connection has been replaced.
pub struct Flow {
    datagrams: Option<DatagramFlow>,
    send: Mutex<TunnelSend>,
    recv: Mutex<Received>,
    marking: Marking,
    /// `None` once the connection has been replaced.
    replaced: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

/// Incoming capsules.
struct Received {
    stream: TunnelRecv,
    capsules: Capsules,
    datagrams: VecDeque<Bytes>,
}

impl Flow {
    pub(super) fn new(
        Opened {
            send,
            recv,
            datagrams,
            marking,
        }: Opened,
        replaced: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            replaced: Mutex::new(Some(Box::pin(replaced))),
            datagrams,
            marking,
            send: Mutex::new(send),
            recv: Mutex::new(Received {
                stream: recv,
                capsules: Capsules::new(payload::MOST_DATAGRAM),
                datagrams: VecDeque::new(),
            }),
        }
    }

    /// Waits for the next HTTP datagram from either source, and returns it with the ECN field of
    /// its packet.
    async fn next(&self) -> io::Result<(Bytes, Ecn)> {
        let datagram = async {
            match &self.datagrams {
                Some(datagrams) => datagrams
                    .receive()
                    .await
                    .map_err(|error| io::Error::new(io::ErrorKind::NotConnected, error)),
                None => std::future::pending().await,
            }
        };
        let capsule = async { self.recv.lock().await.next().await };
        let replaced = async {
            let mut replaced = self.replaced.lock().await;
            if let Some(awaited) = replaced.as_mut() {
                awaited.await;
                *replaced = None;
            }
        };
        tokio::select! {
            datagram = datagram => datagram,
            // Stream data doesn't belong to a single packet.
            datagram = capsule => datagram.map(|datagram| (datagram, Ecn::NotEct)),
            () = replaced => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Received {
    async fn next(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(datagram) = self.datagrams.pop_front() {
                return Ok(datagram);
            }
            let Some(chunk) = self.stream.chunk().await? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let fed = self.capsules.feed(chunk, &mut self.datagrams);
            fed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}

impl Datagrams for Flow {
    async fn send_marked(&self, payload: Bytes, ecn: Ecn) -> io::Result<()> {
        if payload.len() > MOST {
            let why = format!("a UDP payload has {MOST} bytes at most");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let contexts = self.marking.contexts(ecn);
        let sent = match &self.datagrams {
            Some(datagrams) => datagrams.send(contexts, ecn, &payload),
            None => Err(DatagramRefused::TooLong),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(DatagramRefused::TooLong) => {
                let capsule = capsule::datagram([&[contexts.0], &payload]);
                self.send.lock().await.send(capsule).await
            }
            Err(error) => Err(io::Error::new(io::ErrorKind::NotConnected, error)),
        }
    }

    fn set_weight(&self, weight: NonZeroU8) {
        if let Some(datagrams) = &self.datagrams {
            datagrams.set_weight(weight);
        }
    }

    fn queue(&self) -> Option<Arc<QueueCounters>> {
        self.datagrams.as_ref().map(|flow| Arc::clone(flow.queue()))
    }

    async fn receive_marked(&self) -> io::Result<(Bytes, Marks)> {
        loop {
            let (mut datagram, outer) = self.next().await?;
            // Other contexts belong to extensions that weren't requested.
            let payload = self.marking.udp(&datagram);
            if let Some((inner, length)) = payload.map(|(ecn, payload)| (ecn, payload.len())) {
                datagram.advance(datagram.len() - length);
                return Ok((datagram, Marks { inner, outer }));
            }
        }
    }
}
