//! `pathmark tunnel connect`: stdin and stdout joined with one flow.

use std::pin::pin;

use anyhow::anyhow;
use pathmark_proxy::flows::Carried;
use pathmark_proxy::ingress::splice;
use pathmark_proxy::outbound::Outbound;
use pathmark_proxy::target::Target;

use super::super::session::{Stop, interrupted};
use super::super::{Failure, Outcome};
use super::ProxyArgs;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    proxy: ProxyArgs,
    /// Name or address of the target; the proxy resolves names
    host: String,
    /// TCP port of the target
    port: u16,
    /// The proxy, as for `pathmark tunnel`
    #[arg(value_name = "URI")]
    uri: Option<String>,
}

pub(super) async fn pipe(args: Args, stop: Stop) -> Outcome {
    let target = Target::new(&args.host, args.port).map_err(Failure::usage)?;
    let file = args.proxy.file()?;
    let uri = args.proxy.uri(args.uri.as_deref(), &file)?;
    let tunnel = args.proxy.tunnel(&uri)?;
    let (mut read, mut write) = tokio::select! {
        opened = tunnel.tcp(&target) => {
            opened.map_err(|refusal| anyhow!("cannot connect to {target}: {refusal}"))?
        }
        () = stop.stopped() => return Err(interrupted().into()),
    };
    let (mut input, mut output) = (tokio::io::stdin(), tokio::io::stdout());
    let broken = pin!(stop.stopped());
    let local = (&mut input, &mut output);
    let flow = (&mut read, &mut write);
    let traffic = splice::join(local, Vec::new(), flow, broken, &Carried::default()).await;
    if stop.is_stopped() {
        return Err(interrupted().into());
    }
    match traffic.reset {
        true => Err(anyhow!("the connection to {target} was reset").into()),
        false => Ok(()),
    }
}
