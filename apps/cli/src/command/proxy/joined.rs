//! The proxy on the port of `pathmark serve`.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use pathmark::TransportConfig;
use pathmark_proxy::server::Proxy;
use pathmark_proxy::server::config::{Config, Credential};

use super::super::control::Control;
use super::super::{Failure, Outcome};
use super::loaded::{have_certificates, uris, users};
use super::status::ProxyStatus;
use super::{carry_flows, change, keep, print};

/// A proxy that uses another server's connections.
pub(in super::super) struct Joined {
    path: PathBuf,
    config: Config,
    users: Vec<(String, Credential)>,
    certificates: Cell<bool>,
    pub(in super::super) proxy: Proxy,
}

impl Joined {
    /// Loads the proxy from a configuration, which must not have keys that are arguments of the
    /// server.
    pub(in super::super) fn load(path: &Path) -> Result<Self, Failure> {
        let (config, users) = read(path, true)?;
        Ok(Self {
            path: path.to_owned(),
            proxy: Proxy::new(config.access(&users), config.times),
            config,
            certificates: Cell::new(have_certificates(&users)),
            users,
        })
    }

    /// Returns true if any user currently has a certificate.
    pub(in super::super) const fn has_certificates(&self) -> bool {
        self.certificates.get()
    }

    /// Configures the server's connections to carry flows.
    pub(in super::super) fn carry_flows(transport: &mut TransportConfig) {
        carry_flows(transport);
    }

    /// Reloads the configuration.
    pub(in super::super) fn reload(&self) {
        match read(&self.path, false) {
            Ok((config, users)) => {
                self.certificates.set(have_certificates(&users));
                // The server asks new connections for certificates from now on.
                change(&self.proxy, &config, &users, true);
            }
            Err(failure) => keep(&failure),
        }
    }

    /// Prints each user's URI on a terminal.
    pub(in super::super) fn announce(&self, listening: SocketAddr, pin: Option<&str>) -> Outcome {
        if !io::stdout().is_terminal() {
            return Ok(());
        }
        let pin = pin.and_then(|pin| pin.parse().ok());
        print(&uris((&self.config, &self.users), listening, pin)?)
    }

    /// Binds the status socket and the metrics port.
    pub(in super::super) fn control(&self) -> Result<Control, Failure> {
        Control::bind(self.config.control.as_deref(), self.config.metrics)
    }

    /// Serves the status socket indefinitely.
    pub(in super::super) fn status(
        &self,
        control: Control,
        listening: SocketAddr,
    ) -> impl Future<Output = ()> + Send + use<> {
        control.serve(ProxyStatus::new(listening, self.proxy.clone()))
    }
}

fn read(path: &Path, make: bool) -> Result<(Config, Vec<(String, Credential)>), Failure> {
    let config = Config::load(path).map_err(Failure::usage)?;
    for (key, is_given) in [
        ("listen", config.listen.is_some()),
        ("cert` and `key", config.certificate.is_some()),
        ("cc", config.cc.is_some()),
    ] {
        if is_given {
            return Err(Failure::usage(anyhow!(
                "{}: remove `{key}`: an argument of `pathmark serve` is in its place",
                path.display()
            )));
        }
    }
    let users = users(Some(&config.tokens), make)?;
    Ok((config, users))
}
