//! Certificates that the tests generate.

use std::sync::{Arc, OnceLock};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::NAME;

/// A certificate authority and a server that it has certified.
pub(crate) struct Identity {
    pub(crate) authority: CertificateDer<'static>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Identity {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Self {
            authority: authority.der().clone(),
            chain: vec![certificate.der().clone()],
            key: key.serialize_der(),
        }
    }

    /// The authority that clients trust.
    pub(crate) fn trusted() -> &'static Self {
        static IDENTITY: OnceLock<Identity> = OnceLock::new();
        IDENTITY.get_or_init(|| Self::new("a trusted authority"))
    }

    /// The same with additional certificates, so that they don't fit into three initial datagrams.
    pub(crate) fn long() -> &'static Self {
        static IDENTITY: OnceLock<Identity> = OnceLock::new();
        IDENTITY.get_or_init(|| {
            let trusted = Self::trusted();
            let unneeded = std::iter::repeat_n(&Self::foreign().authority, 12);
            Self {
                authority: trusted.authority.clone(),
                chain: trusted.chain.iter().chain(unneeded).cloned().collect(),
                key: trusted.key.clone(),
            }
        })
    }

    /// An authority that clients don't know.
    pub(crate) fn foreign() -> &'static Self {
        static IDENTITY: OnceLock<Identity> = OnceLock::new();
        IDENTITY.get_or_init(|| Self::new("a foreign authority"))
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }

    pub(super) fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).unwrap();
        Arc::new(roots)
    }
}
