//! A server's identity, which is a certificate with its key that persists between runs.
//!
//! ```text
//!   DIRECTORY/../.pathmark-NAME.key    0600, PEM: a self-signed certificate and its private key
//! ```
//!
//! The key for tokens and stateless resets is derived from the private key, so that a restarted
//! server resets connections of its previous run when their next packet arrives.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow, bail};
use pathmark::SharedEndpointKey;
use pathmark_transport::crypto::tls::{EndpointSecret, TlsServerConfig};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::{Failure, output};

/// Maximum size of a file with certificates or keys.
const LONGEST: u64 = 1 << 20;

/// A certificate, and the key for tokens and stateless resets.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) tls: TlsServerConfig,
    pub(super) key: SharedEndpointKey,
    /// The chain and the private key in PEM.
    pem: [Vec<u8>; 2],
}

impl Identity {
    /// Creates an identity from the certificate chain and the private key in PEM.
    pub(super) fn from_pem(chain: &[u8], key: &[u8], alpn: &[&[u8]]) -> anyhow::Result<Self> {
        let tls = TlsServerConfig::from_pem(chain, key, alpn)?;
        let private = PrivateKeyDer::from_pem_slice(key)?;
        let mut hasher = Sha256::new();
        hasher.update(b"pathmark: tokens and stateless resets");
        hasher.update(private.secret_der());
        let secret: [u8; 32] = hasher.finalize().into();
        Ok(Self {
            tls,
            key: Arc::new(EndpointSecret::new(&secret)?),
            pem: [chain.to_vec(), key.to_vec()],
        })
    }

    /// Creates an identity from files in PEM.
    pub(super) fn from_files(chain: &Path, key: &Path, alpn: &[&[u8]]) -> anyhow::Result<Self> {
        let (shown, key_shown) = (chain.display(), key.display());
        let read = read_input(chain).with_context(|| format!("cannot read {shown}"))?;
        Self::from_pem(&read, &read_secret(key)?, alpn)
            .with_context(|| format!("cannot use {shown} with {key_shown}"))
    }

    /// Creates the same identity again from the stored PEM.
    pub(super) fn again(&self, alpn: &[&[u8]]) -> anyhow::Result<Self> {
        let [chain, key] = &self.pem;
        Self::from_pem(chain, key, alpn)
    }

    pub(super) fn asking_clients(self) -> anyhow::Result<Self> {
        let tls = self.tls.asking_clients()?;
        Ok(Self { tls, ..self })
    }

    pub(super) fn new(alpn: &[&[u8]]) -> anyhow::Result<Self> {
        let pem = self_signed()?;
        Self::from_pem(pem.as_bytes(), pem.as_bytes(), alpn)
    }

    /// Loads the key kept next to `directory`, which the first run creates. If the file can't be
    /// created, this run uses a temporary key and prints a note on stderr.
    pub(super) fn kept(directory: &Path, alpn: &[&[u8]]) -> Result<Self, Failure> {
        let path = key_path(directory).map_err(Failure::usage)?;
        let pem = match path.as_deref().map(|path| (path, read_or_make(path, make))) {
            Some((_, Ok(pem))) => pem,
            // An existing key that can't be read must not be replaced.
            Some((path, Err(error))) if is_closed(&error) && path.symlink_metadata().is_err() => {
                output::note!(
                    "pathmark: cannot keep the server's key as {}: {error}; after a restart \
                     clients have to learn a new one",
                    path.display()
                );
                return Ok(Self::new(alpn)?);
            }
            Some((path, Err(error))) => {
                let error = anyhow::Error::new(error);
                return Err(Failure::Failed(error.context(format!(
                    "cannot use the server's key {}; run the server as the user who has it, or \
                     give --cert and --key",
                    path.display()
                ))));
            }
            None => {
                output::note!(
                    "pathmark: {} has no directory next to it for the server's key; after a \
                     restart clients have to learn a new one",
                    directory.display()
                );
                return Ok(Self::new(alpn)?);
            }
        };
        let used = Self::from_pem(&pem, &pem, alpn);
        Ok(used.with_context(|| {
            let path = path.unwrap_or_default();
            format!(
                "{} does not have the server's key and certificate; restore it, or remove it to \
                 get a new key",
                path.display()
            )
        })?)
    }
}

/// Returns the file name of the key for a directory's server, or `None` for the root of the file
/// system. A link has a key of its own, which stays if it leads elsewhere.
fn key_path(directory: &Path) -> anyhow::Result<Option<PathBuf>> {
    let resolve = |path: &Path| {
        let resolved = path.canonicalize();
        resolved.with_context(|| format!("cannot offer {}", directory.display()))
    };
    let directory = match (directory.parent(), directory.file_name()) {
        (Some(parent), Some(name)) if directory.is_dir() => {
            let parent = Some(parent).filter(|parent| !parent.as_os_str().is_empty());
            resolve(parent.unwrap_or(Path::new(".")))?.join(name)
        }
        _ => resolve(directory)?,
    };
    let names = directory.parent().zip(directory.file_name());
    Ok(names.map(|(parent, name)| {
        let mut key = std::ffi::OsString::from(".pathmark-");
        key.push(name);
        key.push(".key");
        parent.join(key)
    }))
}

/// Returns true if this user can't create the file.
fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::InvalidFilename
            | ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
    )
}

/// Reads a secret from a file, creating it if necessary.
pub(super) fn read_or_make(
    path: &Path,
    make: impl Fn() -> io::Result<Vec<u8>>,
) -> io::Result<Vec<u8>> {
    loop {
        match read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            read => return read,
        }
        let made = make()?;
        let directory = path.parent().unwrap_or(Path::new("."));
        // The file has mode 0600, and it is only renamed when it is complete.
        let mut file = NamedTempFile::with_prefix_in(".pathmark-", directory)?;
        file.write_all(&made)?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(path) {
            Ok(_) => {
                // The key exists even if the directory can't be synced.
                let _ = File::open(directory).and_then(|directory| directory.sync_all());
                return Ok(made);
            }
            // Another server of this directory was faster.
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.error),
        }
    }
}

/// Returns true if all users of this machine can read a file.
pub(super) fn is_open_to_others(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.mode() & 0o004 != 0)
}

/// Reads a secret that the operator made, and that not all users may read. Links are followed, and
/// groups may read it, because systems keep certificates in this way.
pub(super) fn read_secret(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    if is_open_to_others(path) {
        bail!("all users can read {shown}, which is secret; run chmod o-r {shown}");
    }
    read_input(path).with_context(|| format!("cannot read {shown}"))
}

/// Reads a file that the user names. A pipe, such as that of `<(…)` in a shell, has its content
/// only once, so later reads return what the first one has read.
pub(super) fn read_input(path: &Path) -> io::Result<Vec<u8>> {
    static PIPES: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let mut pipes = PIPES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(content) = pipes.get(path) {
        return Ok(content.clone());
    }
    let (file, mut content) = (File::open(path)?, Vec::new());
    let is_pipe = file.metadata()?.file_type().is_fifo();
    file.take(LONGEST).read_to_end(&mut content)?;
    if is_pipe {
        pipes.insert(path.to_owned(), content.clone());
    }
    Ok(content)
}

/// Reads a secret that no other user may read, without following links.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    let refuse = |why: &str| Err(io::Error::new(ErrorKind::InvalidData, why));
    let owner = metadata.uid();
    if !metadata.is_file() {
        return refuse("it is no plain file");
    }
    if owner != nix::unistd::geteuid().as_raw() {
        return refuse(&format!(
            "it belongs to the user with the ID {owner}; run the command as that user"
        ));
    }
    if metadata.mode() & 0o077 != 0 {
        return refuse("other users may read it; set its mode to 600");
    }
    let mut pem = Vec::new();
    file.take(LONGEST).read_to_end(&mut pem)?;
    Ok(pem)
}

/// Creates a file's content with a self-signed certificate and its private key.
pub(super) fn make() -> io::Result<Vec<u8>> {
    Ok(self_signed().map_err(io::Error::other)?.into_bytes())
}

/// Creates a self-signed certificate and its private key in PEM.
fn self_signed() -> anyhow::Result<String> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
        .map_err(|error| anyhow!("cannot make a self-signed certificate: {error}"))?;
    Ok(made.cert.pem() + &made.signing_key.serialize_pem())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn pin(directory: &Path) -> Result<String, Failure> {
        let identity = Identity::kept(directory, &[b"test"])?;
        Ok(identity.tls.pin().unwrap().to_string())
    }

    #[test]
    fn a_secret_of_another_user_is_refused_with_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let mine = directory.path().join("secret");
        fs::write(&mine, "secret").unwrap();
        // Root can give away a file, and others can use a file of root.
        let (path, owner) = if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&mine, Some(4242), None).unwrap();
            (mine.as_path(), "4242;")
        } else {
            (Path::new("/etc/passwd"), "0;")
        };
        let error = read(path).unwrap_err().to_string();
        assert!(error.contains(owner), "{error}");
    }

    #[test]
    fn the_key_lies_next_to_the_directory_and_stays() {
        let here = tempfile::tempdir().unwrap();
        let directory = here.path().join("data");
        fs::create_dir(&directory).unwrap();
        let first = pin(&directory).unwrap();
        assert_eq!(pin(&directory.join("../data")).unwrap(), first);
        assert_eq!(pin(&directory.join(".")).unwrap(), first);
        // A link keeps its key when it is switched.
        let link = here.path().join("current");
        std::os::unix::fs::symlink("data", &link).unwrap();
        let of_link = pin(&link).unwrap();
        fs::remove_file(&link).unwrap();
        fs::create_dir(here.path().join("next")).unwrap();
        std::os::unix::fs::symlink("next", &link).unwrap();
        assert_eq!(pin(&link).unwrap(), of_link);
        assert_ne!(of_link, first);
        fs::remove_file(here.path().join(".pathmark-current.key")).unwrap();
        fs::remove_file(link).unwrap();
        fs::remove_dir(here.path().join("next")).unwrap();
        let key = here.path().join(".pathmark-data.key");
        assert_eq!(fs::metadata(&key).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(here.path()).unwrap().count(), 2);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_file(&key).unwrap();
        assert_ne!(pin(&directory).unwrap(), first);
    }

    #[test]
    fn a_key_that_others_may_read_or_that_is_damaged_is_refused() {
        let here = tempfile::tempdir().unwrap();
        let directory = here.path().join("data");
        fs::create_dir(&directory).unwrap();
        pin(&directory).unwrap();
        let key = here.path().join(".pathmark-data.key");
        let said = || match pin(&directory) {
            Err(Failure::Failed(error)) => output::explain(&error),
            other => panic!("{other:?}"),
        };
        fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
        assert!(said().contains("mode to 600"));
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        fs::write(&key, "-----BEGIN").unwrap();
        assert!(said().contains("restore it, or remove it"));
        fs::remove_file(&key).unwrap();
        std::os::unix::fs::symlink("elsewhere", &key).unwrap();
        assert!(said().contains(".pathmark-data.key"));
        assert!(!here.path().join("elsewhere").exists());
    }

    #[test]
    fn a_secret_that_all_may_read_is_refused_and_that_of_a_group_is_not() {
        let here = tempfile::tempdir().unwrap();
        let (secret, link) = (here.path().join("secret"), here.path().join("link"));
        fs::write(&secret, "secret").unwrap();
        std::os::unix::fs::symlink("secret", &link).unwrap();
        for (mode, is_used) in [(0o600, true), (0o640, true), (0o644, false)] {
            fs::set_permissions(&secret, Permissions::from_mode(mode)).unwrap();
            let read = read_secret(&link);
            assert_eq!(read.is_ok(), is_used, "{mode:o}: {read:?}");
        }
    }

    #[test]
    fn a_pipe_is_read_once_and_a_file_each_time() {
        let here = tempfile::tempdir().unwrap();
        let (pipe, file) = (here.path().join("pipe"), here.path().join("file"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let to = pipe.clone();
        let writing = std::thread::spawn(move || fs::write(to, "once"));
        assert_eq!(read_input(&pipe).unwrap(), b"once");
        writing.join().unwrap().unwrap();
        assert_eq!(read_secret(&pipe).unwrap(), b"once");
        for content in [&b"one"[..], b"other"] {
            fs::write(&file, content).unwrap();
            assert_eq!(read_input(&file).unwrap(), content);
        }
    }

    #[test]
    fn without_a_place_the_key_is_of_one_run() {
        let here = tempfile::tempdir().unwrap();
        // The name of its key is too long for a file.
        let directory = here.path().join("x".repeat(250));
        fs::create_dir(&directory).unwrap();
        assert_ne!(pin(&directory).unwrap(), pin(&directory).unwrap());
        assert_ne!(pin(Path::new("/")).unwrap(), pin(Path::new("/")).unwrap());
    }
}
