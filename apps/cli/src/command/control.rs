//! The status of a running proxy or tunnel: a Unix socket for `show`, Prometheus metrics over
//! HTTP, and notifications for the service manager. All three work like those of `vcp-router`.

use std::collections::VecDeque;
use std::fmt;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow};
use pathmark::Connection;
use pathmark_cc::Instant;
use pathmark_emulator::result::Controllers;
use pathmark_router::daemon::http::{Method, Status};
use pathmark_router::daemon::{ControlError, Query, Socket, Supervisor, ask, bind, http};
use pathmark_transport::QueueCounts;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::{Failure, Outcome, output};

/// Time limit for one request and its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of concurrent clients. A further one takes the place of the oldest.
const CLIENTS: usize = 32;
/// Pause after failing to accept a client, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum length of a request line.
const LONGEST_LINE: u64 = 1_000;

/// A service with a status.
pub(super) trait Shown: Clone + Send + Sync + 'static {
    /// Returns the state as one JSON object.
    fn json(&self) -> String;
    /// Returns the metrics in Prometheus' text format (version 0.0.4).
    fn metrics(&self) -> String;
    /// Returns the state as a line for the service manager.
    fn line(&self) -> String;
}

/// The sockets that serve the status.
pub(super) struct Control {
    unix: Option<(Socket, UnixListener)>,
    metrics: Option<TcpListener>,
    /// The clients that are being served, oldest first.
    clients: Mutex<VecDeque<AbortHandle>>,
}

impl Control {
    /// Binds the configured sockets.
    pub(super) fn bind(path: Option<&Path>, metrics: Option<SocketAddr>) -> Result<Self, Failure> {
        let unix = path.map(|path| {
            let (socket, listener) = bind(path)?;
            Ok::<_, Failure>((socket, UnixListener::from_std(listener)?))
        });
        let metrics = metrics.map(|address| {
            let bound = std::net::TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            });
            bound.with_context(|| format!("cannot listen on {address} for metrics"))
        });
        Ok(Self {
            unix: unix.transpose()?,
            metrics: metrics.transpose()?,
            clients: Mutex::default(),
        })
    }

    pub(super) fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }

    /// Serves clients and notifies the service manager indefinitely.
    pub(super) async fn serve(self, shown: impl Shown) {
        let unix = async {
            let Some((_, listener)) = &self.unix else {
                return std::future::pending().await;
            };
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => self.client(line(stream, shown.clone())),
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        let metrics = async {
            let Some(listener) = &self.metrics else {
                return std::future::pending().await;
            };
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => self.client(scrape(stream, shown.clone())),
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        let ((), (), ()) = tokio::join!(unix, metrics, supervise(&shown));
    }

    /// Serves a client. One that leaves, is too slow or says nothing only loses its own answer.
    fn client(&self, exchange: impl Future<Output = std::io::Result<()>> + Send + 'static) {
        let served = tokio::spawn(timeout(PATIENCE, exchange)).abort_handle();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|client| !client.is_finished());
        if clients.len() >= CLIENTS
            && let Some(oldest) = clients.pop_front()
        {
            oldest.abort();
        }
        clients.push_back(served);
    }
}

/// Answers a line on the status socket.
async fn line(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    shown: impl Shown,
) -> std::io::Result<()> {
    let mut line = String::new();
    let mut limited = tokio::io::BufReader::new((&mut stream).take(LONGEST_LINE));
    tokio::io::AsyncBufReadExt::read_line(&mut limited, &mut line).await?;
    let answer = match line.parse() {
        Ok(Query::Json) => shown.json() + "\n",
        Ok(Query::Metrics) => shown.metrics(),
        Ok(_) | Err(_) => "{\"error\":\"ask for json or metrics\"}\n".to_owned(),
    };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// Answers a request for metrics.
async fn scrape(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    shown: impl Shown,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    let (status, is_head) = loop {
        match asked(&head) {
            Some(asked) => break asked,
            None if stream.read_buf(&mut head).await? == 0 => return Ok(()),
            None => {}
        }
    };
    let body = match status {
        Status::Ok => shown.metrics(),
        status => http::explanation(status).to_owned(),
    };
    let mut answer = http::head(status, body.len());
    if !is_head {
        answer.extend_from_slice(body.as_bytes());
    }
    stream.write_all(&answer).await?;
    stream.shutdown().await
}

/// Returns the status of the answer, and whether the method was HEAD. Returns `None` if the
/// request is incomplete.
fn asked(head: &[u8]) -> Option<(Status, bool)> {
    let request = match http::request(head) {
        Ok(request) => request?,
        Err(status) => return Some((status, false)),
    };
    let status = match (request.method, request.path) {
        (Method::Other, _) => Status::MethodNotAllowed,
        (_, "/metrics") => Status::Ok,
        _ => Status::NotFound,
    };
    Some((status, request.method == Method::Head))
}

/// Notifies the service manager of readiness, then keeps its watchdog alive and updates the status.
async fn supervise(shown: &impl Shown) {
    let start = super::session::now();
    let mut supervisor = Supervisor::from_environment(Instant::ZERO);
    supervisor.ready(&shown.line());
    let mut said = shown.line();
    loop {
        let now = Instant::ZERO + start.elapsed();
        let Some(due) = supervisor.due() else {
            return std::future::pending().await;
        };
        tokio::time::sleep(due.saturating_since(now).min(PATIENCE)).await;
        supervisor.beat(Instant::ZERO + start.elapsed());
        let line = shown.line();
        if line != said {
            supervisor.ready(&line);
            said = line;
        }
    }
}

/// Arguments of `show`.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Read where the status socket is from this configuration
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The status socket, which the configuration names as `control`
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    pub(super) socket: Option<PathBuf>,
    /// Print the state as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print Prometheus metrics
    #[arg(long, conflicts_with = "json")]
    pub(super) metrics: bool,
}

impl ShowArgs {
    /// Prints the state of the process that owns the socket.
    pub(super) fn show(&self, configured: Option<PathBuf>, table: fn(&Value) -> String) -> Outcome {
        let path = self.socket.clone().or(configured).ok_or_else(|| {
            Failure::usage(anyhow!(
                "no socket is named: give --socket PATH, or --config FILE with `control`"
            ))
        })?;
        let query = if self.metrics {
            Query::Metrics
        } else {
            Query::Json
        };
        let text = asked_of(&path, &query)?;
        let text = if self.json || self.metrics {
            text
        } else {
            table(&serde_json::from_str(&text)?)
        };
        Ok(output::line(format_args!("{}", text.trim_end()))?)
    }
}

/// Returns the state of the process that owns a socket.
pub(super) fn state_of(path: &Path) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&asked_of(path, &Query::Json)?)?)
}

fn asked_of(path: &Path, query: &Query) -> anyhow::Result<String> {
    ask(path, query).map_err(|error| match error {
        ControlError::Silent { path, source } => anyhow!(
            "nothing answers on {}: does it run, and is this its `control`? ({source})",
            path.display()
        ),
        other => other.into(),
    })
}

/// Appends a state's flows as lines of a table.
pub(super) fn flow_lines(out: &mut String, state: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let flows = state["flows"].as_array().map_or(&[][..], Vec::as_slice);
    if flows.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "{:<5} {:<12} {:<22} {:<32} {:>9} {:>12} {:>12} {:>9} {:<11} {:>9} {:<11}",
        "kind",
        "by",
        "client",
        "target",
        "seconds",
        "bytes up",
        "bytes down",
        "Mbit/s up",
        "waits for",
        "down",
        "waits for"
    );
    let rate = |value: &Value| value.as_f64().unwrap_or_default() / 1e6;
    for flow in flows {
        let _ = writeln!(
            out,
            "{:<5} {:<12} {:<22} {:<32} {:>9.1} {:>12} {:>12} {:>9.3} {:<11} {:>9.3} {:<11}",
            text(&flow["kind"]),
            text(&flow["by"]),
            text(&flow["client"]),
            text(&flow["target"]),
            flow["seconds"].as_f64().unwrap_or_default(),
            flow["bytes_up"],
            flow["bytes_down"],
            rate(&flow["rate_up_bps"]),
            text(&flow["bounded_by_up"]),
            rate(&flow["rate_down_bps"]),
            text(&flow["bounded_by_down"]),
        );
    }
}

/// Formats a path report as a line.
pub(super) fn path_line(report: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let shares = report["bounded_by"].as_object().into_iter().flatten();
    let shares = shares.map(|(name, share)| (name, share.as_f64().unwrap_or_default()));
    let bound = shares.max_by(|one, other| one.1.total_cmp(&other.1));
    let bound = bound.filter(|(_, share)| *share > 0.0);
    let bound = bound.map_or_else(String::new, |(name, share)| {
        format!(", bounded by {name} {:.0} %", share * 100.0)
    });
    let ruled = Controllers::deserialize(&report["controllers"]).unwrap_or_default();
    format!(
        "law {}, routers {}, RTT p50 {:.1} ms, {} packets lost, ECN {}{bound}",
        Some(ruled.largest())
            .filter(|law| !law.is_empty())
            .unwrap_or_else(|| text(&report["algorithm"])),
        text(&report["feedback"]),
        report["rtt_ms"]["p50"].as_f64().unwrap_or_default(),
        report["packets_lost"],
        text(&report["ecn"]),
    )
}

/// Adds metrics of one value each, with their names and explanations.
macro_rules! values {
    ($out:expr; $($name:literal $help:literal = $value:expr;)+) => {
        $($out.value($name, $help, $value);)+
    };
}

pub(super) use values;

/// A program's metrics in Prometheus' text format.
pub(super) struct Exposition {
    prefix: &'static str,
    text: String,
}

impl Exposition {
    pub(super) const fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            text: String::new(),
        }
    }

    /// Adds a metric with a value for each set of labels, which are like `{user="a"}` or empty.
    pub(super) fn metric<L: fmt::Display, V: fmt::Display>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, V)>,
    ) {
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        let prefix = self.prefix;
        let _ = writeln!(self.text, "# HELP {prefix}_{name} {help}");
        let _ = writeln!(self.text, "# TYPE {prefix}_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(self.text, "{prefix}_{name}{labels} {value}");
        }
    }

    pub(super) fn value(&mut self, name: &str, help: &str, value: impl fmt::Display) {
        self.metric(name, help, [("", value)]);
    }

    /// Adds a connection's metrics.
    pub(super) fn path(&mut self, connection: &Connection) {
        let (report, stats) = (connection.path_report(), connection.stats());
        let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
        let rtt = seconds(report.smoothed_rtt);
        self.value("rtt_seconds", "Smoothed RTT of the connection.", rtt);
        let least = seconds(report.min_rtt);
        self.value("min_rtt_seconds", "Least RTT of the connection.", least);
        values! { self;
            "sent_bytes_total" "Bytes of UDP payload sent." = stats.bytes_sent;
            "received_bytes_total" "Bytes of UDP payload received." = stats.bytes_received;
            "lost_packets_total" "Packets declared lost." = stats.packets_lost;
            "migrations_total" "Changes of path that were validated." = stats.migrations;
        }
    }

    /// Adds metrics of UDP flows' queues.
    pub(super) fn queues(&mut self, totals: &QueueCounts) {
        values! { self;
            "queue_marked_total" "Datagrams that were marked in front of the path." = totals.marked;
            "queue_dropped_total"
                "Datagrams that were dropped in front of the path." = totals.dropped;
        }
        let name = format!("{}_queue_seconds", self.prefix);
        let help = "Time that datagrams waited in front of the path.";
        let _ = writeln!(self.text, "# HELP {name} {help}");
        let _ = writeln!(self.text, "# TYPE {name} histogram");
        let mut so_far = 0;
        for (bound, count) in QueueCounts::BOUNDS.iter().zip(totals.waits) {
            so_far += count;
            let bound = Duration::from_millis(*bound).as_secs_f64();
            let _ = writeln!(self.text, "{name}_bucket{{le=\"{bound}\"}} {so_far}");
        }
        let (sent, sum) = (totals.sent, totals.waited.as_secs_f64());
        let _ = writeln!(self.text, "{name}_bucket{{le=\"+Inf\"}} {sent}");
        let _ = writeln!(self.text, "{name}_sum {sum}");
        let _ = writeln!(self.text, "{name}_count {sent}");
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}
