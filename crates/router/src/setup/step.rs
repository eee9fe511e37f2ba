//! One step: a command of iproute2 or nftables, or a sysctl to write.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

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
