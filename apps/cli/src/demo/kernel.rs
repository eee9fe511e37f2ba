//! Transfers files over the kernel's TCP, between two nodes of a test bed.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use pathmark_testbed::Node;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use super::transfer::Meter;

/// Bytes to write at once.
const CHUNK: usize = 64 * 1024;

/// Returns the congestion controls that this kernel supports.
pub fn available() -> Vec<String> {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map(|names| names.split_whitespace().map(ToOwned::to_owned).collect())
        .unwrap_or_default()
}

/// Allows windows of several bandwidth-delay products on a node.
///
/// # Errors
/// Fails if a sysctl can't be set.
pub fn tune(node: &Node) -> anyhow::Result<()> {
    node.sysctl("net.ipv4.tcp_rmem", "4096 1048576 67108864")?;
    node.sysctl("net.ipv4.tcp_wmem", "4096 1048576 67108864")?;
    Ok(())
}

/// Sends one file per meter from `server` (at `address`) to `client`, all concurrently. Returns
/// when all have arrived.
///
/// # Errors
/// Fails if a socket can't be created or a connection fails.
pub async fn transfer(
    server: &Node,
    address: IpAddr,
    client: &Node,
    control: &str,
    meters: &[Arc<Meter>],
) -> anyhow::Result<()> {
    let listener = server.tcp_listener((address, 0).into())?;
    listener.set_nonblocking(true)?;
    socket2::SockRef::from(&listener)
        .set_tcp_congestion(control.as_bytes())
        .with_context(|| format!("the kernel does not run TCP {control}"))?;
    let address = listener.local_addr()?;
    let listener = TcpListener::from_std(listener)?;
    let mut tasks = JoinSet::new();
    for meter in meters {
        tasks.spawn(fetch(client.clone(), address, Arc::clone(meter)));
    }
    for _ in meters {
        let (mut stream, _) = listener.accept().await?;
        let bytes = meters.first().map_or(0, |meter| meter.wanted());
        tasks.spawn(async move {
            let chunk = vec![0; CHUNK];
            let mut left = bytes;
            while left > 0 {
                let size = CHUNK.min(usize::try_from(left).unwrap_or(CHUNK));
                stream.write_all(chunk.get(..size).unwrap_or(&[])).await?;
                left -= size as u64;
            }
            stream.shutdown().await?;
            anyhow::Ok(())
        });
    }
    while let Some(finished) = tasks.join_next().await {
        finished??;
    }
    Ok(())
}

async fn fetch(client: Node, address: SocketAddr, meter: Arc<Meter>) -> anyhow::Result<()> {
    let domain = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let socket = std::net::TcpStream::from(client.socket(domain, libc::SOCK_STREAM, 0)?);
    socket.set_nonblocking(true)?;
    let mut stream = TcpSocket::from_std_stream(socket).connect(address).await?;
    let mut buffer = vec![0; CHUNK];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            bytes => meter.add(bytes as u64),
        }
    }
}
