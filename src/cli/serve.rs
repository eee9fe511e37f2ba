//! `pathmark serve`: a directory offered to clients.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use pathmark_cc::Algorithm;

use super::trust::CertificateArgs;
use super::{Failure, Outcome, session, values};
use crate::file::{self, server::FileServer, store::Store};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address and UDP port to listen on
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
    /// Directory to read from and store in; nothing outside it is touched
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// Congestion controller for clients that ask for none
    #[arg(long, value_name = "NAME", value_parser = values::algorithm, default_value = "vcp+bise+wlte")]
    cc: Algorithm,
    /// Use --cc also for clients that ask for another
    #[arg(long)]
    cc_fixed: bool,
    /// Print one JSON object once connections are accepted
    #[arg(long)]
    json: bool,
}

pub(super) async fn serve(args: Args) -> Outcome {
    let store = Store::open(&args.dir)
        .with_context(|| format!("cannot offer {}", args.dir.display()))
        .map_err(Failure::usage)?;
    let transport = session::transport(&args.cc);
    let endpoint = session::listen(
        args.listen,
        &args.certificate,
        file::ALPN,
        transport,
        false,
        args.json,
    )?;
    let server = Arc::new(FileServer::new(store, args.cc_fixed));
    server.run(&endpoint).await;
    Ok(())
}
