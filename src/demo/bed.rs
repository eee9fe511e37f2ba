//! A test bed for one run: two hosts and a router process between them.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use pathmark_emulator::result::{LinkResult, QueueStats};
use pathmark_router::daemon::{Query, ask};
use pathmark_testbed::{ChildGuard, Node, Prefix, Testbed, Tun};
use serde_json::Value;
use tempfile::TempDir;

use super::scenario::{Scenario, Stack};

/// Largest IP packet on the path.
const MTU: u32 = 1500;
/// Where the sender of data is.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
/// Where the receiver is.
pub const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 1));

/// The program that is a router when called with `vcp-router`'s arguments.
#[derive(Clone, Debug)]
pub struct RouterProgram {
    /// The executable.
    pub program: PathBuf,
    /// Arguments before those of `vcp-router`.
    pub prefix: Vec<String>,
}

/// Two hosts and a router between them. Dropped, nothing of it is left.
#[derive(Debug)]
pub struct Bed {
    /// The sender's host.
    pub server: Node,
    /// The receiver's host.
    pub client: Node,
    router: Node,
    process: Option<ChildGuard>,
    program: RouterProgram,
    files: TempDir,
    tuns: [Tun; 2],
}

/// One row of the router's time series.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Seconds of Unix time.
    pub unix_s: f64,
    /// Bytes that left for the wire so far.
    pub sent_bytes: f64,
    /// Bytes that wait.
    pub queue_bytes: f64,
}

impl Bed {
    /// Builds it and starts the router.
    ///
    /// # Errors
    /// If the machine forbids namespaces or TUN interfaces, or the router does not start.
    pub fn new(scenario: &Scenario, stack: &Stack, program: RouterProgram) -> Result<Self> {
        let bed = Testbed::new()?;
        let (server, client) = (bed.node("server")?, bed.node("client")?);
        let tuns = [server.tun("tun0", MTU)?, client.tun("tun0", MTU)?];
        for (node, address) in [(&server, SERVER), (&client, CLIENT)] {
            node.add_address("tun0", Prefix::host(address))?;
            node.add_route("0.0.0.0/0".parse()?, "tun0", None)?;
        }
        let mut bed = Self {
            router: bed.node("router")?,
            server,
            client,
            process: None,
            program,
            files: TempDir::new()?,
            tuns,
        };
        std::fs::write(bed.path("router.toml"), bed.config(scenario, stack))?;
        bed.start_router()?;
        Ok(bed)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn config(&self, scenario: &Scenario, stack: &Stack) -> String {
        let [left, right] = &self.tuns;
        let loss = if scenario.loss > 0.0 {
            format!(
                "loss = {{ kind = \"bernoulli\", per = {} }}\n",
                scenario.loss
            )
        } else {
            String::new()
        };
        format!(
            r#"id = 1
control = "{control}"
seed = 1

[[port]]
name = "bottleneck"
fd = {right}
mtu = {MTU}
rate = "{rate}bit"
delay = "{delay}ms"
controller = "{controller}"
queue = {{ kind = "droptail", limit = "1bdp", rtt = "{rtt}ms", separate = false }}
{loss}
[[port]]
name = "bottleneck.reverse"
fd = {left}
mtu = {MTU}
rate = "{rate}bit"
delay = "{delay}ms"
queue = {{ kind = "droptail", limit = "4bdp", rtt = "{rtt}ms" }}

[[route]]
prefix = "{CLIENT}/32"
port = "bottleneck"

[[route]]
prefix = "{SERVER}/32"
port = "bottleneck.reverse"
"#,
            control = self.path("control.sock").display(),
            left = left.fd.as_raw_fd(),
            right = right.fd.as_raw_fd(),
            rate = scenario.rate_bps,
            delay = scenario.delay_ms,
            rtt = 2 * scenario.delay_ms,
            controller = stack.link_controller(),
        )
    }

    /// Starts the router, also after it was killed: its interfaces stay meanwhile.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_router(&mut self) -> Result<()> {
        let mut command = Command::new(&self.program.program);
        command
            .args(&self.program.prefix)
            .args(["run", "--json", "--config"])
            .arg(self.path("router.toml"))
            .arg("--record")
            .arg(self.path("record.csv"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let fds: Vec<_> = self.tuns.iter().map(|tun| tun.fd.as_fd()).collect();
        let mut process = self
            .router
            .spawn(command, &fds)
            .context("cannot start the router")?;
        let output = process.child().stdout.take().context("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.is_empty() {
            let mut reason = String::new();
            if let Some(mut errors) = process.child().stderr.take() {
                std::io::Read::read_to_string(&mut errors, &mut reason)?;
            }
            bail!("the router does not start: {}", reason.trim());
        }
        self.process = Some(process);
        Ok(())
    }

    /// Ends the router at once, as a crash would.
    ///
    /// # Errors
    /// If it has ended already.
    pub fn kill_router(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
        }
        Ok(())
    }

    /// The links as the router sees them.
    ///
    /// # Errors
    /// If the router does not answer.
    pub fn links(&self) -> Result<Vec<LinkResult>> {
        let text = ask(&self.path("control.sock"), Query::Json)?;
        let state: Value = serde_json::from_str(&text)?;
        let links = state["links"].as_array().cloned().unwrap_or_default();
        links.iter().map(link_result).collect()
    }

    /// Ends the router and reads its time series of the bottleneck.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn finish(mut self) -> Result<Vec<Sample>> {
        if let Some(mut process) = self.process.take() {
            process.terminate()?;
            process.wait()?;
        }
        let text = std::fs::read_to_string(self.path("record.csv"))?;
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name: &str| {
            header
                .iter()
                .position(|column| *column == name)
                .with_context(|| format!("the router records no {name}"))
        };
        let [time, link, sent, queue] = [
            column("unix_s")?,
            column("link")?,
            column("sent_bytes")?,
            column("queue_bytes")?,
        ];
        let mut samples = Vec::new();
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            if fields.get(link).is_none_or(|name| *name != "bottleneck") {
                continue;
            }
            let number = |at: usize| fields.get(at).and_then(|f| f.parse().ok()).unwrap_or(0.0);
            samples.push(Sample {
                unix_s: number(time),
                sent_bytes: number(sent),
                queue_bytes: number(queue),
            });
        }
        Ok(samples)
    }
}

fn link_result(link: &Value) -> Result<LinkResult> {
    let queue = |key: &str| QueueStats {
        mean: link[key]["mean"].as_f64().unwrap_or(0.0),
        mean_nonempty: link[key]["mean_nonempty"].as_f64().unwrap_or(0.0),
        p99: link[key]["p99"].as_f64().unwrap_or(0.0),
        max: link[key]["max"].as_f64().unwrap_or(0.0),
    };
    let controller = link["controller"].as_object().cloned().unwrap_or_default();
    Ok(LinkResult {
        name: link["name"]
            .as_str()
            .context("a link without name")?
            .to_owned(),
        rate_bps: link["rate_bps"].as_f64(),
        utilization: link["utilization"].as_f64(),
        time_to_80_s: None,
        queue_packets: queue("queue_packets"),
        queue_ms: Some(queue("queue_ms")),
        drops: link["drops"].as_u64().unwrap_or(0),
        random_losses: link["random_losses"].as_u64().unwrap_or(0),
        controller: controller.into_iter().collect(),
    })
}
