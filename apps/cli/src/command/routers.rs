//! A command's part in XCP-i: it answers routers that measure the hops between them and this
//! host, and measures such hops itself.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use pathmark_transport::TransportConfig;

use super::Failure;
use super::identity::read_secret;
use super::state::address_towards;
use super::target::Target;
use pathmark::xcp_i::{HostClouds, HostEdge, RunningEdge, count_hops};

/// Maximum rate of packets to measuring routers in bytes per second: 1 % of 100 Mbit/s.
const ANSWERS_RATE: u64 = 125_000;

/// Whether routers are answered.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct AnswerArgs {
    /// Reply to bandwidth probes from XCP-i routers. FILE contains the secret that they share with
    /// this host
    #[arg(long, value_name = "FILE")]
    answer_routers: Option<PathBuf>,
}

impl AnswerArgs {
    /// Begins answering for a client that stores at `server`.
    pub(super) async fn store(&self, server: &Target) -> Result<Option<RunningEdge>, Failure> {
        let Some(file) = self.answer_routers.as_deref() else {
            return Ok(None);
        };
        let own = own_address(server).await?;
        let start = || begin(edge(own, file)?.answering(ANSWERS_RATE), own);
        start().map(Some).map_err(Failure::usage)
    }
}

/// Whether hops before this host are measured.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct MeasureArgs {
    /// Measure the bandwidth of the hops between the last XCP-i router and this host, and limit
    /// senders to it. FILE contains the secret that the routers share with this host
    #[arg(long, value_name = "FILE")]
    measure_hops: Option<PathBuf>,
}

impl MeasureArgs {
    /// Adds virtual routers to `config`, if hops should be measured.
    fn count(&self, config: &mut TransportConfig) -> Option<(&Path, HostClouds)> {
        let secret = self.measure_hops.as_deref()?;
        let clouds = HostClouds::new();
        count_hops(config, &clouds);
        Some((secret, clouds))
    }

    /// Begins for a server at the address `own`, which also answers routers if it has a secret
    /// for this.
    pub(super) fn serve(
        &self,
        own: IpAddr,
        answer: &AnswerArgs,
        config: &mut TransportConfig,
    ) -> Result<Option<RunningEdge>, Failure> {
        let measured = self.count(config);
        let answer = answer.answer_routers.as_deref();
        let Some(file) = answer.or(measured.as_ref().map(|(file, _)| *file)) else {
            return Ok(None);
        };
        let start = || {
            if own.is_unspecified() {
                bail!("routers need an address of this host's own: name it in --listen");
            }
            if let Some((other, _)) = &measured
                && *other != file
                && secret(other)? != secret(file)?
            {
                bail!("routers share one secret: name one file");
            }
            let mut edge = edge(own, file)?;
            if answer.is_some() {
                edge = edge.answering(ANSWERS_RATE);
            }
            if let Some((_, clouds)) = measured.clone() {
                edge = edge.measuring(clouds);
            }
            begin(edge, own)
        };
        start().map(Some).map_err(Failure::usage)
    }

    /// Begins measuring for a client of `server`.
    pub(super) async fn fetch(
        &self,
        server: &Target,
        config: &mut TransportConfig,
    ) -> Result<Option<RunningEdge>, Failure> {
        let Some((file, clouds)) = self.count(config) else {
            return Ok(None);
        };
        let own = own_address(server).await?;
        let start = || begin(edge(own, file)?.measuring(clouds), own);
        start().map(Some).map_err(Failure::usage)
    }
}

fn begin(edge: HostEdge, own: IpAddr) -> anyhow::Result<RunningEdge> {
    edge.start().map_err(|error| {
        let what = match error.kind() {
            ErrorKind::AddrInUse => "; another command does: one at a time can",
            _ => "",
        };
        let port = format!("cannot take messages of routers at {own}, UDP port 6653{what}");
        anyhow::Error::new(error).context(port)
    })
}

fn secret(file: &Path) -> anyhow::Result<String> {
    let text = String::from_utf8(read_secret(file)?);
    let text = text.with_context(|| format!("{} is no text", file.display()))?;
    Ok(text.trim().to_owned())
}

fn edge(own: IpAddr, file: &Path) -> anyhow::Result<HostEdge> {
    let holds = || format!("{} holds no secret", file.display());
    HostEdge::new(own, secret(file)?.as_bytes()).with_context(holds)
}

/// Returns the local address for packets to a server's first address, without sending any.
async fn own_address(server: &Target) -> Result<IpAddr, Failure> {
    let addresses = server.resolve().await?;
    let Some(to) = addresses.first().copied() else {
        return Err(anyhow!("the host `{}` has no address", server.host).into());
    };
    Ok(address_towards(to).with_context(|| format!("no way to {to}"))?)
}
