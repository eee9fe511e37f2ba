//! Certificates: those a client trusts, and those a server presents.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use pathmark_transport::crypto::tls::{Pin, TlsClientConfig, Trust};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::identity::{self, Identity};
use super::state::known::KnownHosts;
use super::state::own_certificate;
use super::target::Target;
use super::{Failure, output};

/// The servers that a client trusts.
#[derive(Clone, Debug, clap::Args)]
#[group(multiple = false)]
pub(super) struct TrustArgs {
    /// Trust only the certificate with this SHA-256 fingerprint, which the server prints
    #[arg(long, value_name = "SHA256")]
    pin: Option<Pin>,
    /// Trust servers certified by the authorities in this PEM file (default: the system's)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Trust any certificate: no protection against hosts that can alter packets
    #[arg(long)]
    insecure: bool,
}

/// The same for servers of files, whose keys are kept.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct HostTrustArgs {
    #[command(flatten)]
    given: TrustArgs,
    /// Trust an unknown server and remember its key: later runs reject a different one. By default,
    /// you are asked at the terminal. Keys are in $XDG_STATE_HOME/pathmark/known_hosts
    #[arg(long, conflicts_with_all = ["pin", "ca", "insecure"])]
    trust_new: bool,
}

/// The certificate that a server shows.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CertificateArgs {
    /// Certificate chain in PEM (default: a self-signed one, whose pin is printed)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// The certificate that a client shows.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ShowArgs {
    /// Present this certificate (a chain in PEM) to servers that request one
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM; no other user may be able to read the file
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Present your own certificate to servers that request one. The first run creates it, with its
    /// key, in $XDG_STATE_HOME/pathmark/client.key, and prints its pin
    #[arg(long, conflicts_with = "client_cert")]
    own_cert: bool,
}

/// A certificate chain and its private key in PEM.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) chain: Vec<u8>,
    pub(super) key: Vec<u8>,
}

impl ShowArgs {
    /// Returns these arguments, or uses the certificate and key in these files by default.
    pub(super) fn or(&self, chain: Option<&PathBuf>, key: Option<&PathBuf>) -> Self {
        let mut args = self.clone();
        if !args.own_cert && args.client_cert.is_none() {
            (args.client_cert, args.client_key) = (chain.cloned(), key.cloned());
        }
        args
    }

    /// Returns the pin of this user's own certificate, if it should be presented.
    pub(super) fn own_pin(&self) -> Result<Option<Pin>, Failure> {
        let shown = self.own_cert.then(|| self.read()).transpose()?.flatten();
        let first = shown.map(|shown| CertificateDer::from_pem_slice(&shown.chain));
        let first = first.transpose().map_err(anyhow::Error::new)?;
        Ok(first.map(|first| Pin::of(&first)))
    }

    pub(super) fn read(&self) -> Result<Option<Shown>, Failure> {
        let use_of = |path: &Path| format!("cannot use {}", path.display());
        if self.own_cert {
            let (path, pem, made) = own_certificate().map_err(Failure::usage)?;
            if made {
                let first = CertificateDer::from_pem_slice(&pem);
                let pin = Pin::of(&first.map_err(anyhow::Error::new)?);
                let path = path.display();
                output::note!("pathmark: {path} has a new certificate, pin sha256:{pin}");
            }
            let key = pem.clone();
            return Ok(Some(Shown { chain: pem, key }));
        }
        let (Some(chain), Some(key)) = (&self.client_cert, &self.client_key) else {
            return Ok(None);
        };
        let read = || {
            Ok::<_, anyhow::Error>(Shown {
                chain: identity::read_input(chain).with_context(|| use_of(chain))?,
                key: identity::read(key).with_context(|| use_of(key))?,
            })
        };
        read().map(Some).map_err(Failure::usage)
    }
}

/// The servers that a connection trusts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge<'a> {
    given: &'a TrustArgs,
    /// `Some` if servers' keys are kept. If true, new keys are trusted without asking.
    hosts: Option<bool>,
}

impl TrustArgs {
    /// Trusts without keeping keys.
    pub(super) const fn judge(&self) -> Judge<'_> {
        Judge {
            given: self,
            hosts: None,
        }
    }

    fn given(&self) -> Result<Option<Trust>, Failure> {
        let read = |path: &PathBuf| {
            let pem = identity::read_input(path)
                .with_context(|| format!("cannot read {}", path.display()))
                .map_err(Failure::usage)?;
            Trust::from_ca_pem(&pem)
                .with_context(|| {
                    format!("{} is of no use as a list of authorities", path.display())
                })
                .map_err(Failure::usage)
        };
        match (self.pin, self.insecure, &self.ca) {
            (Some(pin), _, _) => Ok(Some(Trust::Pin(pin))),
            (_, true, _) => Ok(Some(Trust::Anyone)),
            (_, _, Some(path)) => read(path).map(Some),
            _ => Ok(None),
        }
    }
}

impl HostTrustArgs {
    /// Keeps keys unless a certificate or authority is given.
    pub(super) const fn judge(&self) -> Judge<'_> {
        Judge {
            given: &self.given,
            hosts: Some(self.trust_new),
        }
    }
}

impl Judge<'_> {
    /// Returns the TLS configuration. If keys are kept, [`check`](Self::check) must follow the
    /// handshake.
    pub(super) fn config(&self, alpn: &[&[u8]]) -> Result<TlsClientConfig, Failure> {
        let trust = match (self.given.given()?, self.hosts) {
            (Some(trust), _) => trust,
            // Nothing is sent before the certificate is checked.
            (None, Some(_)) => Trust::Anyone,
            (None, None) => Trust::Roots(Arc::new(system_roots()?)),
        };
        TlsClientConfig::new(trust, alpn).map_err(Failure::usage)
    }

    /// Checks the server's certificate before anything is sent, unless the handshake already did.
    pub(super) async fn check(&self, chain: Vec<Vec<u8>>, target: &Target) -> Result<(), Failure> {
        let Some(trust_new) = self.hosts else {
            return Ok(());
        };
        if self.given.given()?.is_some() {
            return Ok(());
        }
        let (server, host) = (target.server(), target.host.clone());
        let checked =
            tokio::task::spawn_blocking(move || believe(&chain, &server, &host, trust_new));
        Ok(checked.await.map_err(anyhow::Error::new)??)
    }
}

/// Trusts a server whose key is known or whose certificate an authority verifies. A new server
/// is trusted if the user agrees.
fn believe(chain: &[Vec<u8>], server: &str, host: &str, trust_new: bool) -> anyhow::Result<()> {
    let pin = Pin::of(chain.first().context("the server shows no certificate")?);
    // Without a place for the file, no keys were kept.
    let hosts = KnownHosts::open();
    let known = match &hosts {
        Ok(hosts) => hosts.pin(server)?.map(|known| (known, hosts.path())),
        // Kept keys must not be ignored.
        Err(error) if KnownHosts::exists() => {
            return Err(anyhow!(
                "the keys of known servers cannot be used: {error:#}"
            ));
        }
        Err(_) => None,
    };
    match known {
        Some((known, _)) if known == pin => return Ok(()),
        Some((known, path)) => {
            let path = path.display();
            return Err(anyhow!(
                "the key of {server} has changed: its certificate has the pin {pin}, and {path} \
                 has {known}; the server has a new key, or another host answers in its place. If \
                 its operator confirms the new pin, remove the line of {server} from {path}"
            ));
        }
        None => {}
    }
    let why = match vouched(chain, host) {
        Ok(()) => return Ok(()),
        Err(why) => why,
    };
    if !trust_new && !ask(server, pin)? {
        return Err(anyhow!(
            "the server {server} is not known, and no authority vouches for its certificate \
             ({why}); its pin is {pin}: if the server prints the same, give it with --pin, or keep \
             it with --trust-new"
        ));
    }
    let kept = hosts.and_then(|hosts| hosts.keep(server, pin).map(|()| hosts.path()));
    match kept {
        Ok(path) => output::note!(
            "pathmark: {} has the key {pin} of {server} now",
            path.display()
        ),
        Err(error) => {
            // Another run may have kept a different key.
            let now = KnownHosts::open().and_then(|hosts| hosts.pin(server));
            if now.is_ok_and(|now| now.is_some_and(|known| known != pin)) {
                return Err(error.context(format!("the key of {server} is not the one kept")));
            }
            output::note!("pathmark: the key of {server} is not kept: {error:#}");
        }
    }
    Ok(())
}

/// Asks on the terminal, if there is one, whether to trust a server.
fn ask(server: &str, pin: Pin) -> io::Result<bool> {
    let (stdin, mut stderr) = (io::stdin(), io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Ok(false);
    }
    let server = output::plain(server);
    write!(
        stderr,
        "The server {server} is not known. It prints its pin, which should be\n  {pin}\n\
         Believe it from now on? [y/N] "
    )?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Checks that an authority of the system verifies the certificate and the host, or returns the
/// reason why not.
fn vouched(chain: &[Vec<u8>], host: &str) -> Result<(), String> {
    let roots = system_roots().map_err(|_| "this system has no authorities".to_owned())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
        .build()
        .map_err(|error| error.to_string())?;
    let certificates: Vec<_> = chain
        .iter()
        .map(|der| CertificateDer::from_slice(der))
        .collect();
    let (own, others) = certificates
        .split_first()
        .ok_or("there is no certificate")?;
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let verified = verifier.verify_server_cert(own, others, &name, &[], UnixTime::now());
    verified.map(drop).map_err(|error| match error {
        rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer) => {
            "its issuer is unknown".to_owned()
        }
        error => error.to_string(),
    })
}

fn system_roots() -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Failure::usage(anyhow!(
            "this system has no certificate authorities; say whom to believe: --pin SHA256 (the \
             server prints it), --ca FILE or --insecure"
        )));
    }
    Ok(roots)
}

impl CertificateArgs {
    /// Returns true if a certificate was given, so that none has to be created.
    pub(super) const fn is_given(&self) -> bool {
        self.cert.is_some()
    }

    /// Returns the given certificate, or one that is kept next to `directory`, or else a temporary
    /// one.
    pub(super) fn identity(
        &self,
        directory: Option<&Path>,
        alpn: &[&[u8]],
    ) -> Result<Identity, Failure> {
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else {
            return match directory {
                Some(directory) => Identity::kept(directory, alpn),
                None => Ok(Identity::new(alpn)?),
            };
        };
        Identity::from_files(cert, key, alpn).map_err(Failure::usage)
    }
}
