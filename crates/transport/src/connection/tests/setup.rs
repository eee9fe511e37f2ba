//! Setup of a pair of connections.

use std::sync::{Arc, Mutex};

use super::fixed_window::{ControllerLog, fixed_window};
use crate::Duration;
use crate::config::TransportConfig;
use crate::crypto::null::NullCrypto;
use crate::crypto::{ClientCrypto, ServerCrypto};

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
