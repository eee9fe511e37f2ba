//! A proxy and a tunnel as processes on nodes, with applications at both ends.

use std::net::{IpAddr, SocketAddr};

use pathmark_testbed::{ChildGuard, Node, Testbed};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::on_node::start;
use super::write_private;

/// A proxy and a tunnel, each on a node, with one forward to a target on the proxy's node.
pub(crate) struct Pair {
    proxy: ChildGuard,
    tunnel: ChildGuard,
    pub(crate) forward: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Pair {
    pub(crate) fn new(far: (&Node, IpAddr), near: &Node, target: SocketAddr) -> Self {
        Self::with(far, near, target, &[])
    }

    /// Like `new`, with additional arguments of the tunnel.
    pub(crate) fn with(
        (far, address): (&Node, IpAddr),
        near: &Node,
        target: SocketAddr,
        more: &[&str],
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        write_private(path("tokens"), "a 0123456789abcdef\n");
        let listen = SocketAddr::new(address, 4433);
        let text = format!(
            "listen = '{listen}'\ntokens = 'tokens'\nallow = ['0.0.0.0/0']\n\
             [limits]\nflows = 30000\nflows_per_user = 30000\n"
        );
        std::fs::write(path("proxy.toml"), text).unwrap();
        let config = path("proxy.toml");
        let (proxy, said) = start(far, &["proxy", "--show-uri", "--config", &config]);
        std::fs::write(path("uri"), said["uris"][0]["uri"].as_str().unwrap()).unwrap();
        let (uri, forward) = (path("uri"), format!("127.0.0.1:0:{target}"));
        let arguments = [&["tunnel", "--uri-file", &uri, "-L", &forward], more].concat();
        let (tunnel, said) = start(near, &arguments);
        let forward = said["listeners"][0]["address"].as_str().unwrap();
        Self {
            proxy,
            tunnel,
            forward: forward.parse().unwrap(),
            _directory: directory,
        }
    }

    /// Returns the descriptors and the resident memory in MiB of the proxy and of the tunnel.
    pub(crate) fn taken(&self) -> String {
        let of = |guard: &ChildGuard| {
            let process = format!("/proc/{}", guard.id());
            let files = std::fs::read_dir(format!("{process}/fd")).unwrap().count();
            let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
            let line = status.lines().find(|line| line.starts_with("VmRSS:"));
            let kib = line.and_then(|line| line.split_whitespace().nth(1));
            let kib: u64 = kib.unwrap().parse().unwrap();
            format!("{files} descriptors, {} MiB", kib / 1024)
        };
        format!("proxy {}; tunnel {}", of(&self.proxy), of(&self.tunnel))
    }
}

pub(crate) fn listener(node: &Node, address: SocketAddr) -> TcpListener {
    let listener = node.tcp_listener(address).unwrap();
    SockRef::from(&listener).listen(4096).unwrap();
    listener.set_nonblocking(true).unwrap();
    TcpListener::from_std(listener).unwrap()
}

pub(crate) async fn connect(node: &Node, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = node.socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
    let socket = std::net::TcpStream::from(socket);
    socket.set_nonblocking(true)?;
    TcpSocket::from_std_stream(socket).connect(to).await
}

/// Answers each byte with one byte until the client ends.
pub(crate) async fn echo(listener: TcpListener) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            continue;
        };
        tokio::spawn(async move {
            while let Ok(byte) = stream.read_u8().await {
                if stream.write_u8(byte).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Sends this many bytes to each client, then the end.
pub(crate) async fn source(listener: TcpListener, bytes: usize) {
    let chunk = vec![7; 256 * 1024];
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let chunk = chunk.clone();
        tokio::spawn(async move {
            let mut left = bytes;
            while left > 0 {
                let piece = left.min(chunk.len());
                if stream.write_all(&chunk[..piece]).await.is_err() {
                    return;
                }
                left -= piece;
            }
        });
    }
}

/// Runs everything on the loopback interface of one node.
pub(crate) async fn one_node() -> (Testbed, Node, Pair) {
    let bed = Testbed::new().unwrap();
    let node = bed.node("all").unwrap();
    let target = listener(&node, "127.0.0.1:7000".parse().unwrap());
    let address = target.local_addr().unwrap();
    tokio::spawn(echo(target));
    let pair = Pair::new((&node, [127, 0, 0, 1].into()), &node, address);
    (bed, node, pair)
}
