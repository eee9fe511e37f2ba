//! Bytes between a tunnel and a TCP connection. A FIN ends its direction alone; a reset of either
//! side, in either direction, is a reset of the other.
//!
//! A direction that its client has ended outlives the client's connection, because a client may
//! leave as soon as the transport has acknowledged all bytes, and the target may not have them by
//! then.

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

/// Bytes that one read of the socket takes: at first, and at most. A flow that fills what it has
/// gets twice as many.
const READ: (usize, usize) = (4 * 1024, 256 * 1024);
/// Time that a target has to take a piece of data once its client's connection is over.
const PATIENCE: Duration = Duration::from_secs(60);

/// Relays until both directions have ended. A future that is dropped before resets both sides: the
/// target's socket lingers for no time.
///
/// # Errors
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

/// From the tunnel to the target.
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
            // The target may have closed its side already.
            let _ = SockRef::from(target).shutdown(Shutdown::Write);
            return Ok(());
        };
        add(&all.bytes_up, chunk.len());
        flow.up().add(chunk.len());
        tokio::select! {
            written = flow.up().hand_over(write_all(target, chunk)) => written?,
            // A target that reads nothing would hide it for ever.
            () = recv.was_reset() => return Err(io::ErrorKind::ConnectionReset.into()),
            () = given_up(client) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Waits until the client has been gone for as long as a target is waited for then.
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

/// From the target to the tunnel.
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
        // No buffer waits with a flow that is idle.
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
            // A small piece would keep the whole buffer until it is acknowledged.
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

/// Waits for a reset of the target, or another failure of its connection.
async fn broken(target: &TcpStream) -> io::Error {
    match target.ready(Interest::ERROR).await {
        Ok(_) => match target.take_error() {
            Ok(Some(error)) | Err(error) => error,
            // A read or a write has got it.
            Ok(None) => std::future::pending().await,
        },
        Err(error) => error,
    }
}
