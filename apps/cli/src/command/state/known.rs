//! Keys of servers from earlier runs.
//!
//! ```text
//!   $XDG_STATE_HOME/pathmark/known_hosts    0600, a line `HOST:PORT SHA256` for each server
//! ```
//!
//! Unlike tokens, keys decide which servers a client trusts, so a fault in the file is an error.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pathmark_transport::crypto::tls::Pin;

use super::{State, home, own_file, read_own};

/// A user's file.
#[derive(Debug)]
pub(in super::super) struct KnownHosts(State);

impl KnownHosts {
    /// Opens this user's file.
    ///
    /// # Errors
    /// Fails if this user has no place for it.
    pub(in super::super) fn open() -> anyhow::Result<Self> {
        let home = home().context("neither XDG_STATE_HOME nor HOME is an absolute path")?;
        Self::of(&home)
    }

    /// Returns true if this user's file exists, even if it is unusable.
    pub(in super::super) fn exists() -> bool {
        home().is_some_and(|home| fs::symlink_metadata(home.join("pathmark/known_hosts")).is_ok())
    }

    fn of(home: &Path) -> anyhow::Result<Self> {
        State::needed(home).map(Self)
    }

    pub(in super::super) fn path(&self) -> PathBuf {
        self.0.directory.join("known_hosts")
    }

    fn read(&self) -> anyhow::Result<String> {
        let path = self.path();
        match read_own(&path, self.0.user)? {
            Ok(bytes) => {
                String::from_utf8(bytes).with_context(|| format!("{} is no text", path.display()))
            }
            Err(why) => bail!("{} is not used: {why}", path.display()),
        }
    }

    /// Returns the pin of `HOST:PORT`, if it is known.
    ///
    /// # Errors
    /// Fails if the file or the server's line is invalid.
    pub(in super::super) fn pin(&self, server: &str) -> anyhow::Result<Option<Pin>> {
        let text = self.read()?;
        let mut lines = text
            .lines()
            .filter_map(|line| line.trim().split_once([' ', '\t']));
        let Some((_, pin)) = lines.find(|(known, _)| known.eq_ignore_ascii_case(server)) else {
            return Ok(None);
        };
        let pin = pin.trim().parse();
        pin.map(Some).with_context(|| {
            let path = self.path();
            let path = path.display();
            format!("the line of {server} in {path} has no pin; correct or remove it")
        })
    }

    /// Keeps a server's pin.
    ///
    /// # Errors
    /// Fails if another process has meanwhile kept a different pin, or if the file can't be
    /// written.
    pub(in super::super) fn keep(&self, server: &str, pin: Pin) -> anyhow::Result<()> {
        let _lock = self.0.lock("known_hosts.lock")?;
        match self.pin(server)? {
            Some(known) if known == pin => return Ok(()),
            Some(known) => bail!(
                "another run has kept {known} meanwhile; compare both with the pin that the \
                 server prints, and try again"
            ),
            None => {}
        }
        let mut text = self.read()?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let new = self.0.directory.join("known_hosts.new");
        // A killed process may have left this file. If removing fails, creating the new one
        // fails too.
        let _ = fs::remove_file(&new);
        let mut file = own_file(&new, true)?;
        file.write_all(format!("{text}{server} {pin}\n").as_bytes())?;
        file.sync_all()?;
        let path = self.path();
        fs::rename(&new, &path).with_context(|| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn keys_are_kept_and_lines_of_users_stay() {
        let home = tempfile::tempdir().unwrap();
        let (one, two) = (Pin::new([1; 32]), Pin::new([2; 32]));
        let hosts = KnownHosts::of(home.path()).unwrap();
        assert_eq!(hosts.pin("a:1").unwrap(), None);
        hosts.keep("a:1", one).unwrap();
        hosts.keep("a:1", one).unwrap();
        assert!(hosts.keep("a:1", two).is_err());
        let text = format!("# mine\n{}# end", fs::read_to_string(hosts.path()).unwrap());
        fs::write(hosts.path(), &text).unwrap();
        assert_eq!(hosts.pin("A:1").unwrap(), Some(one));
        assert_eq!(hosts.pin("a:11").unwrap(), None);
        fs::write(hosts.path(), format!("{text}\n  c:3\t{two}\n")).unwrap();
        assert_eq!(hosts.pin("c:3").unwrap(), Some(two), "blanks of an editor");
        fs::write(hosts.path(), &text).unwrap();
        hosts.keep("[::1]:2", two).unwrap();
        assert_eq!(hosts.pin("[::1]:2").unwrap(), Some(two));
        assert!(fs::read_to_string(hosts.path()).unwrap().starts_with(&text));
    }

    #[test]
    fn a_broken_line_or_file_is_a_failure() {
        let home = tempfile::tempdir().unwrap();
        let hosts = KnownHosts::of(home.path()).unwrap();
        fs::write(hosts.path(), "a:1 12\nb:1\n").unwrap();
        assert!(hosts.pin("a:1").is_err());
        assert_eq!(hosts.pin("b:1").unwrap(), None);
        fs::remove_file(hosts.path()).unwrap();
        symlink("elsewhere", hosts.path()).unwrap();
        assert!(hosts.pin("b:1").is_err());
        assert!(KnownHosts::of(&hosts.path()).is_err());
    }
}
