//! State of `get` and `put` that is kept between runs: servers' tokens in a file of the user,
//! and interrupted uploads.
//!
//! ```text
//!   $XDG_STATE_HOME/pathmark/servers.json    0600, a new one takes its place by rename(2)
//!                            servers.lock    flock(2), held for a read and a write
//!                            servers.new     the new file while it is written, under that lock
//!                            uploads/        a file for each upload that broke off
//!                            client.key      0600, PEM: the user's certificate and its key
//! ```
//!
//! A run removes a token before using it, and adds a new token later, so that two runs never use
//! the same token. A fault in the file results in a warning and loses its tokens, but the transfer
//! still succeeds.

pub(super) mod known;
mod tokens;
pub(super) mod uploads;

use std::cell::Cell;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use nix::unistd::geteuid;

use super::target::Target;
use super::{identity, session};
use pathmark::Endpoint;

use tokens::Tokens;

/// Maximum size of a file to read.
const LONGEST_FILE: u64 = 1 << 18;
/// Time to wait for another process's lock, which is normally held for about a millisecond.
const LOCK_WAIT: Duration = Duration::from_millis(200);
/// Interval between attempts to lock.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// Whether anything is kept.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct StateArgs {
    /// Neither read nor write saved state. By default, address tokens and the positions of uploads
    /// are kept in $XDG_STATE_HOME/pathmark (~/.local/state/pathmark), so that later transfers
    /// start faster and uploads resume
    #[arg(long)]
    pub(super) no_state: bool,
}

/// The directory of the files and its owner.
#[derive(Clone, Debug)]
struct State {
    directory: PathBuf,
    user: u32,
}

/// The reason why the file can't be used.
#[derive(Debug, thiserror::Error)]
enum StateError {
    /// It can't be read or written.
    #[error("cannot use what was kept of servers in {directory}: {source}")]
    Io {
        directory: PathBuf,
        source: io::Error,
    },
    /// Other users could write to it.
    #[error(
        "other users may write to {0}: no tokens are kept there; it must be yours, with mode 0700"
    )]
    Foreign(PathBuf),
    /// It is a link to another place, where others may be able to write.
    #[error(
        "{0} is a symbolic link, which is not followed: no tokens are kept there; put a directory \
         of yours with mode 0700 in its place"
    )]
    Link(PathBuf),
    /// It is not a directory.
    #[error(
        "{0} is no directory: no tokens are kept there; put a directory of yours with mode 0700 in \
         its place"
    )]
    NoDirectory(PathBuf),
    /// Another process holds its lock for too long.
    #[error("{0} is locked by another process for too long: what was kept of servers is not used")]
    Locked(PathBuf),
}

/// The reason why the file's content is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Unusable {
    #[error("it is not what pathmark writes")]
    Damaged,
    #[error("it is longer than what pathmark writes")]
    TooLong,
    #[error("it is no plain file")]
    NoFile,
    #[error("it belongs to another user")]
    Foreign,
    #[error("it may not be read")]
    Unreadable,
}

/// A visit to a server. It uses a token of an earlier run, and keeps a new one when it ends or
/// is dropped.
#[derive(Debug)]
pub(super) struct Visit {
    state: State,
    server: String,
    host: String,
    from: IpAddr,
    endpoint: Endpoint,
}

impl StateArgs {
    /// Gives the endpoint a token of an earlier run, if there is one. This must happen before it
    /// connects to `target` at `address`. Problems are added to `warnings`.
    pub(super) fn visit(
        self,
        target: &Target,
        address: SocketAddr,
        endpoint: &Endpoint,
        warnings: &mut Vec<String>,
    ) -> Option<Visit> {
        if self.no_state {
            return None;
        }
        let from = address_towards(address).ok()?;
        let state = State::open(&home()?, geteuid().as_raw(), warnings)?;
        let visit = Visit {
            state,
            server: format!("{}:{}", target.host, target.port),
            host: target.host.clone(),
            from,
            endpoint: endpoint.clone(),
        };
        let taken = visit.state.update(warnings, |now, tokens| {
            tokens.take(now, &visit.server, visit.from)
        });
        match taken {
            Ok(Some(token)) => visit.endpoint.set_token(&visit.host, token.into()),
            Ok(None) => {}
            Err(error) => warn(warnings, &error),
        }
        Some(visit)
    }
}

impl Visit {
    /// Keeps the server's token after the connection has ended.
    pub(super) fn end(&self, warnings: &mut Vec<String>) {
        let Some(token) = self.endpoint.take_token(&self.host) else {
            return;
        };
        let kept = self.state.update(warnings, |now, tokens| {
            tokens.add(now, &self.server, self.from, &token);
        });
        if let Err(error) = kept {
            warn(warnings, &error);
        }
    }
}

/// Adds a warning unless it is already there.
fn warn(warnings: &mut Vec<String>, error: &StateError) {
    let text = error.to_string();
    if !warnings.contains(&text) {
        warnings.push(text);
    }
}

impl Drop for Visit {
    /// Keeps the token even if a transfer is aborted. Warnings are discarded.
    fn drop(&mut self) {
        self.end(&mut Vec::new());
    }
}

/// Returns the local address of packets to `address`, without sending any.
pub(super) fn address_towards(address: SocketAddr) -> io::Result<IpAddr> {
    let unspecified: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((unspecified, 0))?;
    socket.connect(address)?;
    Ok(socket.local_addr()?.ip())
}

/// Returns the directory for programs' state according to the XDG Base Directory Specification,
/// which requires ignoring relative and empty paths. Returns `None` if this user has none.
fn home() -> Option<PathBuf> {
    let of = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    of("XDG_STATE_HOME").or_else(|| of("HOME").map(|home| home.join(".local/state")))
}

/// Returns this user's own certificate and key in PEM, and whether this run created them.
pub(super) fn own_certificate() -> anyhow::Result<(PathBuf, Vec<u8>, bool)> {
    let home = home().context("neither XDG_STATE_HOME nor HOME is an absolute path")?;
    let state = State::needed(&home)?;
    let path = state.directory.join("client.key");
    let made = Cell::new(false);
    let pem = identity::read_or_make(&path, || {
        made.set(true);
        identity::make()
    });
    let pem = pem.with_context(|| format!("cannot use {}", path.display()))?;
    Ok((path, pem, made.get()))
}

impl State {
    /// Opens the state of this user below `home`, and fails with the reason if that is impossible.
    fn needed(home: &Path) -> anyhow::Result<Self> {
        let mut warnings = Vec::new();
        Self::open(home, geteuid().as_raw(), &mut warnings).ok_or_else(|| {
            let why = warnings.pop();
            anyhow!(why.unwrap_or_else(|| format!("{} takes no directory", home.display())))
        })
    }

    /// Opens the state of `user` below `home`. Returns `None` if the directory can't be created,
    /// for example because the user's home doesn't exist or is read-only.
    fn open(home: &Path, user: u32, warnings: &mut Vec<String>) -> Option<Self> {
        let directory = home.join("pathmark");
        // This also fails if something else is in the directory's place, which is checked below.
        let _ = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory);
        let there = fs::symlink_metadata(&directory).ok()?;
        let wrong = match there {
            _ if there.is_symlink() => StateError::Link(directory),
            _ if !there.is_dir() => StateError::NoDirectory(directory),
            _ if there.uid() != user || there.mode() & 0o022 != 0 => StateError::Foreign(directory),
            _ => return Some(Self { directory, user }),
        };
        warn(warnings, &wrong);
        None
    }

    /// Changes the kept tokens while holding the lock. Unusable content is replaced, with a
    /// warning.
    fn update<T>(
        &self,
        warnings: &mut Vec<String>,
        change: impl FnOnce(Duration, &mut Tokens) -> T,
    ) -> Result<T, StateError> {
        let _lock = self.lock("servers.lock")?;
        let path = self.directory.join("servers.json");
        let io = |source| StateError::Io {
            directory: self.directory.clone(),
            source,
        };
        let read = read(&path, self.user).map_err(io)?;
        let mut tokens = match &read {
            Ok(tokens) => tokens.clone(),
            Err(why) => {
                let path = path.display();
                warnings.push(format!("{path} is replaced: {why}"));
                Tokens::default()
            }
        };
        let changed = change(session::unix_time(), &mut tokens);
        if read.as_ref() != Ok(&tokens) {
            self.write(&path, &tokens).map_err(io)?;
        }
        Ok(changed)
    }

    /// Locks a file. The lock is released when the process ends.
    fn lock(&self, name: &str) -> Result<File, StateError> {
        let path = self.directory.join(name);
        let file = own_file(&path, false).map_err(|source| StateError::Io {
            directory: self.directory.clone(),
            source,
        })?;
        let until = session::now() + LOCK_WAIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if session::now() < until => {
                    session::pause(LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => return Err(StateError::Locked(path)),
                Err(TryLockError::Error(source)) => {
                    return Err(StateError::Io {
                        directory: self.directory.clone(),
                        source,
                    });
                }
            }
        }
    }

    /// Replaces the file without fsync, so it may be lost if the machine crashes.
    fn write(&self, path: &Path, tokens: &Tokens) -> io::Result<()> {
        let new = self.directory.join("servers.new");
        // Others might be able to read a file that a killed process left.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        own_file(&new, true)?.write_all(&tokens.to_bytes()?)?;
        fs::rename(&new, path)
    }
}

/// Opens a file that no other user may read, without following links. With `new`, it must not
/// exist.
fn own_file(path: &Path, new: bool) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(!new)
        .create_new(new)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

/// Reads the kept tokens, or returns the reason why they are unusable.
fn read(path: &Path, user: u32) -> io::Result<Result<Tokens, Unusable>> {
    let bytes = read_own(path, user)?;
    Ok(bytes.and_then(|bytes| Tokens::parse(&bytes).ok_or(Unusable::Damaged)))
}

/// Reads a file of this user, or returns the reason why it is unusable. A missing file is
/// treated as empty.
fn read_own(path: &Path, user: u32) -> io::Result<Result<Vec<u8>, Unusable>> {
    let opened = OpenOptions::new()
        .read(true)
        // A pipe with this name must not block the command.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) => {
            return match error.kind() {
                ErrorKind::NotFound => Ok(Ok(Vec::new())),
                ErrorKind::PermissionDenied => Ok(Err(Unusable::Unreadable)),
                _ if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) => {
                    Ok(Err(Unusable::NoFile))
                }
                _ => Err(error),
            };
        }
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(Err(Unusable::NoFile));
    }
    if metadata.uid() != user {
        return Ok(Err(Unusable::Foreign));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Ok(Err(Unusable::TooLong));
    }
    Ok(Ok(bytes))
}

#[cfg(test)]
mod tests;
