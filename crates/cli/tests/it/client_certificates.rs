//! Clients that are identified by their certificates.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use pathmark_transport::crypto::tls::Pin;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::{Server, pathmark};

/// Creates a certificate and its key in separate files, and returns the pin.
fn certificate(directory: &Path, name: &str) -> Pin {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = directory.join(format!("{name}.key"));
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    fs::write(directory.join(format!("{name}.pem")), made.cert.pem()).unwrap();
    Pin::of(made.cert.der())
}

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
        let (source, out) = (format!("{}/a", self.server.address), "-");
        let get = ["get", &source, "--pin", &self.server.pin, "-o", out];
        let mut command = pathmark(&[&get[..], more].concat());
        command.env("XDG_STATE_HOME", self.here.path());
        command.output().unwrap()
    }

    fn get_as(&self, name: &str) -> Output {
        let path = |end: &str| self.here.path().join(format!("{name}.{end}"));
        let (chain, key) = (path("pem"), path("key"));
        let (chain, key) = (chain.to_str().unwrap(), key.to_str().unwrap());
        self.get(&["--client-cert", chain, "--client-key", key])
    }
}

#[track_caller]
fn refused(output: &Output) {
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("401"), "{stderr}");
}

#[test]
fn a_client_is_known_by_the_certificate_that_it_shows() {
    let here = TempDir::new().unwrap();
    let known = certificate(here.path(), "known");
    certificate(here.path(), "other");
    let house = House::new(here, &[known]);
    let got = house.get_as("known");
    assert!(got.status.success(), "{got:?}");
    assert_eq!(got.stdout, b"content");
    refused(&house.get_as("other"));
    refused(&house.get(&[]));
    // The key of another certificate.
    let (chain, key) = (house.here.path().join("known.pem"), "other.key");
    let key = house.here.path().join(key);
    let mixed = [
        "--client-cert",
        chain.to_str().unwrap(),
        "--client-key",
        key.to_str().unwrap(),
    ];
    assert_eq!(house.get(&mixed).status.code(), Some(2));
    // A key that others can read.
    let key = house.here.path().join("known.key");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(house.get_as("known").status.code(), Some(2));
}

#[test]
fn the_own_certificate_is_made_once() {
    let here = TempDir::new().unwrap();
    let stranger = certificate(here.path(), "stranger");
    let house = House::new(here, &[stranger]);
    let first = house.get(&["--own-cert"]);
    refused(&first);
    let pem = fs::read(house.here.path().join("pathmark/client.key")).unwrap();
    let pin = Pin::of(&CertificateDer::from_pem_slice(&pem).unwrap());
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(said.contains(&format!("sha256:{pin}")), "{said}");
    let House { here, server, .. } = house;
    drop(server);
    let house = House::new(here, &[stranger, pin]);
    let got = house.get(&["--own-cert"]);
    assert!(got.status.success(), "{got:?}");
    let said = String::from_utf8_lossy(&got.stderr).into_owned();
    assert!(!said.contains("sha256:"), "{said}");
}
