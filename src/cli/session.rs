//! The runtime, endpoints and configurations that the commands share.

use std::future::Future;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use pathmark_cc::Algorithm;
use pathmark_transport::endpoint::RetryPolicy;
use serde::Serialize;

use super::target::Target;
use super::trust::{CertificateArgs, TrustArgs};
use super::{Failure, Outcome, output};
use crate::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};

/// Runs a command's future; Ctrl-C ends it as a failure.
pub(super) fn run(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        tokio::select! {
            outcome = command => outcome,
            _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted").into()),
        }
    })
}

/// What a server prints once it accepts connections.
#[derive(Debug, Serialize)]
struct Listening {
    listening: SocketAddr,
    pin: Option<String>,
}

/// Binds a server and says so.
pub(super) fn listen(
    address: SocketAddr,
    certificate: &CertificateArgs,
    alpn: &[u8],
    transport: TransportConfig,
    retry: bool,
    json: bool,
) -> Result<Endpoint, Failure> {
    let tls = certificate.config(alpn)?;
    let pin = tls.pin().map(|pin| pin.to_string());
    let mut config = ServerConfig::new(Arc::new(tls), Arc::new(transport));
    if retry {
        config.retry(RetryPolicy::Always);
    }
    let endpoint = Endpoint::server(config, address).with_context(|| {
        format!("cannot listen on {address}: is the port taken, or the address another machine's?")
    })?;
    let listening = Listening {
        listening: endpoint.local_address(),
        pin,
    };
    if json {
        output::json(&listening)?;
    } else {
        let pin = listening.pin.as_deref().unwrap_or("by its authority");
        output::line(format_args!(
            "listening on {}, pin {pin}",
            listening.listening
        ))?;
    }
    Ok(endpoint)
}

/// Connects to a server; the time that it took comes along. `before` is told from where and where
/// to before the first packet leaves.
pub(super) async fn connect(
    target: &Target,
    trust: &TrustArgs,
    alpn: &[u8],
    transport: TransportConfig,
    before: impl FnOnce(&Endpoint, SocketAddr),
) -> Result<(Endpoint, Connection, std::time::Duration), Failure> {
    let tls = trust.config(alpn)?;
    let address = target.resolve()?;
    let unspecified: SocketAddr = if address.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let endpoint = Endpoint::client(unspecified).context("cannot open a UDP socket")?;
    before(&endpoint, address);
    let config = ClientConfig::new(Arc::new(tls), Arc::new(transport));
    let started = now();
    let connection = endpoint
        .connect(config, address, &target.host)
        .map_err(Failure::usage)?
        .await
        .with_context(|| {
            format!(
                "cannot connect to {}:{} ({address})",
                target.host, target.port
            )
        })?;
    Ok((endpoint, connection, started.elapsed()))
}

/// How the packets' IP headers are marked.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct DscpArgs {
    /// Differentiated services code point of the packets, 0 to 63: 46 is expedited forwarding
    /// (Linux only)
    #[arg(long, value_name = "N", default_value = "0")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=63))]
    pub(super) dscp: u8,
}

/// The transport's configuration for `--cc` and `--dscp`.
pub(super) fn transport(algorithm: &Algorithm, marking: DscpArgs) -> TransportConfig {
    let mut config = crate::transport_config(algorithm);
    config.dscp = marking.dscp;
    config
}

/// Wall time, for what people are told.
#[expect(clippy::disallowed_methods, reason = "the command owns its clock")]
pub(super) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Time since 1970-01-01 UTC, for what outlives this process.
#[expect(clippy::disallowed_methods, reason = "the command owns its clock")]
pub(super) fn unix_time() -> std::time::Duration {
    let epoch = std::time::UNIX_EPOCH;
    let since = std::time::SystemTime::now().duration_since(epoch);
    since.unwrap_or_default()
}

/// Waits before the next look at a lock that another process holds.
#[expect(clippy::disallowed_methods, reason = "the command owns its clock")]
pub(super) fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    #[test]
    fn packets_get_the_code_point_that_was_asked_for() {
        assert_eq!(
            super::transport(&Default::default(), super::DscpArgs { dscp: 46 }).dscp,
            46
        );
    }
}
