//! `pathmark serve`: a directory offered to clients.

use std::path::PathBuf;
use std::sync::Arc;

use super::routers::{AnswerArgs, MeasureArgs};
use super::session::DscpArgs;
use super::trust::CertificateArgs;
use super::values::{self, Algorithms, Listen};
use super::{Failure, Outcome, session};
use anyhow::Context;
use pathmark_cc::Algorithm;
use pathmark_files::server::{FileServer, Rules};
use pathmark_files::store::Store;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address and UDP port to listen on; :PORT means all addresses
    #[arg(long, value_name = "ADDR", value_parser = values::listen)]
    listen: Listen,
    /// Directory to read from, and to store in with --allow-put; nothing outside it is touched
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// Let clients store files, and replace files with put --force
    #[arg(long)]
    allow_put: bool,
    /// Congestion controllers that clients may choose among; the first is for all that choose none
    /// of them
    #[arg(
        long,
        value_name = "NAME[,NAME…]",
        value_parser = values::algorithms,
        default_value = Algorithm::DEFAULT
    )]
    cc: Algorithms,
    #[command(flatten)]
    answer: AnswerArgs,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    marking: DscpArgs,
    /// Print one JSON object once connections are accepted
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn serve(args: Args) -> Outcome {
    let store = Store::open(&args.dir)
        .with_context(|| format!("cannot offer {}", args.dir.display()))
        .map_err(Failure::usage)?;
    let laws = args.cc.0;
    let mut transport = pathmark::transport_config_of(&laws);
    transport.dscp = args.marking.dscp;
    let own = args.listen.ip();
    let _edge = args.measure.serve(own, &args.answer, &mut transport)?;
    let endpoint = session::listen(
        &args.listen,
        args.certificate
            .identity(Some(&args.dir), pathmark_files::ALPN)?,
        transport,
        false,
        args.json,
    )?;
    let rules = Rules {
        laws,
        allow_put: args.allow_put,
    };
    let server = Arc::new(FileServer::new(store, rules));
    session::serve(&endpoint, server.run(&endpoint)).await;
    Ok(())
}
