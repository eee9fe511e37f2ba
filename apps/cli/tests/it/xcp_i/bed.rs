//! Hosts and routers on TUN interfaces, with XCP-i between them.

use std::net::SocketAddr;
use std::path::Path;

use pathmark_testbed::ChildGuard;
use pathmark_testbed::Node;
use pathmark_testbed::chain::{Addresses, Chain, Hop};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::on_node::{self, figures, router, shown, spawn};
use crate::common::{content, words};

/// Rate of the narrow link in each chain, in bits per second.
pub(crate) const NARROW: f64 = 30e6;

/// Returns the keys of a port of `rate` with 10 ms behind it.
fn port(rate: &str, controller: &str) -> String {
    format!(
        "rate = \"{rate}\"\ndelay = \"10ms\"\ncontroller = \"{controller}\"\n\
         queue = {{ kind = \"droptail\", limit = \"1bdp\", rtt = \"60ms\" }}\n"
    )
}

/// A port that looks for clouds, and one that measures them.
pub(crate) const LOOKS: &str = "xcp-i";
pub(crate) const MEASURES: &str = "xcp-i[estimate=real]";

const SECRET: &str = "known to both ends of the cloud";

/// Returns the path of a file with the secret that hosts and routers share.
pub(crate) fn secret_file(directory: &TempDir) -> String {
    let file = directory.path().join("secret");
    crate::common::write_private(&file, &format!("{SECRET}\n"));
    file.to_str().unwrap().to_owned()
}

/// A row of routers from the sender to the receiver, each with the rate and the law of its port.
pub(crate) struct Bed {
    pub(crate) chain: Chain,
    addresses: Addresses,
    /// The law that senders follow.
    law: &'static str,
}

impl Bed {
    pub(crate) fn new(addresses: Addresses, routers: &[(&str, &str)]) -> Self {
        let last = u8::try_from(routers.len()).unwrap();
        let hops = (0..).zip(routers).map(|(own, (rate, law))| {
            let routes = (0..last).filter(|other| *other != own).map(|other| {
                let side = if other < own { "reverse" } else { "forward" };
                let to = addresses.router(other);
                let bits = if to.is_ipv4() { 32 } else { 128 };
                format!("\n[[route]]\nprefix = \"{to}/{bits}\"\nport = \"{side}\"\n")
            });
            let routes: String = routes.collect();
            let messages = match *law {
                "none" => String::new(),
                _ => format!("[xcp_i]\nsecret = \"{SECRET}\"\n"),
            };
            let address = addresses.router(own);
            Hop {
                forward: format!("{}addresses = [\"{address}\"]\n", port(rate, law)),
                reverse: format!("{}{routes}\n{messages}", port("80Mbit", "none")),
            }
        });
        let hops: Vec<Hop> = hops.collect();
        let chain = Chain::with(router(), 1500, &hops, addresses, 1).unwrap();
        Self {
            chain,
            addresses,
            law: "xcp-i",
        }
    }

    /// Returns the same with senders that follow another law.
    pub(crate) fn by(self, law: &'static str) -> Self {
        Self { law, ..self }
    }

    /// Returns a router's report.
    pub(crate) fn show(&self, router: usize) -> Value {
        shown(&self.chain, router)
    }

    /// Returns how many packets a router's queue toward the receiver has dropped.
    pub(crate) fn drops(&self, router: usize) -> u64 {
        self.show(router)["links"][0]["drops"].as_u64().unwrap()
    }

    /// Fetches a file of this size, and returns the client's figures.
    pub(crate) fn get(&self, bytes: usize) -> Value {
        self.get_with(bytes, &[], &[])
    }

    /// Fetches with additional arguments of server and client.
    pub(crate) fn get_with(&self, bytes: usize, of_server: &[&str], of_client: &[&str]) -> Value {
        let directory = Offered::new();
        write_file(directory.path(), bytes);
        let listen = SocketAddr::new(self.addresses.sender(), 4433).to_string();
        let of_server = [&["--cc", self.law], of_server].concat();
        let (_server, said) = serve(&self.chain.sender, &listen, &directory, &of_server);
        let out = TempDir::new().unwrap();
        let get = format!(
            "get {listen}/file -o {} --pin {} --cc {} --json",
            out.path().display(),
            said["pin"].as_str().unwrap(),
            self.law
        );
        figures(spawn(
            &self.chain.receiver,
            &[&words(&get)[..], of_client].concat(),
        ))
    }

    /// Stores a file of this size from the sending host, and returns the client's figures.
    pub(crate) fn put_with(&self, bytes: usize, of_client: &[&str]) -> Value {
        let (from, into) = (TempDir::new().unwrap(), Offered::new());
        let file = write_file(from.path(), bytes);
        let listen = SocketAddr::new(self.addresses.receiver(), 4433).to_string();
        let of_server = ["--cc", self.law, "--allow-put"];
        let (_server, said) = serve(&self.chain.receiver, &listen, &into, &of_server);
        let pin = said["pin"].as_str().unwrap();
        let put = format!("put {file} {listen} --pin {pin} --cc {} --json", self.law);
        figures(spawn(
            &self.chain.sender,
            &[&words(&put)[..], of_client].concat(),
        ))
    }
}

fn write_file(directory: &Path, bytes: usize) -> String {
    let file = directory.join("file");
    std::fs::write(&file, content(bytes, 0)).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Starts a server, and returns it with the line that it prints.
fn serve(node: &Node, listen: &str, directory: &Offered, more: &[&str]) -> (ChildGuard, Value) {
    let path = directory.path().to_str().unwrap();
    let serve = ["serve", "--listen", listen, "--dir", path, "--json"];
    on_node::serve(node, &[&serve, more].concat())
}
