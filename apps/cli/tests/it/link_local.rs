//! Servers with a link-local IPv6 address, which needs the name of an interface (RFC 4007 §11).

use std::process::Stdio;

use pathmark_testbed::Testbed;
use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::on_node::start;
use crate::common::{pathmark, words};

#[test]
fn a_file_comes_from_an_address_with_a_zone() {
    let bed = Testbed::new().unwrap();
    let [client, server] = ["client", "server"].map(|name| bed.node(name).unwrap());
    let ends = [(&client, "near0"), (&server, "far0")];
    bed.veth(ends[0], ends[1], 1500).unwrap();
    for ((node, interface), address) in ends.into_iter().zip(["fe80::1/64", "fe80::2/64"]) {
        node.add_address(interface, address.parse().unwrap())
            .unwrap();
    }
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    std::fs::write(there.path().join("file"), "over the hills").unwrap();
    let directory = there.path().to_str().unwrap();
    let listen = ["--listen", "[fe80::2%far0]:4433"];
    let serve = [&["serve", "--dir", directory][..], &listen].concat();
    let (_server, said) = start(&server, &serve);
    let (out, pin) = (here.path().display(), said["pin"].as_str().unwrap());
    let get = format!("get [fe80::2%near0]:4433/file -o {out} --pin {pin}");
    let mut get = pathmark(&words(&get));
    get.stdout(Stdio::null()).stderr(Stdio::inherit());
    assert!(client.spawn(get, &[]).unwrap().wait().unwrap().success());
    let got = std::fs::read_to_string(here.path().join("file")).unwrap();
    assert_eq!(got, "over the hills");
}
