//! Joins a local connection and a flow.
//!
//! Each direction ends separately, converting a FIN to a shutdown. A reset of either side ends
//! both directions immediately, because TCP can't reset a single direction (RFC 9293
//! section 3.5.3, RFC 9114 section 4.4).
//!
//! Idle directions hold no memory. Reads use a buffer of the thread, and only bytes that the
//! other side doesn't accept immediately are kept.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::flows::Carried;
use crate::outbound::Abort;

/// Maximum number of bytes per read, and therefore the maximum that a direction holds.
const BUFFER: usize = 64 * 1024;

/// Idle time before TCP keep-alive probes a local peer.
const KEEP_ALIVE: Duration = Duration::from_secs(120);

/// The same after the peer has ended its direction.
const ENDED: Duration = Duration::from_secs(10);

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER].into());
}

/// The result of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes from the local side to the target.
    pub up: u64,
    /// Bytes from the target to the local side.
    pub down: u64,
    /// Whether a reset of either side ended the flow.
    pub reset: bool,
}

/// Joins a local connection and a flow until both directions have ended. `early` is sent to the
/// target first.
pub async fn splice<R, W>(
    local: TcpStream,
    early: Vec<u8>,
    mut read: R,
    mut write: W,
    carried: &Carried,
) -> Traffic
where
    R: AsyncRead + Abort + Unpin,
    W: AsyncWrite + Abort + Unpin,
{
    prepare(&local);
    reset_on_close(&local); // The bytes are incomplete if the tunnel ends first.
    let (mut from, mut to) = (Half(&local), Half(&local));
    let traffic = {
        let watch = pin!(broken(&local));
        let (read, write) = (&mut read, &mut write);
        join(&mut from, &mut to, early, read, write, watch, carried).await
    };
    if !traffic.reset {
        let _ = SockRef::from(&local).set_linger(None);
    }
    traffic
}

/// Joins any pair of local halves to a flow until both directions have ended.
pub async fn join<A, B, R, W>(
    from: &mut A,
    to: &mut B,
    early: Vec<u8>,
    read: &mut R,
    write: &mut W,
    mut broken: Pin<&mut impl Future<Output = ()>>,
    carried: &Carried,
) -> Traffic
where
    A: AsyncRead + Unpin,
    B: AsyncWrite + Unpin,
    R: AsyncRead + Abort + Unpin,
    W: AsyncWrite + Abort + Unpin,
{
    let (mut up, mut down) = (Direction::new(early), Direction::new(Vec::new()));
    let ended = poll_fn(|cx| {
        let before = (up.moved, down.moved);
        let (sent, received) = (up.poll(cx, from, write), down.poll(cx, read, to));
        for (meter, direction, before) in [
            (&carried.up, &up, before.0),
            (&carried.down, &down, before.1),
        ] {
            meter.add((direction.moved - before) as usize);
            meter.set_blocked(!direction.held.is_empty());
        }
        let (sent, received) = (sent?, received?);
        if sent.is_ready() && received.is_ready() {
            return Poll::Ready(Ok(()));
        }
        broken.as_mut().poll(cx).map(|()| Err(Broken))
    });
    let reset = ended.await.is_err();
    if reset {
        read.abort();
        write.abort();
    }
    Traffic {
        up: up.moved,
        down: down.moved,
        reset,
    }
}

/// One side was reset or failed.
struct Broken;

/// A direction's state.
struct Direction {
    /// Bytes read but not written yet, which begin at `written`.
    held: Vec<u8>,
    written: usize,
    moved: u64,
    state: State,
}

enum State {
    Open,
    /// The source has ended. Held bytes are written before the end.
    Ending,
    Ended,
}

impl Direction {
    fn new(held: Vec<u8>) -> Self {
        Self {
            held,
            written: 0,
            moved: 0,
            state: State::Open,
        }
    }

    /// Moves bytes until nothing more can be moved. Ready once the direction has ended.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<Result<(), Broken>> {
        loop {
            while let Some(rest) = self
                .held
                .get(self.written..)
                .filter(|rest| !rest.is_empty())
            {
                let wrote = ready!(write(cx, to, rest)?);
                self.written += wrote;
                self.moved += wrote as u64;
            }
            self.held.clear();
            self.written = 0;
            match self.state {
                State::Open => match self.pass(cx, from, to)? {
                    Poll::Ready(()) => {}
                    Poll::Pending => {
                        self.held = Vec::new();
                        // Since the reader has no data now, a buffering writer should send its
                        // bytes.
                        return match Pin::new(&mut *to).poll_flush(cx) {
                            Poll::Ready(Err(_)) => Poll::Ready(Err(Broken)),
                            _ => Poll::Pending,
                        };
                    }
                },
                State::Ending => {
                    // Shutting down stdout doesn't flush it.
                    ready!(Pin::new(&mut *to).poll_flush(cx)).map_err(|_| Broken)?;
                    ready!(Pin::new(&mut *to).poll_shutdown(cx)).map_err(|_| Broken)?;
                    self.state = State::Ended;
                }
                State::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Reads once and writes the bytes that the other side accepts.
    fn pass(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Result<Poll<()>, Broken> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            match Pin::new(from).poll_read(cx, &mut buffer) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(read) => read.map_err(|_| Broken)?,
            }
            let mut rest = buffer.filled();
            if rest.is_empty() {
                self.state = State::Ending;
            }
            while !rest.is_empty() {
                let Poll::Ready(wrote) = write(cx, to, rest)? else {
                    self.held.extend_from_slice(rest);
                    break;
                };
                self.moved += wrote as u64;
                rest = rest.get(wrote..).unwrap_or_default();
            }
            Ok(Poll::Ready(()))
        })
    }
}

/// Writes at least one byte.
fn write(
    cx: &mut Context<'_>,
    to: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
) -> Result<Poll<usize>, Broken> {
    match Pin::new(to).poll_write(cx, bytes) {
        Poll::Ready(Ok(wrote)) if wrote > 0 => Ok(Poll::Ready(wrote)),
        Poll::Ready(_) => Err(Broken),
        Poll::Pending => Ok(Poll::Pending),
    }
}

/// Makes a local connection send immediately and detect that its peer has gone.
fn prepare(local: &TcpStream) {
    // Both only fail if the connection has ended, which the first read detects.
    let _ = local.set_nodelay(true);
    let _ = SockRef::from(local).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE));
}

/// Makes the kernel check soon whether a local peer that has ended its direction still receives.
/// If it has closed its socket, its kernel answers with a reset once it has discarded the
/// connection.
fn ask_soon(local: &TcpStream) {
    let often = TcpKeepalive::new().with_time(ENDED).with_interval(ENDED);
    let _ = SockRef::from(local).set_tcp_keepalive(&often);
}

/// Makes the kernel send a reset when the connection is closed.
pub(super) fn reset_on_close(local: &TcpStream) {
    // This only fails if the connection has ended.
    let _ = SockRef::from(local).set_linger(Some(Duration::ZERO));
}

/// Waits until a connection is reset, even if neither direction is being read or written.
pub(super) async fn broken(local: &TcpStream) {
    loop {
        match local.ready(Interest::ERROR).await {
            Ok(ready) if ready.is_error() => return,
            Ok(_) => {}
            // The runtime is shutting down.
            Err(_) => return,
        }
    }
}

/// One direction of a connection.
pub(super) struct Half<'a>(pub(super) &'a TcpStream);

impl AsyncRead for Half<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(read) => {
                    if read == 0 {
                        ask_soon(self.0);
                    }
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Half<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                wrote => return Poll::Ready(wrote),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(self.0).shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
    use tokio::net::TcpListener;

    use super::*;

    impl Abort for ReadHalf<DuplexStream> {
        fn abort(&mut self) {}
    }

    impl Abort for WriteHalf<DuplexStream> {
        fn abort(&mut self) {}
    }

    /// The target accepts only a few bytes at a time, so that some are held.
    #[tokio::test]
    async fn bytes_pass_whole_and_small_segments_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (mut client, (local, _)) = (client.unwrap(), listener.accept().await.unwrap());
        let other = TcpStream::from_std(std::net::TcpStream::from(socket2::Socket::from(
            std::os::fd::AsFd::as_fd(&local)
                .try_clone_to_owned()
                .unwrap(),
        )))
        .unwrap();
        let (flow, mut target) = tokio::io::duplex(7);
        let (read, write) = tokio::io::split(flow);
        let splice = tokio::spawn(async move {
            splice(local, b"early ".to_vec(), read, write, &Carried::default()).await
        });

        client.write_all(b"and what follows").await.unwrap();
        client.shutdown().await.unwrap();
        let mut got = String::new();
        target.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "early and what follows");
        assert!(other.nodelay().unwrap());
        target.write_all(b"an answer of some length").await.unwrap();
        drop(target);
        let mut got = String::new();
        client.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "an answer of some length");
        let traffic = Traffic {
            up: 22,
            down: 24,
            reset: false,
        };
        assert_eq!(splice.await.unwrap(), traffic);
    }

    /// While a target accepts no bytes, they are held in a bounded amount of memory.
    #[tokio::test]
    async fn a_direction_holds_one_read_at_most() {
        let mut direction = Direction::new(Vec::new());
        let (mut client, mut local) = tokio::io::duplex(4 * BUFFER);
        let (mut flow, mut target) = tokio::io::duplex(1_000);
        let sent = vec![1; 3 * BUFFER];
        client.write_all(&sent).await.unwrap();
        drop(client);
        let moved = poll_fn(|cx| {
            let moved = direction.poll(cx, &mut local, &mut flow);
            assert!(direction.held.len() <= BUFFER);
            moved
        });
        let mut got = Vec::new();
        let (moved, read) = tokio::join!(moved, target.read_to_end(&mut got));
        assert!(moved.is_ok() && read.is_ok() && got == sent);
    }
}
