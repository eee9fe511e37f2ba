//! Setup of a pair of connections.

use super::*;

/// Values of both ends and of the path between them.
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) client: TransportConfig,
    pub(crate) server: TransportConfig,
    pub(crate) client_crypto: Arc<dyn ClientCrypto>,
    pub(crate) server_crypto: Arc<dyn ServerCrypto>,
    pub(crate) client_log: Arc<Mutex<ControllerLog>>,
    pub(crate) server_log: Arc<Mutex<ControllerLog>>,
    pub(crate) latency: Duration,
    pub(crate) server_name: &'static str,
    /// Maximum number of segments per batch.
    pub(crate) segments: usize,
    /// Whether the server considers the client's address validated.
    pub(crate) validated: bool,
    /// The client's token from an earlier connection.
    pub(crate) token: Vec<u8>,
}

pub(crate) const CLIENT: &str = "10.0.0.1:1000";
pub(crate) const SERVER: &str = "10.0.0.2:443";

impl Default for Setup {
    fn default() -> Self {
        let (client, client_log) = fixed_window(1 << 20);
        let (server, server_log) = fixed_window(1 << 20);
        Self {
            seed: 1,
            client: TransportConfig::new(client),
            server: TransportConfig::new(server),
            client_crypto: Arc::new(NullCrypto::new(&[b"test"])),
            server_crypto: Arc::new(NullCrypto::new(&[b"test"])),
            client_log,
            server_log,
            latency: Duration::from_millis(10),
            server_name: "server.test",
            segments: 10,
            validated: false,
            token: Vec::new(),
        }
    }
}

impl Setup {
    /// The default with a change.
    pub(crate) fn new(change: impl FnOnce(&mut Self)) -> Self {
        let mut setup = Self::default();
        change(&mut setup);
        setup
    }

    /// The default with the same change of both configurations.
    pub(crate) fn both(change: impl Fn(&mut TransportConfig)) -> Self {
        Self::new(|setup| {
            change(&mut setup.client);
            change(&mut setup.server);
        })
    }

    /// The default with this delay of each direction, in ms.
    pub(crate) fn with_latency(ms: u64) -> Self {
        Self::new(|setup| setup.latency = Duration::from_millis(ms))
    }

    /// A client with a window of this size.
    pub(crate) fn with_window(bytes: u64) -> Self {
        let (controller, client_log) = fixed_window(bytes);
        Self {
            client: TransportConfig::new(controller),
            client_log,
            ..Self::default()
        }
    }

    /// Both ends offer shims of kind 0.
    pub(crate) fn with_shims() -> Self {
        Self::both(|config| config.signals = vec![Arc::new(TestSignal::shim(0))])
    }

    /// Both ends use this cipher.
    pub(crate) fn with_crypto(crypto: NullCrypto) -> Self {
        let crypto = Arc::new(crypto);
        Self {
            client_crypto: crypto.clone(),
            server_crypto: crypto,
            ..Self::default()
        }
    }
}
