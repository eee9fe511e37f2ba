//! `pathmark tunnel rules`: makes the kernel redirect packets to the transparent listener.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow};
use pathmark_proxy::ingress::transparent::rules::{Rules, Step};
use pathmark_testbed::IpNet;

use super::super::{Failure, Outcome, output};
use super::{ProxyArgs, config};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    proxy: ProxyArgs,
    /// The proxy, as for `pathmark tunnel`; its addresses are reached directly
    #[arg(value_name = "URI")]
    uri: Option<String>,
    /// Port of the transparent listener (default: that of the configuration)
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    tproxy: Option<u16>,
    /// Reach this network directly; private networks are, in any case
    #[arg(long, value_name = "NET")]
    bypass: Vec<IpNet>,
    /// On a gateway, take packets from this network (default: from all)
    #[arg(long, value_name = "NET")]
    from: Vec<IpNet>,
    /// Print the commands and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove the rules
    #[arg(long)]
    undo: bool,
}

pub(super) async fn rules(args: Args) -> Outcome {
    let ipv6 = Path::new("/proc/net/if_inet6").exists();
    let steps = if args.undo {
        Rules::undo(ipv6)
    } else {
        plan(&args).await?.apply(ipv6)
    };
    for step in steps {
        if args.dry_run {
            output::line(format_args!("{step}"))?;
        } else {
            run(&step)?;
        }
    }
    Ok(())
}

async fn plan(args: &Args) -> Result<Rules, Failure> {
    let file = args.proxy.file()?;
    let uri = args.proxy.uri(args.uri.as_deref(), &file)?;
    let servers = config::addresses(&uri).await?;
    let configured = file.listeners().tproxy;
    let port = args
        .tproxy
        .or(configured.as_ref().map(|tproxy| tproxy.port));
    let port = port.ok_or_else(|| {
        Failure::usage(anyhow!(
            "give the port of the transparent listener: --tproxy PORT"
        ))
    })?;
    let (mut bypass, mut from) = (args.bypass.clone(), args.from.clone());
    if let Some(tproxy) = configured {
        bypass.extend(tproxy.bypass);
        from.extend(tproxy.from);
    }
    Ok(Rules {
        port,
        servers,
        bypass,
        from,
    })
}

fn run(step: &Step) -> anyhow::Result<()> {
    let (program, package, arguments, input) = match step {
        Step::Nft(commands) => ("nft", "nftables", "-f -", commands.as_str()),
        Step::Ip(words) | Step::TryIp(words) => ("ip", "iproute2", words.as_str(), ""),
    };
    let mut command = Command::new(program);
    // Not every user's path includes the directories of system programs.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env(
        "PATH",
        format!("{path}:/usr/sbin:/sbin").trim_start_matches(':'),
    );
    command.args(arguments.split(' ')).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let missing = || format!("cannot run {program}: install {package}");
    let mut child = command.spawn().with_context(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that doesn't read it explains why when it ends.
        let _ = stdin.write_all(input.as_bytes());
    }
    let ended = child.wait_with_output().with_context(missing)?;
    if ended.status.success() || matches!(step, Step::TryIp(_)) {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&ended.stderr);
    let message = message.trim().replace('\n', "; ");
    let hint = if message.contains("not permitted") {
        " (run as root)"
    } else {
        ""
    };
    Err(anyhow!("{program} {arguments}: {message}{hint}"))
}
