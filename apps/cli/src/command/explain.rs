//! `pathmark explain`: why a transfer took as long as it did.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pathmark_qlog::Record;
use serde::Serialize;
use serde_json::Value;

use super::{Failure, Outcome, output};
use crate::explain::{Account, Verdict};

/// The largest report that is read. A log may be longer, because it is read event by event.
const LARGEST_REPORT: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Report that `get`, `put`, `perf` or `emulate` printed with `--json`, or a log from QLOGDIR
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Serialize)]
struct Explained<'a> {
    file: &'a Path,
    #[serde(skip_serializing_if = "str::is_empty")]
    flow: &'a str,
    seconds: f64,
    #[serde(flatten)]
    verdict: Verdict,
}

pub(super) fn explain(args: &Args) -> Outcome {
    let mut explained = Vec::new();
    let mut accounts = Vec::new();
    for file in &args.files {
        let read = accounts_of(file).with_context(|| format!("cannot explain {}", file.display()));
        accounts.extend(
            read.map_err(Failure::usage)?
                .into_iter()
                .map(|account| (file, account)),
        );
    }
    for (file, account) in &accounts {
        if args.json {
            explained.push(Explained {
                file,
                flow: &account.name,
                seconds: account.seconds,
                verdict: account.verdict(),
            });
        } else {
            if args.files.len() > 1 {
                output::line(format_args!("{}", file.display()))?;
            }
            output::line(format_args!("{account}"))?;
        }
    }
    if args.json {
        output::json(&serde_json::json!({ "explained": explained }))?;
    }
    Ok(())
}

/// Reads a report or a log.
fn accounts_of(path: &Path) -> Result<Vec<Account>> {
    let mut file = BufReader::new(File::open(path)?);
    if file.fill_buf()?.first() == Some(&0x1e) {
        return Ok(vec![of_log(file)?]);
    }
    let mut text = String::new();
    file.by_ref()
        .take(LARGEST_REPORT)
        .read_to_string(&mut text)?;
    let report: Value = serde_json::from_str(&text)
        .context("it is neither a report in JSON nor a log in the sequential format of qlog")?;
    of_report(&report)
}

/// Reads the flows of an emulation, or a single transfer.
fn of_report(report: &Value) -> Result<Vec<Account>> {
    let flows = match report["flows"].as_array() {
        Some(flows) => flows.as_slice(),
        None => std::slice::from_ref(report),
    };
    if flows.iter().any(|flow| !flow["controllers"].is_object()) {
        bail!("it has no `controllers`: it is no report of `get`, `put`, `perf` or `emulate`");
    }
    let flows = flows
        .iter()
        .map(|flow| serde_json::from_value(flow.clone()));
    Ok(flows.collect::<Result<_, _>>()?)
}

/// Reads a log, whose last report has the shares of the whole connection.
fn of_log(log: impl BufRead) -> Result<Account> {
    let mut report = Value::Null;
    let mut handshake = None;
    let mut last = 0.0;
    let mut closed = None;
    let mut silence = Silence::default();
    pathmark_qlog::read(log, |record| {
        last = record.time;
        silence.on_record(&record);
        match record.name.as_str() {
            "pathmark:report" => report = record.data,
            "quic:connection_closed" => closed = Some(record.data),
            "quic:packet_sent" if record.data["header"]["packet_type"] == "1RTT" => {
                handshake.get_or_insert(record.time);
            }
            _ => {}
        }
    })?;
    if report.is_null() {
        bail!("it has no event `pathmark:report`: the connection ended in its first second");
    }
    let mut account: Account = serde_json::from_value(report)?;
    account.seconds = last / 1e3;
    account.handshake_ms = handshake.unwrap_or(0.0);
    account.silence_s = silence.longest / 1e3;
    account.is_log = true;
    account.error = closed
        .filter(|closed| closed["trigger"] != "application")
        .and_then(|closed| closed["reason"].as_str().map(ToOwned::to_owned));
    Ok(account)
}

/// Finds the longest time in which nothing arrived although packets were in flight.
#[derive(Default)]
struct Silence {
    in_flight: u64,
    /// When the silence began, if packets are in flight.
    since: Option<f64>,
    longest: f64,
}

impl Silence {
    fn on_record(&mut self, record: &Record) {
        match record.name.as_str() {
            "quic:packet_received" => {
                if let Some(since) = self.since {
                    self.longest = self.longest.max(record.time - since);
                }
                self.since = (self.in_flight > 0).then_some(record.time);
            }
            "quic:packet_sent" if record.data["ack_only"] != true => {
                self.since.get_or_insert(record.time);
            }
            "quic:recovery_metrics_updated" => {
                self.in_flight = record.data["bytes_in_flight"].as_u64().unwrap_or(0);
                if self.in_flight == 0 {
                    self.since = None;
                }
            }
            _ => {}
        }
    }
}
