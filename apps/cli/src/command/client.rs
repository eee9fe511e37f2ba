//! The common part of file clients: connecting, and printing results.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use pathmark::{Connection, TransportConfig};
use pathmark_http3::client::{Client, ClientLimits};
use pathmark_http3::pace::Pace;
use pathmark_http3::wire::ALPN;

use super::connect::{ConnectArgs, Connected, Way};
use super::reconnect::ReconnectArgs;
use super::session::{self, Stop};
use super::state::uploads::Uploads;
use super::state::{StateArgs, Visit};
use super::target::Target;
use super::trust::{HostTrustArgs, ShowArgs};
use super::{Failure, clients, connect, output, tcp::Carrier, values};

/// The environment variable with a token.
const TOKEN: &str = "PATHMARK_TOKEN";

/// Arguments of all clients.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ClientArgs {
    #[command(flatten)]
    trust: HostTrustArgs,
    #[command(flatten)]
    limits: ConnectArgs,
    #[command(flatten)]
    state: StateArgs,
    /// Send the bearer token in this file (default: the one in $PATHMARK_TOKEN, if set)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Do not connect over TCP if the server gives no answer over UDP for 1 s
    #[arg(long)]
    no_tcp: bool,
    #[command(flatten)]
    show: ShowArgs,
    /// Print one JSON object at the end
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of clients that move files.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct MoveArgs {
    /// Limit the rate at which content moves, in bytes per second: 500kB, 2MiB
    #[arg(long, value_name = "RATE", value_parser = rate)]
    limit: Option<u64>,
    /// Print only errors
    #[arg(short, long)]
    pub(super) quiet: bool,
    #[command(flatten)]
    pub(super) again: ReconnectArgs,
}

/// Parses a rate in bytes per second. The minimum suffices to send a frame within a server's
/// time limits.
fn rate(text: &str) -> Result<u64, String> {
    match values::bytes(text.strip_suffix("/s").unwrap_or(text))? {
        0..1000 => Err(format!("`{text}` is below 1kB per second")),
        rate => Ok(rate),
    }
}

/// A connection to a file server.
pub(super) struct Session {
    /// The connection, unless it is one of TCP.
    pub(super) connection: Option<Connection>,
    pub(super) client: Client,
    pub(super) handshake: Duration,
    visit: Option<Visit>,
}

impl MoveArgs {
    pub(super) fn limits(self) -> ClientLimits {
        ClientLimits {
            pace: self.limit.map(Pace::new),
            ..ClientLimits::default()
        }
    }

    /// Returns how many of `most` files to transfer concurrently. With a rate limit, each file
    /// must still progress within a server's time limit.
    pub(super) fn at_once(self, most: usize) -> usize {
        let rate = self.limit.unwrap_or(u64::MAX) / 32_768;
        usize::try_from(rate).unwrap_or(most).clamp(1, most)
    }
}

impl ClientArgs {
    /// Connects to the server of `target`, and begins HTTP/3.
    pub(super) async fn connect(
        &self,
        target: &Target,
        mut transport: TransportConfig,
        limits: ClientLimits,
        stop: &Stop,
        warnings: &mut Vec<String>,
    ) -> Result<Session, Failure> {
        let token = match &self.token_file {
            Some(path) => clients::read_token(path).map(Some),
            None => clients::token_of(TOKEN),
        };
        let token = token.map_err(Failure::usage)?;
        let shown = self.show.read()?;
        transport.keep_alive = Some(session::KEEP_ALIVE);
        let way = Way {
            target,
            trust: self.trust.judge(),
            limits: self.limits,
            shown: shown.as_ref(),
            stop,
        };
        let before =
            |endpoint: &_, address| self.state.visit(target, address, endpoint, &mut *warnings);
        let carrier = connect::connect_any(way, &[ALPN], transport, before, !self.no_tcp).await?;
        let authority = target.authority();
        let (connection, client, handshake, visit) = match carrier {
            Carrier::Quic(Connected {
                connection,
                handshake,
                prepared: visit,
            }) => {
                let client = Client::new(connection.clone(), &authority, limits).await?;
                (Some(connection), client, handshake, visit)
            }
            Carrier::Tcp(connection, handshake) => {
                output::note!(
                    "pathmark: no answer over UDP from {}: continuing over TCP (HTTP/2)",
                    output::plain(&target.server())
                );
                let client = Client::over_tcp(*connection, &authority, limits).await?;
                (None, client, handshake, None)
            }
        };
        let client = match token {
            Some(token) => client.with_token(&token).map_err(|why| anyhow!(why))?,
            None => client,
        };
        Ok(Session {
            connection,
            client,
            handshake,
            visit,
        })
    }

    /// Returns uploads that can be resumed. If no state is kept, only a client that reconnects
    /// can resume them.
    pub(super) fn uploads(&self, again: ReconnectArgs) -> Option<Arc<Uploads>> {
        let uploads = self.state.uploads();
        let goes_on = uploads.are_kept() || again.reconnect.is_some();
        goes_on.then(|| Arc::new(uploads))
    }
}

impl Session {
    /// Returns the version of HTTP by the name of its protocol.
    pub(super) const fn protocol(&self) -> &'static str {
        match self.connection {
            Some(_) => "h3",
            None => "h2",
        }
    }

    /// Closes the connection, and keeps the server's token for the next connection.
    pub(super) async fn leave(self, stop: &Stop, warnings: &mut Vec<String>) {
        if let Some(connection) = &self.connection {
            session::leave(connection, stop, session::HTTP3).await;
        }
        if let Some(visit) = self.visit {
            visit.end(warnings);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_rate_is_for_few_files_at_once() {
        let at_once = |limit: &str| {
            let limit = Some(rate(limit).unwrap());
            MoveArgs {
                limit,
                quiet: false,
                again: ReconnectArgs { reconnect: None },
            }
            .at_once(32)
        };
        assert_eq!(at_once("1kB"), 1);
        assert_eq!(at_once("100kB/s"), 3);
        assert_eq!(at_once("1GB"), 32);
        for wrong in ["0", "999", "fast", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
