//! Answers to XCP-i routers that measure what the hops between this host and them leave: a host
//! whose first router lies behind such hops is the one before the cloud.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant as Clock};

use anyhow::{Context, bail};
use pathmark_cc::Instant;
use xcp_edge::{Edge, Estimator, Key, Limits, Prober, Requester};

/// UDP port of messages: the one that routers use unless they are told another.
const PORT: u16 = 6653;
/// Largest UDP payload of a train's packet: what fits 1500 bytes with either version of IP.
const PACKET: u16 = 1452;
/// What trains may run ahead, in seconds of their rate.
const AHEAD: u64 = 10;
/// Until the next packet of a train that is waited for without looking for messages.
const SHORT: Duration = Duration::from_millis(2);
/// Longest wait for a message.
const LONG: Duration = Duration::from_secs(1);

/// Answers at `own`, from now on, whoever knows the secret in the file `secret`, with trains of
/// `rate` bits per second over time.
pub(super) fn start(own: IpAddr, secret: &Path, rate: u64) -> anyhow::Result<()> {
    if own.is_unspecified() {
        bail!("routers are answered at an address of this host's own: name it in --listen");
    }
    let text = std::fs::read_to_string(secret)
        .with_context(|| format!("cannot read {}", secret.display()))?;
    let key = Key::new(text.trim().as_bytes())
        .with_context(|| format!("{} holds no secret", secret.display()))?;
    let place = SocketAddr::new(own, PORT);
    let socket =
        UdpSocket::bind(place).with_context(|| format!("cannot answer routers at {place}"))?;
    let (mut start, mut run) = ([0; 32], [0; 8]);
    let mut random = File::open("/dev/urandom").context("cannot draw random numbers")?;
    random.read_exact(&mut start)?;
    random.read_exact(&mut run)?;
    let limits = Limits {
        rate: rate / 8,
        burst: rate / 8 * AHEAD,
        packet: PACKET,
    };
    let now = Instant::ZERO;
    let prober = Prober::new(now, own, key.clone(), Key::new(&start)?, limits);
    // It never asks.
    let first = Estimator::first_train(PACKET);
    let requester = Requester::new(now, own, key.clone(), u64::from_ne_bytes(run), first);
    let edge = Edge::new(own, key, prober, requester);
    std::thread::Builder::new()
        .name("xcp-i".to_owned())
        .spawn(move || answer(&socket, edge))?;
    Ok(())
}

/// For ever: a socket that fails is tried again a second later.
#[expect(
    clippy::disallowed_methods,
    reason = "this thread owns the clock of what it answers"
)]
fn answer(socket: &UdpSocket, mut edge: Edge) {
    let begin = Clock::now();
    let now = || {
        let elapsed = begin.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
    };
    let (mut coming, mut going) = ([0; 2048], [0; 2048]);
    loop {
        while let Some(transmit) = edge.prober.poll_transmit(now(), &mut going) {
            // A packet of a train that is lost here is lost as on the way.
            let _ = socket.send_to(going.get(..transmit.len).unwrap_or(&[]), transmit.to);
        }
        let wait = edge
            .deadline()
            .map_or(LONG, |at| at.saturating_since(now()));
        let soon = wait < SHORT;
        if soon {
            // Timeouts of sockets are coarser than the gaps of a train.
            std::thread::sleep(wait);
        }
        let waits = match soon {
            true => socket.set_nonblocking(true),
            false => socket
                .set_nonblocking(false)
                .and_then(|()| socket.set_read_timeout(Some(wait.min(LONG) - SHORT / 2))),
        };
        if waits.is_err() {
            std::thread::sleep(LONG);
        }
        match socket.recv_from(&mut coming) {
            Ok((len, from)) => {
                let bytes = coming.get(..len).unwrap_or(&[]);
                let _ = edge.on_datagram(now(), from, bytes);
            }
            Err(error) if is_no_message(&error) => {}
            Err(_) => std::thread::sleep(SHORT),
        }
    }
}

/// Nothing came in time, or an ICMP message about a packet that was sent.
fn is_no_message(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionRefused
    )
}
