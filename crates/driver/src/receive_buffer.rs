//! The size of a socket's receive buffer, which grows with what arrives there.
//!
//! Packets wait in this buffer while the process is busy, and a loss-based controller fills it. It
//! therefore must be small next to the path's round-trip time, yet large enough for what arrives
//! while the process doesn't run.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use quinn_udp::{UdpSockRef, UdpSocketState};

use pathmark_transport::Duration;

/// The largest size that an endpoint requests: enough for 20 ms at 2.5 Gbit/s.
const MAX: usize = 6 << 20;

/// The round-trip time from which [`MAX`] is requested. For shorter ones, the size shrinks in
/// proportion, so that a full buffer adds a quarter of the round-trip time at 2.5 Gbit/s.
const MAX_FROM: Duration = Duration::from_millis(80);

/// Bytes for each connection, because all of them can send a request at the same time.
const PER_CONNECTION: usize = 4096;

/// The receive buffer of an endpoint's socket: what the endpoint has requested so far, and what the
/// kernel granted. Both are 0 for a [`DatagramSocket`](super::DatagramSocket) of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveBuffer {
    /// Bytes that the endpoint requested. This is 0 while the system's default is enough.
    pub requested: usize,
    /// Bytes that the kernel granted.
    pub granted: usize,
}

impl ReceiveBuffer {
    /// Tells which limit of the kernel you should raise. Returns `None` if it granted what the
    /// endpoint requested.
    pub fn advice(&self) -> Option<String> {
        let Self { requested, granted } = self;
        (granted < requested).then(|| {
            format!(
                "the kernel granted {granted} of {requested} bytes for the socket's receive \
                 buffer; on fast paths, raise its limit: sysctl -w net.core.rmem_max={MAX}"
            )
        })
    }
}

/// A receive buffer for which no less is requested than before, or than the socket had at first.
#[derive(Debug, Default)]
pub(super) struct Growing {
    requested: AtomicUsize,
    granted: AtomicUsize,
}

impl Growing {
    /// Begins with the size that the kernel gave to this socket.
    pub(super) fn new(state: &UdpSocketState, socket: UdpSockRef<'_>) -> io::Result<Self> {
        Ok(Self {
            requested: AtomicUsize::new(0),
            granted: AtomicUsize::new(granted(state, socket)?),
        })
    }

    pub(super) fn size(&self) -> ReceiveBuffer {
        ReceiveBuffer {
            requested: self.requested.load(Ordering::Relaxed),
            granted: self.granted.load(Ordering::Relaxed),
        }
    }

    /// Requests `bytes` if this is more than before. The kernel may refuse or clamp this silently.
    pub(super) fn grow<'a>(
        &self,
        state: &UdpSocketState,
        socket: impl Fn() -> UdpSockRef<'a>,
        bytes: usize,
    ) {
        let enough = self.granted.load(Ordering::Relaxed);
        // The second part avoids writing to this memory in the usual case.
        if bytes <= enough
            || bytes <= self.requested.load(Ordering::Relaxed)
            || bytes <= self.requested.fetch_max(bytes, Ordering::Relaxed)
        {
            return;
        }
        // Several tasks can be here at once: whoever is last must set the largest size.
        let mut set = 0;
        while set != self.requested.load(Ordering::Relaxed) {
            set = self.requested.load(Ordering::Relaxed);
            let _ = state.set_recv_buffer_size(socket(), set);
        }
        if let Ok(now) = granted(state, socket()) {
            self.granted.store(now, Ordering::Relaxed);
        }
    }
}

/// Linux includes its own bookkeeping and reports twice the granted size (socket(7)).
fn granted(state: &UdpSocketState, socket: UdpSockRef<'_>) -> io::Result<usize> {
    let share = if cfg!(target_os = "linux") { 2 } else { 1 };
    Ok(state.recv_buffer_size(socket)? / share)
}

/// Returns the bytes to request for a connection whose path has this round-trip time.
pub(super) fn for_path(rtt: Duration) -> usize {
    let rtt = rtt.min(MAX_FROM).as_micros();
    let bytes = MAX as u128 * rtt / MAX_FROM.as_micros();
    usize::try_from(bytes).unwrap_or(MAX)
}

/// Returns the bytes to request for this number of connections, which changes only each time that
/// it doubles.
pub(super) fn for_connections(connections: usize) -> usize {
    let rounded = connections.min(MAX).next_power_of_two();
    rounded.saturating_mul(PER_CONNECTION).min(MAX)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_full_buffer_is_a_quarter_of_the_round_trip_time() {
        let ms = Duration::from_millis;
        assert_eq!(for_path(ms(80)), MAX);
        assert_eq!(for_path(ms(600)), MAX);
        // 2.5 Gbit/s are 312,500 bytes per millisecond.
        assert!((for_path(ms(8)) as i64 - 2 * 312_500).abs() < 10_000);
        assert_eq!(for_path(Duration::ZERO), 0);
        assert_eq!(for_connections(3), 4 * PER_CONNECTION);
        assert_eq!(for_connections(usize::MAX), MAX);
    }

    #[test]
    fn it_grows_and_never_shrinks() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).unwrap();
        let reference = || UdpSockRef::from(&socket);
        // A small beginning, so that the kernel's limit is far away.
        state.set_recv_buffer_size(reference(), 8192).unwrap();
        let buffer = Growing::new(&state, reference()).unwrap();
        assert_eq!(buffer.size().requested, 0);
        let first = buffer.size().granted;
        buffer.grow(&state, reference, first / 2);
        assert_eq!(buffer.size().requested, 0, "the default is enough");
        buffer.grow(&state, reference, 65_536);
        buffer.grow(&state, reference, 32_768);
        let grown = ReceiveBuffer {
            requested: 65_536,
            granted: 65_536,
        };
        assert_eq!(buffer.size(), grown);
        assert_eq!(grown.advice(), None);
        let clamped = ReceiveBuffer {
            granted: 4096,
            ..grown
        };
        assert!(clamped.advice().unwrap().contains("4096 of 65536 bytes"));
    }
}
