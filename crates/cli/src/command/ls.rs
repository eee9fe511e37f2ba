//! `pathmark ls`: what a server has.

use anyhow::Context;
use pathmark_cc::Algorithm;
use pathmark_http3::client::{Client, ClientLimits, GetError, Listed};
use pathmark_http3::fields::PathName;
use pathmark_http3::plan::http_date;
use pathmark_http3::resource::Kind;
use pathmark_http3::wire::ALPN;
use serde::Serialize;

use super::connect::{ConnectArgs, Connected, Way};
use super::session::{self, DscpArgs, Stop};
use super::state::StateArgs;
use super::target::Target;
use super::trust::HostTrustArgs;
use super::{Outcome, connect, output};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory; the server's own by default
    #[arg(value_name = "HOST:PORT[/DIR]")]
    target: Target,
    #[command(flatten)]
    trust: HostTrustArgs,
    #[command(flatten)]
    limits: ConnectArgs,
    #[command(flatten)]
    state: StateArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// An entry in JSON.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    kind: &'static str,
    size: u64,
    /// Permission bits in octal.
    mode: String,
    /// Seconds since 1970-01-01 UTC.
    time: i64,
    /// What a symbolic link points at.
    target: Option<String>,
}

/// The JSON.
#[derive(Debug, Serialize)]
struct Listing {
    entries: Vec<Row>,
    error: Option<String>,
}

impl From<Listed> for Row {
    fn from(entry: Listed) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            name: text(&entry.name),
            kind: match entry.kind {
                Kind::File => "file",
                Kind::Directory => "directory",
                Kind::Symlink => "symlink",
                Kind::Special => "special",
            },
            size: entry.size,
            mode: format!("{:04o}", entry.mode),
            time: entry.modified.seconds,
            target: entry.target.as_deref().map(text),
        }
    }
}

pub(super) async fn ls(args: Args, stop: Stop) -> Outcome {
    let mut warnings = Vec::new();
    let listed = tokio::select! {
        listed = list(&args, &stop, &mut warnings) => listed?,
        () = stop.stopped() => return Err(session::interrupted().into()),
    };
    let entries: Vec<_> = listed.iter().cloned().map(Row::from).collect();
    if args.json {
        output::json(&Listing {
            entries,
            error: None,
        })?;
    } else {
        for (entry, row) in listed.iter().zip(&entries) {
            output::line(format_args!("{}", line(entry, row)))?;
        }
    }
    for warning in warnings {
        output::note!("note: {warning}");
    }
    Ok(())
}

/// A line for people: kind and permissions, bytes, time in UTC, name.
fn line(entry: &Listed, row: &Row) -> String {
    let (kind, slash) = match entry.kind {
        Kind::File => ('-', ""),
        Kind::Directory => ('d', "/"),
        Kind::Symlink => ('l', ""),
        Kind::Special => ('?', ""),
    };
    let bits = "rwxrwxrwx".chars().enumerate();
    let bits: String = bits
        .map(|(place, bit)| match entry.mode & (0o400 >> place) {
            0 => '-',
            _ => bit,
        })
        .collect();
    // Times from before 1970 or after 9999 have no such form.
    let time = http_date(entry.modified.to_system()).unwrap_or_default();
    let target = row.target.as_deref().map(|target| format!(" -> {target}"));
    format!(
        "{kind}{bits} {:>14} {time:29} {}{slash}{}",
        entry.size,
        output::plain(&row.name),
        output::plain(&target.unwrap_or_default()),
    )
}

async fn list(
    args: &Args,
    stop: &Stop,
    warnings: &mut Vec<String>,
) -> Result<Vec<Listed>, super::Failure> {
    let target = &args.target;
    let mut transport = session::transport(&Algorithm::default(), DscpArgs { dscp: 0 });
    transport.keep_alive = Some(session::KEEP_ALIVE);
    let way = Way {
        target,
        trust: args.trust.judge(),
        limits: args.limits,
        stop,
    };
    let before =
        |endpoint: &_, address| args.state.visit(target, address, endpoint, &mut *warnings);
    let Connected {
        connection,
        prepared: visit,
        ..
    } = connect::connect(way, ALPN, transport, before).await?;
    let path = PathName {
        names: target.path.clone().unwrap_or_default().names,
        slash: true,
    };
    let listed = async {
        let limits = ClientLimits::default();
        let client = Client::new(connection.clone(), &target.authority(), limits).await?;
        client.list(&path).await
    };
    let listed = listed.await.map_err(|error: GetError| match error {
        GetError::Link(error) => anyhow::Error::new(error),
        error => error.into(),
    });
    let listed = listed.with_context(|| format!("cannot list {target}"));
    session::leave(&connection, stop, session::HTTP3).await;
    if let Some(visit) = visit {
        visit.end(warnings);
    }
    Ok(listed?)
}
