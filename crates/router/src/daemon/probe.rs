//! Checks whether this machine meets a configuration's requirements.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::run::{RunOptions, prepare};
use super::socket::ControlError;
use super::{RunError, service, socket};
use crate::config::{Config, PortSpec};
use crate::setup::{FaultKind, look, named_addresses};
use crate::tun::{LinkKind, find, sys};

/// Lists everything that is clearly missing or differs from the configuration, one line each,
/// without changing anything.
pub fn missing(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(user) = config.user.clone()
        && sys::user(&user).is_none()
    {
        found.push(RunError::User(user).to_string());
    }
    if let Some(group) = config.group.clone()
        && sys::group(&group).is_none()
    {
        found.push(RunError::Group(group).to_string());
    }
    if let Some(path) = &config.control {
        match socket::vacant(path) {
            Err(ControlError::NoDirectory(directory)) => found.push(format!(
                "control: there is no directory {}: make it (a unit does with `RuntimeDirectory`), \
                 or choose another place",
                directory.display()
            )),
            // The user who will run the router may have permissions that the current user lacks.
            Err(ControlError::Socket { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error @ (ControlError::NoSocket(_) | ControlError::Socket { .. })) => {
                found.push(format!("control: {error}"));
            }
            // A socket in use most likely belongs to the running router.
            _ => {}
        }
    }
    for port in &config.ports {
        let Some(name) = port.tun() else {
            continue;
        };
        // If the kernel cannot be queried, `run` will report it.
        let Ok(Some(link)) = find(name) else {
            continue;
        };
        let what = match link.kind {
            LinkKind::Tun { .. } => continue,
            LinkKind::Tap => "a TAP interface, which carries Ethernet frames",
            LinkKind::MultiQueue => "a TUN interface of several queues, which was made for others",
            LinkKind::Other => "no TUN interface",
        };
        found.push(format!(
            "port {}: tun: {name} is there, and is {what}: choose a name that is free, and steer \
             packets into it",
            port.name
        ));
    }
    found.extend(taken_addresses(config));
    // If the kernel cannot be queried, `setup` will report it.
    found.extend(service::too_little(config.memory.0));
    let faults = look(config).unwrap_or_default();
    let others = faults.iter().filter(|fault| match fault.kind {
        FaultKind::Card | FaultKind::Shadow => true,
        FaultKind::Open => is_set_up(config),
        FaultKind::Exception | FaultKind::Missing => false,
    });
    found.extend(others.map(|fault| fault.message(config)));
    found
}

/// Whether set-up has run. If it has not, everything is missing.
fn is_set_up(config: &Config) -> bool {
    let mut tuns = config.ports.iter().filter_map(PortSpec::tun);
    tuns.any(|name| find(name).is_ok_and(|link| link.is_some()))
}

/// Finds addresses of ports that other interfaces also have. The kernel would keep packets to
/// them.
fn taken_addresses(config: &Config) -> Vec<String> {
    let others = named_addresses().unwrap_or_default();
    let mut found = Vec::new();
    for port in &config.ports {
        for address in &port.addresses {
            let taken = others.iter().find(|(_, other)| other == address);
            let own = |name: &str| config.ports.iter().any(|port| port.tun() == Some(name));
            if let Some((name, _)) = taken.filter(|(name, _)| !own(name)) {
                found.push(format!(
                    "port {}: addresses: {address} is an address of the interface {name}, so \
                     packets for it never reach the router: choose one that no interface has",
                    port.name
                ));
            }
        }
    }
    found
}

/// Lists settings that are probably unintended, and steps that are not done yet, one line each.
pub fn doubtful(config: &Config, path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mode = std::fs::metadata(path).map(|file| file.permissions().mode());
    if config.xcp_i.is_some() && mode.is_ok_and(|mode| mode & 0o004 != 0) {
        found.push(format!(
            "[xcp_i] secret: every user of this machine can read it: chmod 0640 {}",
            path.display()
        ));
    }
    let faults = look(config).unwrap_or_default();
    let worth = |kind| match kind {
        FaultKind::Exception => true,
        FaultKind::Missing => is_set_up(config),
        FaultKind::Card | FaultKind::Shadow | FaultKind::Open => false,
    };
    let faults = faults.iter().filter(|fault| worth(fault.kind));
    found.extend(faults.map(|fault| fault.message(config)));
    found
}

/// Tries every step that [`run`](super::run) takes before forwarding, and undoes it. Missing
/// interfaces are created and removed again; existing ones are brought up.
///
/// # Errors
/// The errors of `run`.
pub fn probe(options: &RunOptions) -> Result<(), RunError> {
    let config = Config::load(&options.config)?;
    let prepared = prepare(config, options)?;
    let identity = prepared.identity;
    // While there are still privileges to remove the socket.
    drop(prepared);
    sys::drop_privileges(identity).map_err(|source| RunError::System {
        what: "give up privileges",
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path at which no socket can be created must be reported, whichever error the kernel
    /// returns.
    #[test]
    fn a_socket_below_a_file_is_missing_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let missing_at = |path: std::path::PathBuf| {
            let text = "[[port]]\nname = \"a\"\nfd = 5\n";
            let mut config = Config::parse(std::path::Path::new("r.toml"), text).unwrap();
            config.control = Some(path);
            missing(&config)
        };
        let [line] = &missing_at(file.join("control.sock"))[..] else {
            panic!("not one line");
        };
        let part = "control: cannot make the status socket";
        assert!(line.starts_with(part), "{line}");
        assert!(missing_at(dir.path().join("control.sock")).is_empty());
    }
}
