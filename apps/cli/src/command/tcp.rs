//! Connects over TCP where a network blocks UDP, as RFC 8305 does between versions of IP: UDP has a
//! head start, and whatever completes its handshake first is used.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use pathmark_http3::wire::TcpConnection;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Failure;
use super::reconnect::NoAnswer;
use super::session::now;

/// Delay between attempts to reach the addresses of a host (RFC 8305 section 5).
pub(super) const STAGGER: Duration = Duration::from_millis(250);
/// The head start of UDP: its first packet and two repetitions without a known round-trip time
/// (RFC 9002 section 6.2.2) have had no answer.
const HEAD_START: Duration = Duration::from_secs(1);
/// Time for an answer over UDP after a server over TCP was refused. It may be another program.
const LAST_CHANCE: Duration = Duration::from_secs(2);

/// A connection over UDP, or over TCP with the time that it took to begin.
#[derive(Debug)]
pub(super) enum Carrier<Q> {
    Quic(Q),
    Tcp(Box<TcpConnection>, Duration),
}

/// Connects to the address that answers first, and returns how long this took.
pub(super) async fn race(
    host: &str,
    addresses: Vec<SocketAddr>,
    tls: &Arc<rustls::ClientConfig>,
) -> anyhow::Result<(TcpConnection, Duration)> {
    let began = now();
    let mut addresses = addresses.into_iter();
    let (mut attempts, mut failed) = (JoinSet::new(), anyhow::Error::new(silent()));
    loop {
        if let Some(address) = addresses.next() {
            let (host, tls) = (host.to_owned(), Arc::clone(tls));
            attempts.spawn(async move { TcpConnection::connect(address, &host, tls).await });
        }
        let another = async {
            match addresses.len() {
                0 => std::future::pending().await,
                _ => sleep(STAGGER).await,
            }
        };
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(connection))) => return Ok((connection, began.elapsed())),
                Some(Ok(Err(error))) if error.kind() == io::ErrorKind::InvalidData => {
                    failed = anyhow!("over TCP: {error}");
                }
                Some(_) => {}
                None => return Err(failed),
            },
            () = another => {}
        }
    }
}

/// Returns the error of a host that does not answer over TCP.
fn silent() -> NoAnswer {
    NoAnswer("no answer over TCP".to_owned())
}

/// Returns true if a server has answered, so that its error counts.
fn is_answer(failure: &Failure) -> bool {
    !matches!(failure, Failure::Failed(error) if error.downcast_ref::<NoAnswer>().is_some())
}

/// Waits for a connection over UDP, and after its head start for one over TCP. An error of a server
/// over UDP is final.
pub(super) async fn either<Q>(
    over_udp: impl Future<Output = Result<Q, Failure>>,
    over_tcp: impl Future<Output = anyhow::Result<(TcpConnection, Duration)>>,
) -> Result<Carrier<Q>, Failure> {
    let (mut over_udp, mut over_tcp) = (pin!(over_udp), pin!(over_tcp));
    let tcp = |(connection, took)| Carrier::Tcp(Box::new(connection), took);
    let first = tokio::select! {
        biased;
        over_udp = &mut over_udp => Some(over_udp),
        () = sleep(HEAD_START) => None,
    };
    let refused = match first {
        Some(Ok(connected)) => return Ok(Carrier::Quic(connected)),
        Some(Err(error)) => error,
        None => tokio::select! {
            biased;
            over_udp = &mut over_udp => match over_udp {
                Ok(connected) => return Ok(Carrier::Quic(connected)),
                Err(error) => error,
            },
            over_tcp = &mut over_tcp => {
                let error = match over_tcp {
                    Ok(connected) => return Ok(tcp(connected)),
                    Err(error) => error,
                };
                if error.downcast_ref::<NoAnswer>().is_some() {
                    return over_udp.await.map(Carrier::Quic);
                }
                let last = timeout(LAST_CHANCE, over_udp).await;
                return last.unwrap_or(Err(error.into())).map(Carrier::Quic);
            }
        },
    };
    if is_answer(&refused) {
        return Err(refused);
    }
    match over_tcp.await {
        Ok(connected) => Ok(tcp(connected)),
        Err(error) if error.downcast_ref::<NoAnswer>().is_some() => Err(refused),
        Err(error) => Err(error.into()),
    }
}
