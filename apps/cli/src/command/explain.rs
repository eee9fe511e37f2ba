//! `pathmark explain`: why a transfer took as long as it did.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pathmark_qlog::Record;
use serde::Serialize;
use serde_json::Value;

use super::{Failure, Outcome, output};
use crate::explain::{Account, Logged, Verdict};

/// The largest report that is read. A log may be longer, because it is read event by event.
const LARGEST_REPORT: u64 = 64 << 20;
/// The longest text of a report that is shown, in characters.
const LONGEST_TEXT: usize = 300;
/// The shortest time without an answer that is a silence, in milliseconds, and in round trips.
const SHORTEST_SILENCE_MS: f64 = 200.0;
const SILENT_ROUND_TRIPS: f64 = 3.0;
/// The longest round trip that is assumed before one is measured, in milliseconds.
const INITIAL_RTT_MS: f64 = 1000.0;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Report that `get`, `put`, `perf`, `emulate` or `tunnel show` printed with `--json`, or a
    /// log from QLOGDIR
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Serialize)]
struct Explained {
    file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    flow: String,
    seconds: f64,
    #[serde(flatten)]
    verdict: Verdict,
}

pub(super) fn explain(args: &Args) -> Outcome {
    let mut explained = Vec::new();
    let mut failed = None;
    for file in &args.files {
        let name = file.display();
        let accounts = match accounts_of(file) {
            Ok(accounts) => accounts,
            Err(error) => {
                let error = error.context(format!("cannot explain {name}"));
                if let Some(before) = failed.replace(error) {
                    output::note!("pathmark: {}", output::explain(&before));
                }
                continue;
            }
        };
        for account in accounts {
            if args.json {
                explained.push(Explained {
                    file: name.to_string(),
                    verdict: account.verdict(),
                    seconds: account.seconds,
                    flow: account.name,
                });
                continue;
            }
            if args.files.len() > 1 {
                output::line(format_args!("{}", output::plain(&name.to_string())))?;
            }
            output::line(format_args!("{account}"))?;
        }
    }
    if args.json {
        output::json(&serde_json::json!({ "explained": explained }))?;
    }
    failed.map_or(Ok(()), |error| Err(Failure::usage(error)))
}

/// Reads a report or a log.
fn accounts_of(path: &Path) -> Result<Vec<Account>> {
    let mut file = BufReader::new(File::open(path)?);
    let accounts = if file.fill_buf()?.first() == Some(&0x1e) {
        vec![of_log(file)?]
    } else {
        let mut text = Vec::new();
        file.take(LARGEST_REPORT + 1).read_to_end(&mut text)?;
        if text.len() as u64 > LARGEST_REPORT {
            bail!("it is longer than {} MiB", LARGEST_REPORT >> 20);
        }
        let report = serde_json::from_slice(&text)
            .context("it is neither a report in JSON nor a log in the sequential format of qlog")?;
        of_report(report)?
    };
    if !accounts.iter().all(Account::is_plausible) {
        bail!("it has an impossible number: a negative one, or a share above 1");
    }
    Ok(accounts)
}

/// Reads the flows of an emulation, the connection of a tunnel, or a single transfer.
fn of_report(mut report: Value) -> Result<Vec<Account>> {
    let mut flows = Vec::new();
    let mut handshake_s = 0.0;
    if report["runs"].is_array() {
        for run in report["runs"].as_array_mut().into_iter().flatten() {
            flows.append(run["flows"].as_array_mut().unwrap_or(&mut Vec::new()));
        }
    } else if report["path_report"].is_object() {
        flows.push(report["path_report"].take());
    } else if let Value::Array(all) = report["flows"].take() {
        flows = all;
    } else {
        handshake_s = report["handshake_ms"].as_f64().unwrap_or(0.0) / 1e3;
        flows = directions(report);
    }
    // Flows of UDP and of a kernel's TCP have no controllers that are known.
    flows.retain(|flow| flow["controllers"].is_object() || flow["error"].is_string());
    if flows.is_empty() {
        bail!(
            "it has no `controllers`: it is no report of `get`, `put`, `perf`, `emulate` or \
             `tunnel show`, or the connection was never established"
        );
    }
    let flows = flows.into_iter().map(|mut flow| {
        tidy(&mut flow);
        let mut account: Account = serde_json::from_value(flow)?;
        account.seconds += handshake_s;
        Ok(account)
    });
    flows.collect()
}

/// Splits the report of `perf`, if both ends sent.
fn directions(report: Value) -> Vec<Value> {
    if !(report["up"].is_object() && report["down"].is_object()) {
        return vec![report];
    }
    let of = |name: &str, other: &str| {
        let mut flow = report.clone();
        for (key, value) in report[name].as_object().into_iter().flatten() {
            flow[key] = value.clone();
        }
        flow["name"] = name.into();
        flow[other] = Value::Null;
        flow
    };
    vec![of("up", "bytes_down"), of("down", "bytes_up")]
}

/// Removes keys whose value is unknown, and makes texts safe to print: they can be from anybody.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(keys) => {
            keys.retain(|_, value| !value.is_null());
            keys.values_mut().for_each(tidy);
        }
        Value::Array(values) => values.iter_mut().for_each(tidy),
        Value::String(text) => {
            let short: String = text.chars().take(LONGEST_TEXT).collect();
            *text = output::plain(&short).into_owned();
        }
        _ => {}
    }
}

/// Reads a log, whose last report has the shares of the whole connection.
fn of_log(log: impl BufRead) -> Result<Account> {
    let mut report = Value::Null;
    let mut closed = None;
    let mut reader = LogReader::default();
    pathmark_qlog::read(log, |record| {
        reader.on_record(&record);
        match record.name.as_str() {
            "pathmark:report" => report = record.data,
            "quic:connection_closed" => closed = Some(record.data),
            _ => {}
        }
    })?;
    reader.silence.end(reader.last);
    if report.is_null() {
        bail!(
            "it ends before the first event `pathmark:report`: look at one of a whole connection"
        );
    }
    tidy(&mut report);
    let mut account: Account = serde_json::from_value(report)?;
    account.seconds = reader.last / 1e3;
    account.log = Some(Logged {
        silence_s: reader.silence.total / 1e3,
        silences: reader.silence.count,
        load: (reader.marked > 0.0).then(|| reader.load / reader.marked * 100.0),
    });
    account.error = closed.and_then(|mut closed| {
        tidy(&mut closed);
        let is_lost = closed["trigger"] != "application";
        closed["reason"]
            .as_str()
            .filter(|_| is_lost)
            .map(ToOwned::to_owned)
    });
    match reader.handshake {
        Some(time) => account.handshake_ms = time,
        None => {
            let never = "the connection was never established".to_owned();
            account.error.get_or_insert(never);
        }
    }
    Ok(account)
}

/// Gathers what the events of a log show. Times are milliseconds.
#[derive(Default)]
struct LogReader {
    last: f64,
    /// Whether this is a client's log, whose first packet is a sent one.
    is_client: Option<bool>,
    /// When the handshake was complete at this end.
    handshake: Option<f64>,
    /// Packets that VCP routers marked, and the sum of the loads that they wrote into them.
    marked: f64,
    load: f64,
    silence: Silence,
}

impl LogReader {
    fn on_record(&mut self, record: &Record) {
        let data = &record.data;
        self.last = record.time;
        self.silence.on_record(record);
        match record.name.as_str() {
            "quic:packet_sent" | "quic:packet_received" => {
                let is_sent = record.name == "quic:packet_sent";
                let is_client = *self.is_client.get_or_insert(is_sent);
                // A server can send data before the handshake is complete.
                if is_sent == is_client && data["header"]["packet_type"] == "1RTT" {
                    self.handshake.get_or_insert(record.time);
                }
            }
            "pathmark:feedback_received" if data["protocol"] == "vcp" => {
                let count = |code: &str| data[code].as_u64().unwrap_or(0) as f64;
                let packets = count("low") + count("high") + count("over");
                self.marked += packets;
                self.load += packets * count("load_128") / 128.0;
            }
            _ => {}
        }
    }
}

/// Sums the times in which nothing arrived although packets were in flight, if these are longer
/// than an answer takes.
struct Silence {
    in_flight: u64,
    /// When the silence began, if packets are in flight.
    since: Option<f64>,
    rtt: f64,
    total: f64,
    count: u64,
}

impl Default for Silence {
    fn default() -> Self {
        Self {
            in_flight: 0,
            since: None,
            rtt: INITIAL_RTT_MS,
            total: 0.0,
            count: 0,
        }
    }
}

impl Silence {
    fn on_record(&mut self, record: &Record) {
        match record.name.as_str() {
            "quic:packet_received" => {
                self.end(record.time);
                self.since = (self.in_flight > 0).then_some(record.time);
            }
            "quic:packet_sent" if record.data["ack_only"] != true => {
                self.since.get_or_insert(record.time);
            }
            "quic:recovery_metrics_updated" => {
                self.in_flight = record.data["bytes_in_flight"].as_u64().unwrap_or(0);
                self.rtt = record.data["smoothed_rtt"].as_f64().unwrap_or(self.rtt);
                if self.in_flight == 0 {
                    self.since = None;
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, now: f64) {
        let Some(since) = self.since.take() else {
            return;
        };
        let time = now - since;
        if time > (SILENT_ROUND_TRIPS * self.rtt).max(SHORTEST_SILENCE_MS) {
            self.total += time;
            self.count += 1;
        }
    }
}
