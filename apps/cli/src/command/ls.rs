//! `pathmark ls`: lists a server's directory.

use anyhow::{Context, anyhow};
use pathmark_cc::Algorithm;
use pathmark_http3::client::{ClientLimits, GetError, Listed};
use pathmark_http3::fields::{PathName, text_of};
use pathmark_http3::http::StatusCode;
use pathmark_http3::plan::http_date;
use pathmark_http3::resource::Kind;
use serde::Serialize;

use super::client::{ClientArgs, Session};
use super::glob;
use super::session::{self, DscpArgs, Stop};
use super::target::{self, Target};
use super::{Failure, Outcome, output};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory, a file, or files that match a pattern; the server's own directory by default
    #[arg(value_name = "HOST:PORT[/PATH]", value_parser = target::parser())]
    target: Target,
    #[command(flatten)]
    pub(super) client: ClientArgs,
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
    /// The target of a symbolic link.
    target: Option<String>,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Listing {
    entries: Vec<Row>,
    error: Option<String>,
}

impl From<Listed> for Row {
    fn from(entry: Listed) -> Self {
        Self {
            name: text_of(&entry.name),
            kind: match entry.kind {
                Kind::File => "file",
                Kind::Directory => "directory",
                Kind::Symlink => "symlink",
                Kind::Special => "special",
            },
            size: entry.size,
            mode: format!("{:04o}", entry.mode),
            time: entry.modified.seconds,
            target: entry.target.as_deref().map(text_of),
        }
    }
}

pub(super) async fn ls(args: Args, stop: Stop) -> Outcome {
    let mut warnings = Vec::new();
    let listed = tokio::select! {
        listed = list(&args, &stop, &mut warnings) => listed,
        () = stop.stopped() => Err(session::interrupted().into()),
    };
    let listed = match listed {
        Err(Failure::Failed(error)) if args.client.json => {
            output::json(&Listing {
                entries: Vec::new(),
                error: Some(output::explain(&error)),
            })?;
            return Err(Failure::Failed(error));
        }
        listed => listed?,
    };
    let entries: Vec<_> = listed.iter().cloned().map(Row::from).collect();
    if args.client.json {
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

/// Formats a human-readable line: kind and permissions, bytes, time in UTC, name.
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
    // Times before 1970 or after 9999 can't be formatted.
    let time = http_date(entry.modified.to_system()).unwrap_or_default();
    let target = row.target.as_deref().map(|target| format!(" -> {target}"));
    format!(
        "{kind}{bits} {:>14} {time:29} {}{slash}{}",
        entry.size,
        output::plain(&row.name),
        output::plain(&target.unwrap_or_default()),
    )
}

/// Returns the entries of a directory, or `None` if there is none of this name.
async fn in_directory(
    session: &Session,
    names: Vec<Vec<u8>>,
) -> anyhow::Result<Option<Vec<Listed>>> {
    match session.client.list(&PathName { names, slash: true }).await {
        Ok(listed) => Ok(Some(listed)),
        Err(GetError::Refused(refusal)) if refusal.status == StatusCode::NOT_FOUND => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the entry with this name, or otherwise those that match it as a pattern, if there are
/// any.
fn named(all: Vec<Listed>, name: &[u8], globs: bool) -> Option<Vec<Listed>> {
    let is_pattern = globs && !all.iter().any(|entry| entry.name == name);
    let found = all.into_iter().filter(|entry| {
        if is_pattern {
            glob::matches(name, &entry.name)
        } else {
            entry.name == name
        }
    });
    Some(found.collect()).filter(|found: &Vec<_>| !found.is_empty())
}

async fn list(
    args: &Args,
    stop: &Stop,
    warnings: &mut Vec<String>,
) -> Result<Vec<Listed>, Failure> {
    let target = &args.target;
    let transport = session::transport(&Algorithm::default(), DscpArgs { dscp: 0 });
    let limits = ClientLimits::default();
    let connecting = args
        .client
        .connect(target, transport, limits, stop, warnings);
    let session = connecting.await?;
    let names = target.path.clone().unwrap_or_default().names;
    let mut listed = in_directory(&session, names.clone()).await;
    if let (Ok(None), Some((last, above))) = (&listed, names.split_last()) {
        let all = in_directory(&session, above.to_vec()).await;
        listed = all.map(|all| all.and_then(|all| named(all, last, target.globs)));
    }
    let listed = listed.and_then(|listed| {
        listed.ok_or_else(|| anyhow!("the server has no file or directory of this name"))
    });
    let listed = listed.with_context(|| format!("cannot list {target}"));
    session.leave(stop, warnings).await;
    Ok(listed?)
}
