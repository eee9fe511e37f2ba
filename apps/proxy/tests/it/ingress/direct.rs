//! An outbound that uses sockets of this machine.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use pathmark_proxy::outbound::{Abort, Datagrams, Marks, Outbound, Refusal};
use pathmark_proxy::target::{Host, Target};
use pathmark_transport::Ecn;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, UdpSocket};

#[derive(Clone, Default)]
pub(crate) struct Direct {
    names: Arc<HashMap<String, IpAddr>>,
    /// The address to use instead of those of targets.
    elsewhere: Option<SocketAddr>,
    /// The targets that were requested.
    asked: Arc<Mutex<Vec<Target>>>,
    /// If set, all flows are refused.
    refusal: Option<Refusal>,
}

impl Direct {
    /// Resolves only these names.
    pub(crate) fn with_names(names: &[(&str, &str)]) -> Self {
        let names = names
            .iter()
            .map(|(name, address)| ((*name).to_owned(), address.parse().unwrap()));
        Self {
            names: Arc::new(names.collect()),
            ..Self::default()
        }
    }

    pub(crate) fn refusing(refusal: Refusal) -> Self {
        Self {
            refusal: Some(refusal),
            ..Self::default()
        }
    }

    /// Connects all flows to one address.
    pub(crate) fn to(address: SocketAddr) -> Self {
        Self {
            elsewhere: Some(address),
            ..Self::default()
        }
    }

    pub(crate) fn asked(&self) -> Vec<Target> {
        self.asked.lock().unwrap().clone()
    }

    fn address(&self, target: &Target) -> Result<SocketAddr, Refusal> {
        self.asked.lock().unwrap().push(target.clone());
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        if let Some(address) = self.elsewhere {
            return Ok(address);
        }
        let ip = match &target.host {
            Host::Address(ip) => *ip,
            Host::Name(name) => *self.names.get(name).ok_or(Refusal::Name)?,
        };
        Ok((ip, target.port).into())
    }
}

fn refusal(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Refusal::Refused,
        _ => Refusal::Proxy(error.to_string()),
    }
}

impl Outbound for Direct {
    type Read = Reader;
    type Write = Writer;
    type Datagrams = Socket;

    async fn tcp_early(
        &self,
        target: &Target,
        _early: &mut (impl AsyncRead + Send + Unpin),
    ) -> Result<(Reader, Writer), Refusal> {
        let connected = TcpStream::connect(self.address(target)?).await;
        let stream = connected.map_err(|error| refusal(&error))?;
        stream.set_nodelay(true).unwrap();
        let (read, write) = stream.into_split();
        Ok((Reader(read), Writer(Some(write))))
    }

    async fn udp(&self, target: &Target) -> Result<Socket, Refusal> {
        let address = self.address(target)?;
        let any = match address {
            SocketAddr::V4(_) => "0.0.0.0:0",
            SocketAddr::V6(_) => "[::]:0",
        };
        let socket = UdpSocket::bind(any).await.unwrap();
        let connected = socket.connect(address).await;
        connected.map_err(|error| refusal(&error))?;
        Ok(Socket(socket))
    }
}

pub(crate) struct Reader(OwnedReadHalf);

pub(crate) struct Writer(Option<OwnedWriteHalf>);

fn reset_on_close(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

impl Abort for Reader {
    fn abort(&mut self) {
        reset_on_close(self.0.as_ref());
    }
}

impl Abort for Writer {
    fn abort(&mut self) {
        // Dropping this half would send FIN.
        if let Some(half) = self.0.take() {
            reset_on_close(half.as_ref());
            half.forget();
        }
    }
}

impl Writer {
    fn half(&mut self) -> io::Result<Pin<&mut OwnedWriteHalf>> {
        let half = self.0.as_mut().map(Pin::new);
        half.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.half()?.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.half()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.half()?.poll_shutdown(cx)
    }
}

pub(crate) struct Socket(UdpSocket);

impl Datagrams for Socket {
    async fn send_marked(&self, payload: Bytes, _ecn: Ecn) -> io::Result<()> {
        self.0.send(&payload).await.map(drop)
    }

    async fn receive_marked(&self) -> io::Result<(Bytes, Marks)> {
        let mut buffer = vec![0; 65_527];
        let length = self.0.recv(&mut buffer).await?;
        buffer.truncate(length);
        let marks = Marks {
            inner: Ecn::NotEct,
            outer: Ecn::NotEct,
        };
        Ok((buffer.into(), marks))
    }
}
