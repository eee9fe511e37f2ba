//! Connects clients to the address of a server that answers first, and checks its certificate.

use std::cell::Cell;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::stream::{FuturesUnordered, StreamExt};
use pathmark_http3::wire::ALPN_TCP;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::wire::TransportErrorCode;

use super::reconnect::NoAnswer;
use super::session::{Stop, interrupted, now};
use super::target::Target;
use super::tcp::{self, Carrier, STAGGER};
use super::trust::{Judge, Shown};
use super::{Failure, output, values};
use pathmark::{ClientConfig, Connection, Endpoint, TransportConfig};

/// Time without an answer after which the user is informed, which should happen within 2 s.
/// Unless a packet is lost, a handshake over 600 ms is faster than this, even with a Retry.
const SILENCE: Duration = Duration::from_millis(1600);

/// Maximum time for an attempt, the same as for the transport's handshake.
const LONGEST_CONNECT: Duration = Duration::from_secs(30);

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Connected<T> {
    pub(super) connection: Connection,
    /// The duration of the handshake.
    pub(super) handshake: Duration,
    /// The value that was prepared for this connection.
    pub(super) prepared: T,
}

/// How long a client tries.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct ConnectArgs {
    /// Give up after this time without a connection, 30s at most
    #[arg(long, value_name = "DUR", value_parser = connect_timeout, default_value = "30s")]
    connect_timeout: Duration,
}

fn connect_timeout(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        time if time.is_zero() || time > LONGEST_CONNECT => {
            Err(format!("`{text}` is not above 0s and up to 30s"))
        }
        time => Ok(time),
    }
}

/// The server to connect to, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    pub(super) target: &'a Target,
    pub(super) trust: Judge<'a>,
    pub(super) limits: ConnectArgs,
    /// The certificate to present if the server requests one.
    pub(super) shown: Option<&'a Shown>,
    pub(super) stop: &'a Stop,
}

/// Connects to the address of a server that answers first. Each attempt starts a moment after the
/// previous attempt, or as soon as that has failed. `before` is called with the endpoint and the
/// remote address before the first packet is sent.
pub(super) async fn connect<T>(
    way: Way<'_>,
    alpn: &[&[u8]],
    transport: TransportConfig,
    before: impl FnMut(&Endpoint, SocketAddr) -> T,
) -> Result<Connected<T>, Failure> {
    match connect_any(way, alpn, transport, before, false).await? {
        Carrier::Quic(connected) => Ok(connected),
        Carrier::Tcp(..) => Err(anyhow!("TCP is not of use here").into()),
    }
}

/// Does the same, but with `tcp` also connects over TCP to a server that gives no answer over UDP.
pub(super) async fn connect_any<T>(
    way: Way<'_>,
    alpn: &[&[u8]],
    transport: TransportConfig,
    before: impl FnMut(&Endpoint, SocketAddr) -> T,
    tcp: bool,
) -> Result<Carrier<Connected<T>>, Failure> {
    let Way {
        target,
        trust,
        limits,
        shown,
        stop,
    } = way;
    let mut tls = trust.config(alpn)?;
    if let Some(shown) = shown {
        tls = tls
            .with_certificate(&shown.chain, &shown.key)
            .map_err(Failure::usage)?;
    }
    let over_tcp = Arc::new(tls.over_tcp(&[ALPN_TCP]));
    let config = ClientConfig::with_transport(Arc::new(tls), Arc::new(transport));
    let resolved = Cell::new(false);
    let connecting = async {
        // A name server that doesn't answer now might do so later.
        let addresses = target.resolve().await;
        resolved.set(true);
        let addresses = addresses.map_err(|error| NoAnswer(output::explain(&error)));
        let addresses = addresses.map_err(anyhow::Error::new)?;
        let over_udp = race(target, addresses.clone(), &config, before);
        if tcp {
            let over_tcp = tcp::race(&target.host, addresses, &over_tcp);
            tcp::either(over_udp, over_tcp).await
        } else {
            Ok(Carrier::Quic(over_udp.await?))
        }
    };
    let server = target.server();
    let time = limits.connect_timeout;
    let silence = async {
        tokio::time::sleep(time.min(SILENCE)).await;
        if time > SILENCE {
            let (of, why) = if resolved.get() {
                (&server, "a firewall may drop UDP, or no server runs there")
            } else {
                (&target.host, "no name server says its addresses")
            };
            output::note!(
                "pathmark: no answer yet from {}: {why}; --connect-timeout ends the attempt after \
                 {time:?}",
                output::plain(of)
            );
            tokio::time::sleep(time - SILENCE).await;
        }
    };
    let connected = tokio::select! {
        connected = connecting => connected?,
        () = stop.stopped() => return Err(interrupted().into()),
        () = silence => {
            let why = format!("cannot connect to {server}: no answer within {time:?}");
            return Err(anyhow::Error::new(NoAnswer(why)).into());
        }
    };
    let chain = match &connected {
        Carrier::Quic(connected) => connected.connection.peer_certificates(),
        Carrier::Tcp(connection, _) => connection.peer_certificates(),
    };
    tokio::select! {
        checked = trust.check(chain, target) => checked?,
        () = stop.stopped() => return Err(interrupted().into()),
    }
    Ok(connected)
}

/// Connects to the address that answers first.
async fn race<T, B: FnMut(&Endpoint, SocketAddr) -> T>(
    target: &Target,
    addresses: Vec<SocketAddr>,
    config: &ClientConfig,
    mut before: B,
) -> Result<Connected<T>, Failure> {
    let mut addresses = addresses.into_iter();
    let (mut attempts, mut failed) = (FuturesUnordered::new(), Vec::new());
    let (mut is_final, mut serves_other) = (false, false);
    loop {
        if let Some(address) = addresses.next() {
            attempts.push(attempt(target, address, config.clone(), &mut before)?);
        }
        let another = async {
            match addresses.len() {
                0 => std::future::pending().await,
                _ => tokio::time::sleep(STAGGER).await,
            }
        };
        let ended = tokio::select! {
            ended = attempts.next() => ended,
            () = another => continue,
        };
        match ended {
            Some(Ok(connected)) => return Ok(connected),
            Some(Err(error)) => {
                is_final |= is_answer(&error);
                serves_other |= is_without_protocol(&error);
                failed.push(output::explain(&error));
            }
            None => {}
        }
        if attempts.is_empty() && addresses.len() == 0 {
            let (server, mut why) = (target.server(), failed.join("; "));
            if serves_other {
                why += "; get, put and ls need `pathmark serve` there, perf client needs `pathmark \
                    perf server`, and tunnel needs `pathmark proxy`";
            }
            let why = format!("cannot connect to {server}: {why}");
            return Err(if is_final {
                anyhow!(why).into()
            } else {
                anyhow::Error::new(NoAnswer(why)).into()
            });
        }
    }
}

/// Returns true if a server answered, so that another attempt would fail for the same reason.
fn is_answer(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<ConnectionError>() {
        Some(ConnectionError::ConnectionClosed(error)) => {
            error.code != TransportErrorCode::CONNECTION_REFUSED
        }
        Some(
            ConnectionError::TransportError(_)
            | ConnectionError::VersionMismatch
            | ConnectionError::TokenTooLong(_),
        ) => true,
        _ => false,
    }
}

/// Returns true if the server speaks none of the protocols that the client offers (RFC 7301 §3.2).
fn is_without_protocol(error: &anyhow::Error) -> bool {
    const NO_APPLICATION_PROTOCOL: TransportErrorCode = TransportErrorCode::crypto(120);
    matches!(
        error.downcast_ref::<ConnectionError>(),
        Some(ConnectionError::ConnectionClosed(error)) if error.code == NO_APPLICATION_PROTOCOL
    )
}

/// Starts connecting to one address.
fn attempt<T, B: FnMut(&Endpoint, SocketAddr) -> T>(
    target: &Target,
    address: SocketAddr,
    config: ClientConfig,
    before: &mut B,
) -> Result<impl Future<Output = anyhow::Result<Connected<T>>> + use<T, B>, Failure> {
    let unspecified: SocketAddr = if address.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let opened = Endpoint::client(unspecified).context("cannot open a UDP socket");
    // Must precede the first packet, which the connection's task can send on another core.
    let started = now();
    let begun = match opened {
        Ok(endpoint) => {
            let prepared = before(&endpoint, address);
            let connecting = endpoint.connect_with(config, address, &target.host);
            let connecting = connecting.map_err(Failure::usage)?;
            Ok((endpoint, prepared, connecting))
        }
        // This machine may not support this address family.
        Err(error) => Err(error),
    };
    // Don't repeat an address that the user entered.
    let named = target.host.parse::<IpAddr>().is_err();
    Ok(async move {
        let (_endpoint, prepared, connecting) = begun?;
        let connection = match connecting.await {
            Err(error) if named => return Err(error).context(address.to_string()),
            other => other?,
        };
        Ok(Connected {
            connection,
            handshake: started.elapsed(),
            prepared,
        })
    })
}

#[cfg(test)]
mod tests {
    use pathmark::ServerConfig;
    use pathmark_cc::Algorithm;

    use super::super::identity::Identity;
    use super::super::session::{DscpArgs, transport};
    use super::*;

    /// No host answers at the first address.
    #[tokio::test]
    async fn an_address_that_does_not_answer_is_not_the_only_one_tried() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let tls = Identity::new(&[b"test"]).unwrap().tls;
        let transport = || Arc::new(transport(&Algorithm::default(), DscpArgs { dscp: 0 }));
        let config = ServerConfig::with_transport(Arc::new(tls), transport());
        let server = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
        let live = server.local_address();
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                if let Ok(connecting) = incoming.accept() {
                    tokio::spawn(async { drop(connecting.await) });
                }
            }
        });
        let target: Target = "localhost:1/a".parse().unwrap();
        let trust = pathmark_transport::crypto::tls::Trust::Anyone;
        let tls = pathmark::tls::TlsClientConfig::new(trust, &[b"test"]).unwrap();
        let config = ClientConfig::with_transport(Arc::new(tls), transport());
        let addresses = vec![silent.local_addr().unwrap(), live];
        let connected = race(&target, addresses, &config, |_, address| address).await;
        assert_eq!(connected.unwrap().prepared, live);
    }
}
