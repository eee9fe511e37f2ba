//! An ingress, its clients, and targets, all with real sockets.

use std::net::SocketAddr;

use pathmark_proxy::ingress::spec::Bind;
use pathmark_proxy::ingress::{Ingress, Limits, Service, listen};
use pathmark_proxy::outbound::Outbound;
use pathmark_proxy::target::Target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) use crate::support::{bounded as within, failure, listener as target, reset, until};

/// How a client reaches its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Without a tunnel.
    Straight,
    Forward,
    Socks,
    Http,
}

pub(crate) const WAYS: [Way; 4] = [Way::Straight, Way::Forward, Way::Socks, Way::Http];

#[derive(Clone)]
pub(crate) struct Bed<O> {
    pub(crate) ingress: Ingress<O>,
}

impl<O: Outbound> Bed<O> {
    pub(crate) fn new(outbound: O) -> Self {
        Self::with_limits(outbound, Limits::default())
    }

    pub(crate) fn with_limits(outbound: O, limits: Limits) -> Self {
        Self {
            ingress: Ingress::new(outbound, limits),
        }
    }

    /// Starts a listener for a service.
    pub(crate) fn listen(&self, service: Service) -> SocketAddr {
        let mut listeners = listen::tcp(&"127.0.0.1:0".parse::<Bind>().unwrap()).unwrap();
        let listener = listeners.remove(0);
        let address = listener.local_addr().unwrap();
        let ingress = self.ingress.clone();
        tokio::spawn(async move { ingress.serve(listener, service).await });
        address
    }

    /// Connects to a target. `Err` contains the answer of the ingress: a reply code or a status.
    pub(crate) async fn connect(&self, way: Way, target: &Target) -> Result<TcpStream, u16> {
        match way {
            Way::Straight => {
                let address: SocketAddr = target.to_string().parse().unwrap();
                Ok(TcpStream::connect(address).await.unwrap())
            }
            Way::Forward => {
                let address = self.listen(Service::Forward(target.clone()));
                Ok(TcpStream::connect(address).await.unwrap())
            }
            Way::Socks => socks(self.listen(Service::Socks), target).await,
            Way::Http => http(self.listen(Service::Http), target).await,
        }
    }
}

/// Returns the encoding of a SOCKS target by name.
pub(crate) fn socks_address(target: &Target) -> Vec<u8> {
    let text = target.to_string();
    let (host, port) = text.rsplit_once(':').unwrap();
    let host = host.trim_matches(['[', ']']);
    let mut bytes = vec![3, host.len() as u8];
    bytes.extend_from_slice(host.as_bytes());
    bytes.extend_from_slice(&port.parse::<u16>().unwrap().to_be_bytes());
    bytes
}

async fn socks(ingress: SocketAddr, target: &Target) -> Result<TcpStream, u16> {
    let mut stream = TcpStream::connect(ingress).await.unwrap();
    stream.write_all(&[5, 1, 0]).await.unwrap();
    let mut chosen = [9; 2];
    stream.read_exact(&mut chosen).await.unwrap();
    assert_eq!(chosen, [5, 0]);
    let request = [vec![5, 1, 0], socks_address(target)].concat();
    stream.write_all(&request).await.unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).await.unwrap();
    match reply[1] {
        0 => Ok(stream),
        code => Err(code.into()),
    }
}

async fn http(ingress: SocketAddr, target: &Target) -> Result<TcpStream, u16> {
    let mut stream = TcpStream::connect(ingress).await.unwrap();
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = head(&mut stream).await;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    match status {
        200 => Ok(stream),
        status => Err(status),
    }
}

/// Reads exactly the head of an answer.
pub(crate) async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}
