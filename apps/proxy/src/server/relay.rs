//! Relays bytes between a tunnel and a TCP connection. A FIN only ends its direction, whereas a
//! reset of either side in either direction also resets the other side.
//!
//! After the client has ended a direction, this direction outlives the client's connection. This
//! is necessary because a client can leave as soon as the transport has acknowledged all bytes,
//! when the target might not have received them yet.

use std::io;
use std::net::Shutdown;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use pathmark_driver::Connection;
use pathmark_http3::wire::{TunnelRecv, TunnelSend};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::counters::{Counters, add};
use crate::flows::Carried;

/// Initial and maximum number of bytes per socket read. The size doubles when a flow fills it.
const READ: (usize, usize) = (4 * 1024, 256 * 1024);
/// Time for a target to accept a piece of data after its client's connection has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// Relays until both directions have ended. Dropping the future earlier resets both sides,
/// because the target's socket has zero linger time.
///
/// A reset of either side, which has then also been sent to the other side.
/// A reset of either side, which the other side has got then.
pub(super) async fn relay(
    target: TcpStream,
    client: &Connection,
    (mut send, mut recv): (TunnelSend, TunnelRecv),
    bytes: (&Counters, &Carried),
) -> io::Result<()> {
    let relayed = tokio::try_join!(
        up(&target, client, &mut recv, bytes),
        down(&target, &mut send, bytes),
    );
    match relayed {
        Ok(_) => SockRef::from(&target).set_linger(None),
        Err(error) => {
            send.reset();
            recv.stop();
            Err(error)
        }
    }
}

/// Relays from the tunnel to the target.
async fn up(
    target: &TcpStream,
    client: &Connection,
    recv: &mut TunnelRecv,
    (all, flow): (&Counters, &Carried),
) -> io::Result<()> {
    loop {
        let chunk = tokio::select! {
            chunk = recv.chunk() => chunk?,
            error = broken(target) => return Err(error),
        };
        let Some(chunk) = chunk else {
            // The target may have already closed its side.
            let _ = SockRef::from(target).shutdown(Shutdown::Write);
            return Ok(());
        };
        add(&all.bytes_up, chunk.len());
        flow.up().add(chunk.len());
        tokio::select! {
            written = flow.up().hand_over(write_all(target, chunk)) => written?,
            // If the target reads nothing, waiting only for the write would hide a reset forever.
            () = recv.was_reset() => return Err(io::ErrorKind::ConnectionReset.into()),
            () = given_up(client) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Waits until the client is gone and the target has had enough time.
async fn given_up(client: &Connection) {
    client.closed().await;
    tokio::time::sleep(PATIENCE).await;
}

async fn write_all(target: &TcpStream, mut data: Bytes) -> io::Result<()> {
    while data.has_remaining() {
        target.writable().await?;
        match target.try_write(&data) {
            Ok(written) => data.advance(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Relays from the target to the tunnel.
async fn down(
    target: &TcpStream,
    send: &mut TunnelSend,
    (all, flow): (&Counters, &Carried),
) -> io::Result<()> {
    let stopped = send.stopped();
    tokio::pin!(stopped);
    let mut size = READ.0;
    loop {
        tokio::select! {
            ready = target.readable() => ready?,
            _ = &mut stopped => return Err(io::ErrorKind::ConnectionReset.into()),
        }
        // Allocated per read, so that idle flows hold no buffer.
        let mut buffer = BytesMut::with_capacity(size);
        let read = match target.try_read_buf(&mut buffer) {
            Ok(0) => return send.finish().await,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        add(&all.bytes_down, read);
        flow.down().add(read);
        let data = match read * 2 < buffer.capacity() {
            // Copy a small piece, which would otherwise keep the whole buffer until it is
            // acknowledged.
            true => Bytes::copy_from_slice(&buffer),
            false => buffer.freeze(),
        };
        size = match read == size {
            true => (size * 2).min(READ.1),
            false => read.next_power_of_two().clamp(READ.0, size),
        };
        tokio::select! {
            sent = flow.down().hand_over(send.send(data)) => sent?,
            error = broken(target) => return Err(error),
        }
    }
}

/// Waits for a reset by the target or another error of its connection.
async fn broken(target: &TcpStream) -> io::Error {
    match target.ready(Interest::ERROR).await {
        Ok(_) => match target.take_error() {
            Ok(Some(error)) | Err(error) => error,
            // A read or a write has already returned it.
            Ok(None) => std::future::pending().await,
        },
        Err(error) => error,
    }
}
