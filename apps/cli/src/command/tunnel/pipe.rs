//! `pathmark tunnel connect`: joins stdin and stdout with one flow.

use std::fs::File;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use anyhow::anyhow;
use pathmark_proxy::flows::Carried;
use pathmark_proxy::ingress::splice;
use pathmark_proxy::outbound::Outbound;
use pathmark_proxy::target::Target;
use tokio::io::{AsyncWrite, Stdout};

use super::super::session::{self, Stop, interrupted};
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
    let way = args.proxy.way(args.uri.as_deref(), &file)?;
    let tunnel = args.proxy.tunnel(&way)?;
    let (mut read, mut write) = tokio::select! {
        opened = tunnel.tcp(&target) => {
            opened.map_err(|refusal| anyhow!("cannot connect to {target}: {refusal}"))?
        }
        () = stop.stopped() => return Err(interrupted().into()),
    };
    let (mut input, mut output) = (tokio::io::stdin(), Output(tokio::io::stdout()));
    let broken = pin!(stop.stopped());
    let traffic = splice::join(
        &mut input,
        &mut output,
        Vec::new(),
        &mut read,
        &mut write,
        broken,
        &Carried::default(),
    )
    .await;
    // Wait so that the target receives the end or the reset.
    if let Ok(connection) = tunnel.connection() {
        session::leave(&connection, &stop, session::HTTP3).await;
    }
    if stop.is_stopped() {
        // ssh stops its ProxyCommand in this way, and messages would appear within the session.
        return Err(Failure::Reported);
    }
    if traffic.reset {
        Err(anyhow!("the connection to {target} was reset").into())
    } else {
        Ok(())
    }
}

/// Stdout. It is closed when the target ends, because its reader may still write.
struct Output(Stdout);

impl AsyncWrite for Output {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_flush(cx))?;
        let nothing = File::options().write(true).open("/dev/null")?;
        Poll::Ready(nix::unistd::dup2_stdout(&nothing).map_err(io::Error::from))
    }
}
