//! `serve --clients FILE`: the clients' rights.
//!
//! ```toml
//! [[client]]
//! name = "camera"                  # in the log
//! token-file = "camera.token"      # or token-env = "CAMERA", or a certificate's pin = "sha256:…";
//!                                  # none: requests without a token or a known certificate
//! rights = ["get", "list", "put", "overwrite"]
//! prefix = "cameras/1"             # the directory to which it is confined
//! quota = "10GB"                   # bytes of all files in it
//! files = 10000                    # number of all files, links and directories in it
//! rate = "2MB"                     # per second, both directions together
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use pathmark_http3::fields::{PathName, encode_name};
use pathmark_http3::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use pathmark_http3::http::{Request, StatusCode};
use pathmark_http3::origin::{Grant, Quota};
use pathmark_http3::pace::Pace;
use pathmark_http3::plan::{PutRights, Reply, Rules, problem};
use pathmark_http3::root::{Entries, find_uploads, open_directory};
use pathmark_link::keys::Source;
use pathmark_transport::crypto::tls::Pin;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::identity::{is_open_to_others, read_input};
use super::values;

/// Minimum length of a client's token, as for users of a proxy. In base64, it has 96 bits.
const SHORTEST: usize = 16;
/// Maximum depth of directories counted for a quota, as in the origin.
const DEPTH: usize = 128;

/// The file's content.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    client: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    name: String,
    token_file: Option<PathBuf>,
    token_env: Option<String>,
    pin: Option<String>,
    rights: Vec<Right>,
    prefix: Option<String>,
    quota: Option<String>,
    files: Option<u64>,
    rate: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Right {
    Get,
    List,
    Put,
    Overwrite,
}

/// The clients listed by an operator.
#[derive(Debug)]
pub(super) struct Clients(Vec<Client>);

/// A listed client.
#[derive(Debug)]
struct Client {
    name: String,
    /// The token's SHA-256. The time of a comparison depends on the hash of a guess rather than
    /// the guess itself.
    token: Option<[u8; 32]>,
    /// The pin of its certificate.
    pin: Option<Pin>,
    grant: Arc<Grant>,
}

/// Strips the line ending from a token that was read from a file or the environment.
fn trimmed(token: &str) -> anyhow::Result<&str> {
    let token = token.trim_end_matches(['\r', '\n']);
    let visible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if visible {
        Ok(token)
    } else {
        Err(anyhow!(
            "a token has visible characters of ASCII, one at least"
        ))
    }
}

/// Reads a token from a file.
pub(super) fn read_token(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let text = read_input(path).with_context(|| format!("cannot read the token {shown}"))?;
    let text = std::str::from_utf8(&text).with_context(|| format!("{shown} is no text"))?;
    let token = trimmed(text).with_context(|| shown.to_string())?;
    Ok(token.to_owned())
}

/// Reads a token from an environment variable.
pub(super) fn token_of(variable: &str) -> anyhow::Result<Option<String>> {
    match std::env::var(variable) {
        Ok(token) => Ok(Some(
            trimmed(&token).context(variable.to_owned())?.to_owned(),
        )),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(anyhow::Error::new(error).context(variable.to_owned())),
    }
}

impl Clients {
    /// Reads the file at `path` for a server of `directory`.
    pub(super) fn read(path: &Path, directory: &Path) -> anyhow::Result<Self> {
        let read = || {
            let text = std::fs::read_to_string(path)?;
            let source = Source { path, text: &text };
            let written: Written = toml::from_str(&text).map_err(|error| {
                let fault = source.syntax(&error);
                anyhow!("line {}: {}", fault.line, fault.message)
            })?;
            let beside = path.parent().unwrap_or(Path::new("."));
            let mut clients = Vec::<Client>::new();
            for entry in &written.client {
                let client = Client::of(entry, beside, directory)
                    .with_context(|| format!("client `{}`", entry.name))?;
                let key = |client: &Client| (client.token, client.pin);
                let taken =
                    |other: &&Client| other.name == client.name || key(other) == key(&client);
                if let Some(other) = clients.iter().find(taken) {
                    bail!(
                        "the clients `{}` and `{}` have the same name, token or pin",
                        other.name,
                        client.name
                    );
                }
                clients.push(client);
            }
            Ok(Self(clients))
        };
        read().with_context(|| format!("cannot use the clients in {}", path.display()))
    }

    /// Replaces an earlier list. Clients that are in both keep their quotas, of which active
    /// requests have reserved bytes.
    pub(super) fn after(mut self, before: &Self) -> Self {
        for client in &mut self.0 {
            let is_same = |other: &&Client| {
                let prefix = |client: &Client| client.grant.rules.prefix.clone();
                other.name == client.name && prefix(other) == prefix(client)
            };
            let quota = before.0.iter().find(is_same);
            let quota = quota.and_then(|other| other.grant.quota.clone());
            if let Some(grant) = Arc::get_mut(&mut client.grant)
                && let (Some(quota), Some(own)) = (quota, &mut grant.quota)
            {
                quota.renew(own);
                *own = quota;
            }
        }
        self
    }

    /// Returns the rights of the client with this name.
    pub(super) fn grant(&self, name: &str) -> Option<Arc<Grant>> {
        let client = self.0.iter().find(|client| client.name == name);
        client.map(|client| Arc::clone(&client.grant))
    }

    /// Returns true if the server should request certificates from clients.
    pub(super) fn have_pins(&self) -> bool {
        self.0.iter().any(|client| client.pin.is_some())
    }

    /// Finds the client by the request's token, or if it has none, by the pin of the certificate
    /// that the client presented. The error is true if the request has a token.
    fn find<T>(&self, request: &Request<T>, shown: Option<Pin>) -> Result<&Client, bool> {
        let token = request.headers().get(AUTHORIZATION).map(|value| {
            let value = value.as_bytes();
            let (scheme, token) = value.split_at_checked(7).unwrap_or_default();
            let token = token.trim_ascii();
            scheme
                .eq_ignore_ascii_case(b"bearer ")
                .then(|| <[u8; 32]>::from(Sha256::digest(token)))
        });
        let Some(token) = token else {
            let by_pin = |client: &&Client| client.pin.is_some() && client.pin == shown;
            let open = |client: &&Client| client.pin.is_none() && client.token.is_none();
            let found = self.0.iter().find(by_pin);
            return found.or_else(|| self.0.iter().find(open)).ok_or(false);
        };
        let mut found = None;
        for client in &self.0 {
            if let (Some(own), Some(token)) = (&client.token, &token)
                && own.ct_eq(token).into()
            {
                found = Some(client);
            }
        }
        found.ok_or(true)
    }

    /// Returns the name of a request's client.
    pub(super) fn name<T>(&self, request: &Request<T>, shown: Option<Pin>) -> Option<&str> {
        self.find(request, shown)
            .ok()
            .map(|client| client.name.as_str())
    }

    /// Returns the rights of a request's client.
    pub(super) fn admit<T>(
        &self,
        request: &Request<T>,
        shown: Option<Pin>,
    ) -> Result<Arc<Grant>, Box<Reply>> {
        match self.find(request, shown) {
            Ok(client) => Ok(Arc::clone(&client.grant)),
            Err(has_one) => {
                let (detail, challenge) = if has_one {
                    (
                        "the server does not know the token; ask its operator for one",
                        "Bearer error=\"invalid_token\"",
                    )
                } else {
                    (
                        "the server asks for a token (--token-file, PATHMARK_TOKEN) or for a \
                         certificate that it knows (--client-cert, --own-cert)",
                        "Bearer",
                    )
                };
                let reply = problem(StatusCode::UNAUTHORIZED, detail);
                Err(reply.with(WWW_AUTHENTICATE, challenge).into())
            }
        }
    }
}

impl Client {
    fn of(entry: &Entry, beside: &Path, directory: &Path) -> anyhow::Result<Self> {
        let token = match (&entry.token_file, &entry.token_env) {
            (Some(_), Some(_)) => bail!("it has token-file and token-env; give one of them"),
            (Some(path), None) => {
                let path = beside.join(path);
                if is_open_to_others(&path) {
                    bail!(
                        "all users can read the token in {0}; run chmod o-r {0}",
                        path.display()
                    );
                }
                Some(read_token(&path)?)
            }
            (None, Some(variable)) => Some(
                token_of(variable)?.ok_or_else(|| anyhow!("the environment has no {variable}"))?,
            ),
            (None, None) => None,
        };
        if token.as_ref().is_some_and(|token| token.len() < SHORTEST) {
            bail!("its token can be guessed; give it {SHORTEST} characters at least");
        }
        let pin = entry.pin.as_deref().map(|text| {
            let pin: Result<Pin, _> = text.strip_prefix("sha256:").unwrap_or(text).parse();
            pin.with_context(|| format!("pin `{text}`"))
        });
        let pin = pin.transpose()?;
        if pin.is_some() && token.is_some() {
            bail!("it has a token and a pin; give one of them");
        }
        let has = |right| entry.rights.contains(&right);
        let put = match (has(Right::Put), has(Right::Overwrite)) {
            (false, true) => bail!("it has the right overwrite without put"),
            (true, true) => PutRights::Replace,
            (true, false) => PutRights::New,
            (false, false) => PutRights::None,
        };
        let prefix = prefix(entry.prefix.as_deref().unwrap_or_default())?;
        let bytes = |text: &Option<String>| {
            let text = text
                .as_deref()
                .map(|text| text.strip_suffix("/s").unwrap_or(text));
            text.map(values::bytes)
                .transpose()
                .map_err(|why| anyhow!(why))
        };
        let quota = bytes(&entry.quota)?.or(entry.files.and(Some(u64::MAX)));
        let quota = quota.map(|most| {
            let mut beneath = directory.to_owned();
            for name in &prefix {
                use std::os::unix::ffi::OsStrExt;
                beneath.push(std::ffi::OsStr::from_bytes(name));
            }
            let (bytes, files) = used(&beneath, DEPTH);
            let quota = Quota::new(most, bytes.saturating_add(unfinished(&beneath)));
            Arc::new(quota.with_files(entry.files.unwrap_or(u64::MAX), files))
        });
        let pace = match bytes(&entry.rate)? {
            Some(0..1000) => bail!("its rate is below 1kB per second"),
            rate => rate.map(Pace::new),
        };
        let rules = Rules {
            get: has(Right::Get),
            list: has(Right::List),
            put,
            prefix,
            ..Rules::default()
        };
        Ok(Self {
            name: entry.name.clone(),
            token: token.map(|token| Sha256::digest(token).into()),
            pin,
            grant: Arc::new(Grant {
                name: entry.name.clone(),
                rules,
                pace,
                quota,
            }),
        })
    }
}

/// Parses a directory beneath the root into names.
fn prefix(text: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let names = text.split('/').filter(|name| !name.is_empty());
    let path: String = names
        .map(|name| format!("/{}", encode_name(name.as_bytes())))
        .collect();
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let path = PathName::parse(path.as_bytes());
    Ok(path.with_context(|| format!("prefix `{text}`"))?.names)
}

/// Returns the bytes of all unfinished uploads in a directory.
fn unfinished(directory: &Path) -> u64 {
    let uploads = open_directory(directory).map(|top| find_uploads(&top));
    let bytes = uploads.unwrap_or_default().into_iter();
    bytes
        .map(|upload| upload.stat.size)
        .fold(0, u64::saturating_add)
}

/// Returns the bytes of all files in a directory, ignoring unreadable files, and the number of its
/// entries.
fn used(directory: &Path, depth: usize) -> (u64, u64) {
    use std::os::unix::ffi::OsStrExt;
    let entries = open_directory(directory).and_then(Entries::of);
    let (Ok(mut entries), true) = (entries, depth > 0) else {
        return (0, 0);
    };
    let (mut bytes, mut files) = (0_u64, 0_u64);
    while let Ok(piece) = entries.next_piece()
        && !piece.is_empty()
    {
        for entry in piece {
            let (own, inside) = match entry.stat.kind {
                pathmark_http3::resource::Kind::File => (entry.stat.size, 0),
                pathmark_http3::resource::Kind::Directory => {
                    let name = std::ffi::OsStr::from_bytes(&entry.name);
                    used(&directory.join(name), depth - 1)
                }
                _ => (0, 0),
            };
            bytes = bytes.saturating_add(own);
            files += inside + 1;
        }
    }
    (bytes, files)
}

#[cfg(test)]
mod tests;
