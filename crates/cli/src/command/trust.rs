//! Certificates: whom a client believes, what a server shows.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use pathmark_transport::crypto::tls::{Pin, TlsClientConfig, TlsServerConfig, Trust};

use super::Failure;

/// Whom a client believes.
#[derive(Clone, Debug, clap::Args)]
#[group(multiple = false)]
pub(super) struct TrustArgs {
    /// Believe the server whose certificate has this SHA-256 (servers print it)
    #[arg(long, value_name = "SHA256")]
    pin: Option<Pin>,
    /// Believe servers certified by the authorities in this PEM file (default: the system's)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Believe any certificate: no protection from hosts that can alter packets
    #[arg(long)]
    insecure: bool,
}

/// What a server shows.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CertificateArgs {
    /// Certificate chain in PEM (default: a self-signed one, whose pin is printed)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl TrustArgs {
    pub(super) fn config(&self, alpn: &[u8]) -> Result<TlsClientConfig, Failure> {
        let trust = if let Some(pin) = self.pin {
            Trust::Pin(pin)
        } else if self.insecure {
            Trust::Anyone
        } else if let Some(path) = &self.ca {
            let pem = std::fs::read(path)
                .with_context(|| format!("cannot read {}", path.display()))
                .map_err(Failure::usage)?;
            Trust::from_ca_pem(&pem)
                .with_context(|| {
                    format!("{} is of no use as a list of authorities", path.display())
                })
                .map_err(Failure::usage)?
        } else {
            system_roots()?
        };
        TlsClientConfig::new(trust, &[alpn]).map_err(Failure::usage)
    }
}

fn system_roots() -> Result<Trust, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Failure::usage(anyhow!(
            "this system has no certificate authorities; say whom to believe: --pin SHA256 (the \
             server prints it), --ca FILE or --insecure"
        )));
    }
    Ok(Trust::Roots(roots.into()))
}

impl CertificateArgs {
    pub(super) fn config(&self, alpn: &[u8]) -> Result<TlsServerConfig, Failure> {
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else {
            return self_signed(alpn);
        };
        let read = |path: &PathBuf| {
            std::fs::read(path)
                .with_context(|| format!("cannot read {}", path.display()))
                .map_err(Failure::usage)
        };
        TlsServerConfig::from_pem(&read(cert)?, &read(key)?, &[alpn])
            .with_context(|| format!("cannot use {} with {}", cert.display(), key.display()))
            .map_err(Failure::usage)
    }
}

pub(super) fn self_signed(alpn: &[u8]) -> Result<TlsServerConfig, Failure> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
        .context("cannot make a self-signed certificate")?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok(TlsServerConfig::new(
        vec![made.cert.der().clone()],
        key.into(),
        &[alpn],
    )?)
}
