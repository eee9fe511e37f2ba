//! TLS with test code between a connection and its session.

use std::fmt;
use std::sync::Arc;

use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig};
use pathmark_transport::crypto::{
    ClientCrypto, DirectionalKeys, ExportError, HandshakeData, HandshakeError, InitialCrypto,
    KeyChange, Keys, RETRY_TAG_LEN, ServerCrypto, Session, Side, StartError,
};

/// Changes that the test makes to one session.
pub(crate) struct Hooks {
    /// Called before the session reads.
    pub(crate) before_read: Box<dyn FnMut() + Send + Sync>,
    /// Applied to keys before the connection gets them.
    pub(crate) keys: fn(KeyChange) -> KeyChange,
}

/// TLS that, before creating each session, asks the test for changes.
pub(crate) struct Tampered<T> {
    tls: T,
    begin: Box<dyn Fn() -> Option<Hooks> + Send + Sync>,
}

impl<T> Tampered<T> {
    pub(crate) fn new(
        tls: T,
        begin: impl Fn() -> Option<Hooks> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let begin = Box::new(begin);
        Arc::new(Self { tls, begin })
    }

    fn start(
        &self,
        tls: impl FnOnce(&T) -> Result<Box<dyn Session>, StartError>,
    ) -> Result<Box<dyn Session>, StartError> {
        let hooks = (self.begin)();
        let tls = tls(&self.tls)?;
        Ok(match hooks {
            Some(hooks) => Box::new(TamperedSession { tls, hooks }),
            None => tls,
        })
    }
}

impl<T> fmt::Debug for Tampered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tampered(..)")
    }
}

impl<T: InitialCrypto> InitialCrypto for Tampered<T> {
    fn initial_keys(&self, client_dcid: &[u8], side: Side) -> Keys {
        self.tls.initial_keys(client_dcid, side)
    }

    fn retry_tag(&self, original_dcid: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_LEN] {
        self.tls.retry_tag(original_dcid, packet)
    }
}

impl ServerCrypto for Tampered<TlsServerConfig> {
    fn start(&self, parameters: Vec<u8>, seed: u64) -> Result<Box<dyn Session>, StartError> {
        self.start(|tls| ServerCrypto::start(tls, parameters, seed))
    }
}

impl ClientCrypto for Tampered<TlsClientConfig> {
    fn start(
        &self,
        name: &str,
        parameters: Vec<u8>,
        seed: u64,
    ) -> Result<Box<dyn Session>, StartError> {
        self.start(|tls| ClientCrypto::start(tls, name, parameters, seed))
    }
}

struct TamperedSession {
    tls: Box<dyn Session>,
    hooks: Hooks,
}

impl Session for TamperedSession {
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        (self.hooks.before_read)();
        self.tls.read_handshake(bytes)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        self.tls.write_handshake(out).map(self.hooks.keys)
    }

    fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn peer_transport_parameters(&self) -> Option<&[u8]> {
        self.tls.peer_transport_parameters()
    }

    fn zero_rtt_keys(&self) -> Option<DirectionalKeys> {
        self.tls.zero_rtt_keys()
    }

    fn remembered_parameters(&self) -> Option<&[u8]> {
        self.tls.remembered_parameters()
    }

    fn early_data_accepted(&self) -> bool {
        self.tls.early_data_accepted()
    }

    fn may_take_early_data(&self) -> bool {
        self.tls.may_take_early_data()
    }

    fn handshake_data(&self) -> HandshakeData {
        self.tls.handshake_data()
    }

    fn peer_certificates(&self) -> Vec<Vec<u8>> {
        self.tls.peer_certificates()
    }

    fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError> {
        self.tls.export_keying_material(out, label, context)
    }
}
