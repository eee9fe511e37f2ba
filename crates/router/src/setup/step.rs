//! One step: a rule or route in the syntax of ip(8), a command of nftables, or a sysctl to write.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fmt, fs};

use ipnet::IpNet;

use super::SetupError;

/// One step. It displays as the equivalent shell command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `ip` with these arguments.
    Ip(Vec<String>),
    /// `nft` with these commands.
    Nft(String),
    /// A sysctl, by its file.
    Sysctl(PathBuf, String),
}

impl Step {
    /// `ip`, with the words of `text` as arguments.
    pub(super) fn ip(text: impl fmt::Display) -> Self {
        let words = text.to_string();
        Self::Ip(words.split_whitespace().map(str::to_owned).collect())
    }

    /// Performs the step.
    pub(super) fn run(&self) -> Result<(), SetupError> {
        match self {
            Self::Ip(arguments) => program("ip", "iproute2", arguments).map(drop),
            Self::Nft(commands) => nft(&[commands.as_str()]).map(drop),
            Self::Sysctl(path, value) => {
                std::fs::write(path, value).map_err(|source| SetupError::Write {
                    path: path.clone(),
                    source,
                })
            }
        }
    }
}

/// Runs `nft` until it ends, and returns its output.
pub(super) fn nft(arguments: &[&str]) -> Result<Vec<u8>, SetupError> {
    let arguments: Vec<_> = arguments.iter().map(|word| (*word).to_owned()).collect();
    program("nft", "nftables", &arguments)
}

/// Runs a program until it ends, and returns its output.
fn program(
    name: &'static str,
    package: &'static str,
    arguments: &[String],
) -> Result<Vec<u8>, SetupError> {
    let mut command = Command::new(name);
    // Not every user's path has the directories of system programs. An empty element would mean
    // the current directory.
    const PLACES: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
    let path = match std::env::var("PATH") {
        Ok(path) if !path.is_empty() => format!("{path}:{PLACES}"),
        _ => PLACES.to_owned(),
    };
    command.env("PATH", path);
    command.args(arguments).stdin(Stdio::null());
    let shown = || {
        let words = arguments.iter().map(|word| format!(" {}", Quoted(word)));
        format!("{name}{}", words.collect::<String>())
    };
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().map_err(|source| SetupError::Missing {
        command: shown(),
        package,
        source,
    })?;
    if status.success() {
        return Ok(stdout);
    }
    let message = String::from_utf8_lossy(&stderr);
    let message = message.trim().replace('\n', "; ");
    let hint = if message.contains("not permitted") {
        " (run as root)"
    } else {
        ""
    };
    Err(SetupError::Command {
        command: shown(),
        message: format!("{message}{hint}"),
    })
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(arguments) => {
                f.write_str("ip")?;
                arguments
                    .iter()
                    .try_for_each(|word| write!(f, " {}", Quoted(word)))
            }
            Self::Nft(commands) => write!(f, "nft {}", Quoted(commands)),
            Self::Sysctl(path, value) => {
                let path = path.display().to_string();
                write!(f, "echo {} > {}", Quoted(value), Quoted(&path))
            }
        }
    }
}

/// Formats a word so that a shell reads it as one word.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
        if !self.0.is_empty() && self.0.chars().all(plain) {
            f.write_str(self.0)
        } else {
            write!(f, "'{}'", self.0.replace('\'', r"'\''"))
        }
    }
}

/// Protocol number of our rules and routes, unassigned in iproute2 6.1
/// (`/etc/iproute2/rt_protos`).
pub(super) const PROTOCOL: u8 = 118;

/// The main table's number (`RT_TABLE_MAIN`).
pub(super) const MAIN: u32 = 254;

/// A policy rule that leads to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) v6: bool,
    pub(super) priority: u32,
    pub(super) from: Option<String>,
    pub(super) mark: Option<u32>,
    pub(super) to: Option<IpNet>,
    pub(super) table: u32,
    pub(super) ours: bool,
}

/// One of our routes. Without a `device`, it rejects packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) v6: bool,
    pub(super) table: u32,
    pub(super) to: Option<IpNet>,
    pub(super) device: Option<String>,
    pub(super) metric: u32,
}

fn family(v6: bool) -> &'static str {
    if v6 { "-6" } else { "-4" }
}

impl Rule {
    pub(super) fn add(&self) -> Step {
        Step::ip(format!("{} rule add {self}", family(self.v6)))
    }

    pub(super) fn delete(&self) -> Step {
        Step::ip(format!("{} rule delete {self}", family(self.v6)))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "priority {}", self.priority)?;
        if let Some(from) = &self.from {
            write!(f, " iif {from}")?;
        }
        if let Some(mark) = self.mark {
            write!(f, " fwmark {mark}")?;
        }
        if let Some(to) = self.to {
            write!(f, " to {to}")?;
        }
        write!(f, " lookup {} protocol {PROTOCOL}", self.table)
    }
}

impl Route {
    /// Whether both have the same table, destination and metric, of which only one route can
    /// exist.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        (self.v6, self.table, self.to, self.metric)
            == (other.v6, other.table, other.to, other.metric)
    }

    pub(super) fn add(&self) -> Step {
        Step::ip(format!("{} route replace {self}", family(self.v6)))
    }

    pub(super) fn delete(&self) -> Step {
        Step::ip(format!("{} route delete {self}", family(self.v6)))
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.device.is_none() {
            f.write_str("unreachable ")?;
        }
        match self.to {
            Some(to) => write!(f, "{to}")?,
            None => f.write_str("default")?,
        }
        if let Some(device) = &self.device {
            write!(f, " dev {device}")?;
        }
        let Self { table, metric, .. } = self;
        write!(f, " table {table} metric {metric} protocol {PROTOCOL}")
    }
}

/// Source validation of all interfaces. The larger value of this and the interface's own
/// applies.
pub(super) const RP_FILTER: &str = "ipv4/conf/all/rp_filter";

/// The file of a sysctl under `net`.
pub(super) fn sysctl(key: &str) -> PathBuf {
    Path::new("/proc/sys/net").join(key)
}

/// The sysctls that an interface needs: files and values.
pub(super) fn sysctls(name: &str, ipv6: bool) -> impl Iterator<Item = (PathBuf, &'static str)> {
    // Source validation must be off because packets return with sources from behind a card,
    // which has already validated them. Routes without carrier must be ignored because this is
    // how the kernel notices that no router runs. There must be no link-local address, so that
    // the kernel itself sends nothing.
    let v4 = [("rp_filter", "0"), ("ignore_routes_with_linkdown", "1")];
    let v6 = [("addr_gen_mode", "1"), ("ignore_routes_with_linkdown", "1")];
    let of = |family: &str, key: &str| sysctl(&format!("{family}/conf/{name}/{key}"));
    let v4 = v4.map(|(key, value)| (of("ipv4", key), value));
    let v6 = v6.map(|(key, value)| (of("ipv6", key), value));
    v4.into_iter().chain(v6.into_iter().filter(move |_| ipv6))
}

/// True if new interfaces have IPv6.
pub(super) fn has_ipv6() -> bool {
    ["all", "default"].iter().all(|conf| {
        let file = format!("/proc/sys/net/ipv6/conf/{conf}/disable_ipv6");
        fs::read_to_string(file).is_ok_and(|value| value.trim() == "0")
    })
}
