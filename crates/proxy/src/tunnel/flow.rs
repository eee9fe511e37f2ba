//! A UDP flow through a proxy (RFC 9298).

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;

use bytes::{Buf, Bytes};
use pathmark_http3::wire::capsule::{self, Capsules};
use pathmark_http3::wire::{DatagramFlow, DatagramRefused, TunnelRecv, TunnelSend};
use tokio::sync::Mutex;

use super::Opened;
use crate::outbound::Datagrams;
use crate::payload::{self, MOST, UDP};

/// Datagrams of one flow. Those above what the path carries go as capsules. The flow ends once
/// another connection has taken the place of its own.
pub struct Flow {
    datagrams: Option<DatagramFlow>,
    send: Mutex<TunnelSend>,
    recv: Mutex<Received>,
    /// None once it has been.
    replaced: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

/// Capsules that arrive.
struct Received {
    stream: TunnelRecv,
    capsules: Capsules,
    datagrams: VecDeque<Bytes>,
}

impl Flow {
    pub(super) fn new(
        (send, recv, datagrams): Opened,
        replaced: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self {
            replaced: Mutex::new(Some(Box::pin(replaced))),
            datagrams,
            send: Mutex::new(send),
            recv: Mutex::new(Received {
                stream: recv,
                capsules: Capsules::new(payload::MOST_DATAGRAM),
                datagrams: VecDeque::new(),
            }),
        }
    }

    /// The next HTTP datagram, on either way.
    async fn next(&self) -> io::Result<Bytes> {
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
            datagram = capsule => datagram,
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
    async fn send(&self, payload: Bytes) -> io::Result<()> {
        if payload.len() > MOST {
            let why = format!("a UDP payload has {MOST} bytes at most");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let sent = match &self.datagrams {
            Some(datagrams) => datagrams.send(&[UDP], &payload).await,
            None => Err(DatagramRefused::TooLong),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(DatagramRefused::TooLong) => {
                let capsule = capsule::datagram([&[UDP], &payload]);
                self.send.lock().await.send(capsule).await
            }
            Err(error) => Err(io::Error::new(io::ErrorKind::NotConnected, error)),
        }
    }

    async fn receive(&self) -> io::Result<Bytes> {
        loop {
            let mut datagram = self.next().await?;
            // Other contexts are of extensions that were not asked for.
            if let Some(length) = payload::udp(&datagram).map(<[u8]>::len) {
                datagram.advance(datagram.len() - length);
                return Ok(datagram);
            }
        }
    }
}
