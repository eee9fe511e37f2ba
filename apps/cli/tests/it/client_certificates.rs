//! Clients that are identified by their certificates.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use pathmark_transport::crypto::tls::Pin;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::{Server, certificate, ended, pathmark, stderr};

struct House {
    server: Server,
    here: TempDir,
    _offered: Offered,
}

impl House {
    fn new(here: TempDir, pins: &[Pin]) -> Self {
        let offered = Offered::new();
        fs::write(offered.path().join("a"), "content").unwrap();
        let client = |(place, pin): (usize, &Pin)| {
            format!("[[client]]\nname = \"{place}\"\npin = \"sha256:{pin}\"\nrights = [\"get\"]\n")
        };
        let list: String = pins.iter().enumerate().map(client).collect();
        let clients = here.path().join("clients.toml");
        fs::write(&clients, list).unwrap();
        let directory = offered.path().to_str().unwrap();
        let clients = clients.to_str().unwrap();
        let server = Server::start(&["serve", "--dir", directory, "--clients", clients]);
        Self {
            server,
            here,
            _offered: offered,
        }
    }

    fn get(&self, more: &[&str]) -> Output {
        let (source, out) = (self.server.at("a"), "-");
        let get = ["get", &source, "--pin", &self.server.pin, "-o", out];
        let mut command = pathmark(&[&get[..], more].concat());
        command.env("XDG_STATE_HOME", self.here.path());
        command.output().unwrap()
    }

    /// Shows the certificate of `chain` with the key of `key`.
    fn get_as(&self, chain: &str, key: &str) -> Output {
        let path = |name: &str, end: &str| self.here.path().join(name).with_extension(end);
        let (chain, key) = (path(chain, "pem"), path(key, "key"));
        let (chain, key) = (chain.to_str().unwrap(), key.to_str().unwrap());
        self.get(&["--client-cert", chain, "--client-key", key])
    }
}

#[track_caller]
fn refused(output: &Output) {
    ended(output, 1, "401");
}

#[test]
fn a_client_is_known_by_the_certificate_that_it_shows() {
    let here = TempDir::new().unwrap();
    let known = certificate(here.path(), "known");
    certificate(here.path(), "other");
    let house = House::new(here, &[known]);
    let got = house.get_as("known", "known");
    assert!(got.status.success(), "{got:?}");
    assert_eq!(got.stdout, b"content");
    refused(&house.get_as("other", "other"));
    refused(&house.get(&[]));
    assert_eq!(house.get_as("known", "other").status.code(), Some(2));
    // A key that others can read.
    let key = house.here.path().join("known.key");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(house.get_as("known", "known").status.code(), Some(2));
}

#[test]
fn the_own_certificate_is_made_once() {
    let here = TempDir::new().unwrap();
    let stranger = certificate(here.path(), "stranger");
    let house = House::new(here, &[stranger]);
    let first = house.get(&["--own-cert"]);
    let pem = fs::read(house.here.path().join("pathmark/client.key")).unwrap();
    let pin = Pin::of(&CertificateDer::from_pem_slice(&pem).unwrap());
    refused(&first);
    ended(&first, 1, &format!("sha256:{pin}"));
    let House { here, server, .. } = house;
    drop(server);
    let house = House::new(here, &[stranger, pin]);
    let got = house.get(&["--own-cert"]);
    assert!(got.status.success(), "{got:?}");
    let said = stderr(&got);
    assert!(!said.contains("sha256:"), "{said}");
}
