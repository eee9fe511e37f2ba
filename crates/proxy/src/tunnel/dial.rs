//! Connections to a proxy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use pathmark_transport::driver::{ClientConfig, Connection, Endpoint};
use tokio::net::lookup_host;
use tokio::task::JoinSet;

use crate::target::{Host, Target};

/// Time from an attempt to reach one address to the next one (RFC 8305 section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Connects to a proxy. Each time its name is resolved again.
#[derive(Clone, Debug)]
pub struct Dialer {
    server: Target,
    config: ClientConfig,
}

impl Dialer {
    /// Connects to `server` with the application protocol
    /// [`ALPN`](pathmark_http3::wire::ALPN), which `config` has to offer.
    #[must_use]
    pub const fn new(server: Target, config: ClientConfig) -> Self {
        Self { server, config }
    }

    /// The proxy.
    pub(super) const fn server(&self) -> &Target {
        &self.server
    }

    /// A connection whose handshake is complete, to whichever address answers first; or why there
    /// is none.
    pub(super) async fn dial(&self) -> Result<Connection, String> {
        let host = match &self.server.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        };
        let found = lookup_host((host.as_str(), self.server.port)).await;
        let found = found.map_err(|error| format!("the name {host} has no address: {error}"))?;
        let mut addresses = found.collect::<Vec<_>>().into_iter();
        let (mut attempts, mut failed) = (JoinSet::new(), Vec::new());
        loop {
            if let Some(address) = addresses.next() {
                attempts.spawn(attempt(self.config.clone(), address, host.clone()));
            } else if attempts.is_empty() {
                return Err(failed.join("; "));
            }
            let another = async {
                match addresses.len() {
                    0 => std::future::pending().await,
                    _ => tokio::time::sleep(STAGGER).await,
                }
            };
            tokio::select! {
                Some(ended) = attempts.join_next() => match ended {
                    Ok(Ok(connection)) => return Ok(connection),
                    Ok(Err(why)) => failed.push(why),
                    Err(error) => failed.push(error.to_string()),
                },
                () = another => {}
            }
        }
    }
}

async fn attempt(
    config: ClientConfig,
    address: SocketAddr,
    host: String,
) -> Result<Connection, String> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let failed = |error: &dyn std::fmt::Display| format!("{address}: {error}");
    let endpoint = Endpoint::client((any, 0).into()).map_err(|error| failed(&error))?;
    let connecting = endpoint.connect_with(config, address, &host);
    let connecting = connecting.map_err(|error| failed(&error))?;
    connecting.await.map_err(|error| failed(&error))
}
