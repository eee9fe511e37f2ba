//! The configuration of a proxy, which is a TOML file and a separate file of users.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use pathmark_transport::crypto::tls::Pin;
use serde::Deserialize;
use toml::Spanned;

use super::{Access, Times, UsageLimits, User, UserKey};
use crate::classes::Classes;
use crate::policy::Policy;
use crate::uri::{BadToken, Token};

/// Default limits on the flows of a user and of all users.
const FLOWS_PER_USER: usize = 1_000;
const FLOWS: usize = 10_000;
/// The minimum timeout of idle UDP flows in seconds (RFC 4787 section 4.3).
const LEAST_IDLE: u64 = 120;
/// The prefix of a certificate's SHA-256.
const CERTIFICATE: &str = "sha256:";
/// Maximum length of a user's name.
const LONGEST_NAME: usize = 64;

/// An error in a file. Messages never include a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The underlying error.
        source: std::io::Error,
    },
    /// A line is invalid.
    #[error("{place}:{line}: {what}")]
    Invalid {
        /// The file or environment variable.
        place: String,
        /// The line number, counting from 1.
        line: usize,
        /// A description of the error.
        what: String,
    },
}

/// The file's content.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<Spanned<String>>,
    tokens: PathBuf,
    name: Option<String>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    cc: Option<Spanned<String>>,
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    #[serde(default)]
    deny: Vec<Spanned<String>>,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    seconds: Seconds,
    control: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    access_log: Option<PathBuf>,
    #[serde(default)]
    user: BTreeMap<String, UsageLimits>,
    #[serde(default)]
    class: Classes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    flows: Option<usize>,
    flows_per_user: Option<usize>,
    rate_per_user: Option<NonZeroU64>,
    volume_per_user: Option<NonZeroU64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Seconds {
    connect: Option<Spanned<u64>>,
    udp_idle: Option<Spanned<u64>>,
}

/// A proxy's configuration, except for its users. Paths are relative to the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Address and port to listen on, with the line number. `None` if another server listens.
    pub listen: Option<(String, usize)>,
    /// The file of users.
    pub tokens: PathBuf,
    /// The host name to use in URIs.
    pub name: Option<String>,
    /// Certificate chain and private key, as PEM files.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Congestion control laws, with the line number.
    pub cc: Option<(String, usize)>,
    /// Allowed and denied addresses.
    pub policy: Policy,
    /// Maximum number of flows of all users.
    pub flows: usize,
    /// Maximum number of flows per user.
    pub flows_per_user: usize,
    /// Timeouts.
    pub times: Times,
    /// The socket for status requests.
    pub control: Option<PathBuf>,
    /// The address that serves Prometheus metrics.
    pub metrics: Option<SocketAddr>,
    /// The file for a line about each request.
    pub access_log: Option<PathBuf>,
    /// Limits on the traffic of each user.
    pub usage: UsageLimits,
    /// Limits of single users instead of these.
    pub usage_of: BTreeMap<String, UsageLimits>,
    /// How to treat flows by the ports of their targets.
    pub classes: Classes,
}

/// A user's credential in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A token that requests carry.
    Token(Token),
    /// The SHA-256 of a certificate.
    Certificate(Pin),
}

/// A text and the name to use for it in messages.
struct Source<'a> {
    place: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn wrong(&self, line: usize, what: impl Into<String>) -> ConfigError {
        ConfigError::Invalid {
            place: self.place.to_owned(),
            line,
            what: what.into(),
        }
    }

    fn prefixes(&self, texts: Vec<Spanned<String>>) -> Result<Vec<IpNet>, ConfigError> {
        let prefixes = texts.into_iter().map(|text| {
            let wrong = || {
                let what = format!("`{}` is no prefix such as 10.0.0.0/8", text.get_ref());
                self.wrong(self.line(text.span().start), what)
            };
            prefix(text.get_ref()).ok_or_else(wrong)
        });
        prefixes.collect()
    }
}

/// Parses an address or a prefix, which has no bits of a host.
pub fn prefix(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let prefix = text.parse::<IpNet>().ok().or_else(address);
    prefix.filter(|prefix| *prefix == prefix.trunc())
}

impl Config {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(path, &read(path)?)
    }

    /// Validates the text of a file.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let place = path.display().to_string();
        let source = Source {
            place: &place,
            text,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| source.line(span.start));
            source.wrong(line, error.message())
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let certificate = match (file.cert, file.key) {
            (Some(cert), Some(key)) => Some((folder.join(cert), folder.join(key))),
            (None, None) => None,
            _ => return Err(source.wrong(1, "`cert` and `key` go together")),
        };
        let with_line = |text: Spanned<String>| {
            let line = source.line(text.span().start);
            (text.into_inner(), line)
        };
        let seconds = |given: Option<Spanned<u64>>, least: u64, default: Duration| match given {
            None => Ok(default),
            Some(time) if *time.get_ref() < least => {
                let what = format!("this time has {least} seconds at least");
                Err(source.wrong(source.line(time.span().start), what))
            }
            Some(time) => Ok(Duration::from_secs(time.into_inner())),
        };
        let default = Times::default();
        Ok(Self {
            listen: file.listen.map(with_line),
            tokens: folder.join(file.tokens),
            name: file.name,
            certificate,
            cc: file.cc.map(with_line),
            policy: Policy {
                allow: source.prefixes(file.allow)?,
                deny: source.prefixes(file.deny)?,
            },
            flows: file.limits.flows.unwrap_or(FLOWS),
            flows_per_user: file.limits.flows_per_user.unwrap_or(FLOWS_PER_USER),
            times: Times {
                connect: seconds(file.seconds.connect, 1, default.connect)?,
                udp_idle: seconds(file.seconds.udp_idle, LEAST_IDLE, default.udp_idle)?,
                ..default
            },
            control: file.control.map(|path| folder.join(path)),
            metrics: file.metrics,
            access_log: file.access_log.map(|path| folder.join(path)),
            usage: UsageLimits {
                rate: file.limits.rate_per_user,
                volume: file.limits.volume_per_user,
            },
            usage_of: file.user,
            classes: file.class,
        })
    }

    /// Creates a configuration without a file.
    pub fn new(tokens: PathBuf, policy: Policy) -> Self {
        Self {
            listen: None,
            tokens,
            name: None,
            certificate: None,
            cc: None,
            policy,
            flows: FLOWS,
            flows_per_user: FLOWS_PER_USER,
            times: Times::default(),
            control: None,
            metrics: None,
            access_log: None,
            usage: UsageLimits::default(),
            usage_of: BTreeMap::new(),
            classes: Classes::default(),
        }
    }

    /// Returns the access of these users.
    pub fn access(&self, users: &[(String, Credential)]) -> Access {
        let users = users.iter().map(|(name, credential)| User {
            name: name.clone(),
            key: match credential {
                Credential::Token(token) => UserKey::Token(token.hash()),
                Credential::Certificate(pin) => UserKey::Certificate(*pin),
            },
        });
        Access {
            users: users.collect(),
            policy: self.policy.clone(),
            flows: self.flows,
            flows_per_user: self.flows_per_user,
            usage: self.usage,
            usage_of: self.usage_of.clone(),
            classes: self.classes.clone(),
        }
    }
}

/// Parses users. Each line has a name and either a token or `sha256:` followed by the SHA-256 of
/// a certificate. Empty lines and those beginning with `#` are ignored. `place` is used in
/// messages.
///
/// # Errors
/// [`ConfigError::Invalid`].
pub fn users(place: &str, text: &str) -> Result<Vec<(String, Credential)>, ConfigError> {
    let source = Source { place, text };
    let (mut users, mut names) = (Vec::new(), BTreeSet::new());
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let wrong = |what: &str| source.wrong(line, what);
        let parts = content.split_once(char::is_whitespace);
        let (name, token) = parts.ok_or_else(|| wrong("a line has a name and a token"))?;
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if name.len() > LONGEST_NAME || !name.bytes().all(known) {
            let what = "a name has at most 64 letters, digits, `-`, `.` and `_`";
            return Err(wrong(what));
        }
        let token = token.trim();
        let credential = match token.strip_prefix(CERTIFICATE) {
            Some(pin) => pin
                .parse()
                .map(Credential::Certificate)
                .map_err(|_| wrong("`sha256:` and 64 hexadecimal digits are a certificate")),
            None => token
                .parse()
                .map(Credential::Token)
                .map_err(|error: BadToken| wrong(&error.to_string())),
        }?;
        if !names.insert(name) {
            return Err(wrong("another line has this name"));
        }
        if users.iter().any(|(_, other)| *other == credential) {
            return Err(wrong("another line has this token or certificate"));
        }
        users.push((name.to_owned(), credential));
    }
    if users.is_empty() {
        Err(source.wrong(1, "no user is there: a line has a name and a token"))
    } else {
        Ok(users)
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
