//! Reopens missing interfaces.

use std::io;
use std::sync::Arc;

use super::super::run_error::RunError;
use super::Daemon;
use crate::config::Interface;
use crate::output::log_line;
use crate::tun::{Device, DeviceError, Namespaces};

impl Daemon<'_> {
    /// Tries to reopen missing interfaces. If one stays away for 1 s, the router ends, so that a
    /// service manager sees the failure.
    pub(super) fn reopen(&mut self) -> Result<(), RunError> {
        let config = Arc::clone(&self.config);
        for (name, until) in std::mem::take(&mut self.lost) {
            let mut ports = config.ports.iter().enumerate();
            let Some((port, spec)) = ports.find(|(_, port)| port.name == name) else {
                continue;
            };
            if !self.driver.devices().get(port).is_some_and(Device::is_lost) {
                continue;
            }
            let opened = match spec.interface {
                // A passed descriptor cannot be opened again.
                Interface::Fd(fd) => Err(DeviceError::Failed {
                    what: "use descriptor",
                    name: fd.to_string(),
                    source: io::Error::from_raw_os_error(libc::EBADFD),
                }),
                Interface::Tun(_) => Device::open(&spec.interface, spec.mtu),
            };
            let opened = opened.and_then(|mut device| {
                device.find(&mut Namespaces::default());
                let name = device.name().to_owned();
                let placed = self.driver.replace_device(port, device);
                placed
                    .map(|()| name.clone())
                    .map_err(|source| DeviceError::Failed {
                        what: "wait for",
                        name,
                        source,
                    })
            });
            match opened {
                Ok(name) => log_line!("interface {name} is back"),
                Err(_)
                    if matches!(spec.interface, Interface::Tun(_)) && self.driver.now() < until =>
                {
                    self.lost.push((name, until));
                }
                Err(source) => {
                    let port = spec.name.clone();
                    // The record must include everything up to now.
                    self.stop();
                    return Err(RunError::Lost { port, source });
                }
            }
        }
        Ok(())
    }
}
