//! A UDP flow through a proxy (RFC 9298).

use std::collections::VecDeque;
use std::io;

use bytes::{Buf, Bytes};
use pathmark_http3::wire::capsule::{self, Capsules};
use pathmark_http3::wire::{DatagramFlow, DatagramRefused, TunnelRecv, TunnelSend};
use tokio::sync::Mutex;

use super::Opened;
use crate::outbound::Datagrams;
use crate::payload::{self, MOST, UDP};

/// Datagrams of one flow. Those above what the path carries go as capsules.
pub struct Flow {
    datagrams: Option<DatagramFlow>,
    send: Mutex<TunnelSend>,
    recv: Mutex<Received>,
}

/// Capsules that arrive.
struct Received {
    stream: TunnelRecv,
    capsules: Capsules,
    datagrams: VecDeque<Bytes>,
}

impl Flow {
    pub(super) fn new((send, recv, datagrams): Opened) -> Self {
        Self {
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
        let Some(datagrams) = &self.datagrams else {
            return self.recv.lock().await.next().await;
        };
        let capsule = async { self.recv.lock().await.next().await };
        tokio::select! {
            datagram = datagrams.receive() => datagram.map_err(|error| {
                io::Error::new(io::ErrorKind::NotConnected, error)
            }),
            datagram = capsule => datagram,
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
