//! The tunnel that intercepts the connections of applications.

use std::fs;
use std::net::IpAddr;

use pathmark_testbed::Node;

use super::files::Files;
use crate::common::gateway::Running;
use crate::common::{pathmark, write_private};

/// A proxy at the target's host, and a tunnel at the other host that intercepts its connections.
pub(crate) struct Tunnel {
    _running: [Running; 2],
}

impl Tunnel {
    /// Like `new`, with additional arguments of the tunnel.
    pub(crate) fn new(
        near: &Node,
        (far, address): (&Node, IpAddr),
        files: &Files,
        cc: &str,
        more: &[&str],
    ) -> Self {
        let path = |name: &str| files.path(name).display().to_string();
        write_private(path("tokens"), "a 0123456789abcdef\n");
        let text = format!(
            "listen = '{address}:4433'\ntokens = 'tokens'\nallow = ['198.51.100.0/24']\n\
             cc = '{cc}'\n"
        );
        fs::write(path("proxy.toml"), text).unwrap();
        let config = path("proxy.toml");
        let proxy = pathmark(&["proxy", "--json", "--show-uri", "--config", &config]);
        let proxy = Running::new(far, proxy);
        fs::write(path("uri"), proxy.said["uris"][0]["uri"].as_str().unwrap()).unwrap();
        let uri = path("uri");
        let tproxy = ["--tproxy", "12345", "--uri-file", &uri];
        let tunnel = pathmark(&[&["tunnel", "--json", "--cc", cc], &tproxy[..], more].concat());
        let tunnel = Running::new(near, tunnel);
        tunnel.logged("connected");
        let rules = pathmark(&[&["tunnel", "rules"], &tproxy[..]].concat());
        assert!(near.spawn(rules, &[]).unwrap().wait().unwrap().success());
        Self {
            _running: [proxy, tunnel],
        }
    }
}
