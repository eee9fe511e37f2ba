//! The size of a socket's receive buffer, which follows the connections that use it.
//!
//! Packets wait in this buffer while the process is busy, and a loss-based controller fills it. It
//! therefore must be small next to the path's round-trip time, yet large enough for what arrives
//! while the process doesn't run.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use quinn_udp::{UdpSockRef, UdpSocketState};

use pathmark_transport::Duration;

/// The largest size that an endpoint requests: enough for 20 ms at 2.5 Gbit/s.
const MAX: usize = 6 << 20;

/// The round-trip time from which [`MAX`] is requested. For shorter ones, the size shrinks in
/// proportion, so that a full buffer adds a quarter of the round-trip time at 2.5 Gbit/s.
const MAX_FROM: Duration = Duration::from_millis(80);

/// Bytes for each connection, because all of them can send a request at the same time.
const PER_CONNECTION: usize = 4096;

/// The receive buffer of an endpoint's socket. Both sizes are 0 for a
/// [`DatagramSocket`](super::DatagramSocket) of the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveBuffer {
    /// Bytes that the endpoint requested, or the socket's initial size as long as that is enough.
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

/// The size requested for a socket's receive buffer.
#[derive(Debug, Default)]
pub(super) struct Requested {
    /// The size that the kernel gave to this socket.
    least: usize,
    size: AtomicUsize,
    /// Held while the size changes.
    change: Mutex<()>,
}

impl Requested {
    pub(super) fn new(state: &UdpSocketState, socket: UdpSockRef<'_>) -> io::Result<Self> {
        let least = granted(state, socket)?;
        Ok(Self {
            least,
            size: least.into(),
            change: Mutex::default(),
        })
    }

    /// Returns the requested size in bytes.
    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    pub(super) fn compare(
        &self,
        state: &UdpSocketState,
        socket: UdpSockRef<'_>,
    ) -> io::Result<ReceiveBuffer> {
        Ok(ReceiveBuffer {
            requested: self.size(),
            granted: granted(state, socket)?,
        })
    }

    /// Requests `bytes` if this is more than before. The kernel may refuse or clamp this silently.
    pub(super) fn grow<'a>(
        &self,
        state: &UdpSocketState,
        socket: impl FnOnce() -> UdpSockRef<'a>,
        bytes: usize,
    ) {
        // This avoids the lock in the usual case.
        if bytes > self.size() {
            let guard = self.change.lock().unwrap_or_else(PoisonError::into_inner);
            if bytes > self.size() {
                self.set(state, socket(), bytes);
            }
            drop(guard);
        }
    }

    /// Requests `bytes`, or the size at the beginning if that is more. If a connection that needs
    /// more is missed, it requests this again when its task runs next.
    pub(super) fn shrink(&self, state: &UdpSocketState, socket: UdpSockRef<'_>, bytes: usize) {
        let guard = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        self.set(state, socket, bytes.max(self.least));
        drop(guard);
    }

    fn set(&self, state: &UdpSocketState, socket: UdpSockRef<'_>, bytes: usize) {
        self.size.store(bytes, Ordering::Relaxed);
        let _ = state.set_recv_buffer_size(socket, bytes);
    }
}

/// Linux includes its own bookkeeping and reports twice the granted size (socket(7)).
fn granted(state: &UdpSocketState, socket: UdpSockRef<'_>) -> io::Result<usize> {
    let share = if cfg!(target_os = "linux") { 2 } else { 1 };
    Ok(state.recv_buffer_size(socket)? / share)
}

/// Returns the bytes to request for a connection whose path has this round-trip time.
pub(super) fn for_path(rtt: Duration) -> usize {
    let milliseconds = |time: Duration| time.subsec_millis() as usize;
    MAX * milliseconds(rtt.min(MAX_FROM)) / milliseconds(MAX_FROM)
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

    /// Returns a socket whose buffer is small, so that the kernel's limit is far away.
    fn small() -> (UdpSocket, UdpSocketState) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).unwrap();
        let reference = UdpSockRef::from(&socket);
        state.set_recv_buffer_size(reference, 8192).unwrap();
        (socket, state)
    }

    #[test]
    fn it_grows_and_shrinks_to_its_first_size_at_most() {
        let (socket, state) = small();
        let reference = || UdpSockRef::from(&socket);
        let buffer = Requested::new(&state, reference()).unwrap();
        let size = || buffer.compare(&state, reference()).unwrap();
        let first = size();
        assert_eq!(first.requested, first.granted);
        buffer.grow(&state, reference, first.granted / 2);
        assert_eq!(size(), first);
        buffer.grow(&state, reference, 65_536);
        buffer.grow(&state, reference, 32_768);
        let mut grown = ReceiveBuffer {
            requested: 65_536,
            granted: 65_536,
        };
        assert_eq!(size(), grown);
        assert_eq!(grown.advice(), None);
        for (bytes, expected) in [(32_768, 32_768), (0, first.granted)] {
            buffer.shrink(&state, reference(), bytes);
            let size = size();
            assert_eq!((size.requested, size.granted), (expected, expected));
        }
        grown.granted = 4096;
        let clamped = grown;
        assert!(clamped.advice().unwrap().contains("4096 of 65536 bytes"));
    }

    #[test]
    fn the_largest_of_many_requests_wins() {
        for _ in 0..200 {
            let (socket, state) = small();
            let reference = || UdpSockRef::from(&socket);
            let buffer = Requested::new(&state, reference()).unwrap();
            let begin = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for bytes in [98_304, 65_536, 81_920, 49_152] {
                    let (begin, buffer, state) = (&begin, &buffer, &state);
                    scope.spawn(move || {
                        begin.wait();
                        buffer.grow(state, reference, bytes);
                    });
                }
            });
            let size = buffer.compare(&state, reference()).unwrap();
            assert_eq!((size.requested, size.granted), (98_304, 98_304));
        }
    }
}
