//! What a configuration needs of the machine that it is to run on.

use std::io;

use super::run::{RunOptions, prepare};
use super::run_error::RunError;
use super::socket::{self, ControlError};
use crate::config::{Config, Interface};
use crate::tun::{LinkKind, find, sys};

/// Everything that is plainly not there, or not what the configuration takes it for, one line each.
/// Nothing is changed.
#[must_use]
pub fn missing(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(user) = config.user.clone()
        && sys::user(&user).is_none()
    {
        found.push(RunError::User { user }.to_string());
    }
    if let Some(group) = config.group.clone()
        && sys::group(&group).is_none()
    {
        found.push(RunError::Group { group }.to_string());
    }
    if let Some(path) = &config.control {
        match socket::vacant(path) {
            Err(ControlError::NoDirectory(directory)) => found.push(format!(
                "control: there is no directory {}: make it (a unit does with `RuntimeDirectory`), \
                 or choose another place",
                directory.display()
            )),
            // Who runs the router may be allowed what this user is not.
            Err(ControlError::Socket { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error @ (ControlError::NoSocket(_) | ControlError::Socket { .. })) => {
                found.push(format!("control: {error}"));
            }
            // One that is in use is most likely that of the router that runs.
            _ => {}
        }
    }
    for port in &config.ports {
        let Interface::Tun(name) = &port.interface else {
            continue;
        };
        // Where the kernel cannot be asked, `run` will tell.
        let Ok(Some(link)) = find(name) else {
            continue;
        };
        let what = match link.kind {
            LinkKind::Tun => continue,
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
    found
}

/// Tries all that [`run`](super::run) does before it forwards, and undoes it. Interfaces that are
/// not there are made and removed again; those that are there are brought up.
///
/// # Errors
/// Those of `run`.
pub fn probe(options: &RunOptions) -> Result<(), RunError> {
    let config = Config::load(&options.config)?;
    let prepared = prepare(config, options)?;
    let identity = prepared.identity;
    // While there is still the right to remove the socket.
    drop(prepared);
    sys::drop_privileges(identity).map_err(|source| RunError::System {
        what: "give up privileges",
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place that no socket can be made in is told, whatever the kernel calls it.
    #[test]
    fn a_socket_below_a_file_is_missing_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let told = |path: std::path::PathBuf| {
            let text = "[[port]]\nname = \"a\"\nfd = 5\n";
            let mut config = Config::parse(std::path::Path::new("r.toml"), text).unwrap();
            config.control = Some(path);
            missing(&config)
        };
        let [line] = &told(file.join("control.sock"))[..] else {
            panic!("not one line");
        };
        assert!(
            line.starts_with("control: cannot make the status socket"),
            "{line}"
        );
        assert!(told(dir.path().join("control.sock")).is_empty());
    }
}
