//! Files and flows at one port: `pathmark serve --proxy`.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use pathmark::tls::{Pin, TlsClientConfig, Trust};
use pathmark_http3::http::header::PROXY_AUTHORIZATION;
use pathmark_http3::http::{Method, Request, StatusCode};
use pathmark_http3::wire::{ALPN, ClientLink};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::offered::Offered;
use crate::common::{Process, Server, certificate, ended, first_object, json};
use crate::common::{pathmark, run, write_private};

const TOKEN: &str = "0123456789abcdef";
const WAIT: Duration = Duration::from_secs(30);

/// A server of files and flows.
struct House {
    server: Server,
    place: TempDir,
    _offered: Offered,
}

impl House {
    fn new(place: TempDir, users: &str, more: &[&str]) -> Self {
        let offered = Offered::new();
        fs::write(offered.path().join("a"), "content").unwrap();
        write_private(place.path().join("tokens"), users);
        let config = place.path().join("proxy.toml");
        let text = "tokens = 'tokens'\nallow = ['127.0.0.0/8']\ncontrol = 'control.sock'\n";
        fs::write(&config, text).unwrap();
        let (directory, config) = (offered.path().to_str().unwrap(), config.to_str().unwrap());
        let serve = ["serve", "--dir", directory, "--proxy", config];
        let server = Server::start(&[&serve[..], more].concat());
        Self {
            server,
            place,
            _offered: offered,
        }
    }

    fn get(&self) -> String {
        let output = self.server.run("get @/a -o -");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a tunnel, and returns the addresses of its IPv4 listeners.
    fn tunnel(&self, token: &str, arguments: &[&str]) -> (Process, Vec<SocketAddr>) {
        let Server { address, pin, .. } = &self.server;
        let mut command = pathmark(&["tunnel", "--json"]);
        let uri = format!("pathmark://{token}{address}?pin={pin}");
        command.args(arguments).env("PATHMARK_TUNNEL", uri);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process(command.spawn().unwrap());
        let started = first_object(process.0.stdout.take().unwrap());
        let listeners = started["listeners"].as_array().unwrap();
        let address = |listener: &Value| listener["address"].as_str().unwrap().parse().unwrap();
        let addresses = listeners.iter().map(address).filter(SocketAddr::is_ipv4);
        (process, addresses.collect())
    }

    fn tls(&self) -> TlsClientConfig {
        let pin: Pin = self.server.pin.parse().unwrap();
        TlsClientConfig::new(Trust::Pin(pin), &[ALPN]).unwrap()
    }
}

/// Starts a TCP target that returns the bytes that it reads.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut read = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut read, &mut stream);
            });
        }
    });
    address
}

/// Returns true if a connection through a forward returns the bytes written, and false if it is
/// reset.
fn echoes(forward: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(forward).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    let mut got = [0; 4];
    stream.write_all(b"this").is_ok() && stream.read_exact(&mut got).is_ok() && &got == b"this"
}

#[test]
fn files_and_flows_have_one_port() {
    let house = House::new(TempDir::new().unwrap(), &format!("a {TOKEN}\n"), &[]);
    let (target, datagrams) = (echo(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let to = datagrams.local_addr().unwrap();
    let (tcp, udp) = (format!("0:{target}"), format!("0:{to}/udp"));
    let token = format!("{TOKEN}@");
    let (_tunnel, listeners) = house.tunnel(&token, &["-L", &tcp, "-L", &udp]);
    let [forward, udp] = listeners.try_into().unwrap();
    assert_eq!(house.get(), "content");
    assert!(echoes(forward));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for socket in [&client, &datagrams] {
        socket.set_read_timeout(Some(WAIT)).unwrap();
    }
    client.send_to(b"datagram", udp).unwrap();
    let mut got = [0; 20];
    assert_eq!(datagrams.recv(&mut got).unwrap(), 8);

    let socket = house.place.path().join("control.sock");
    let show = ["proxy", "show", "--json", "--socket"];
    let shown = json(&pathmark(&show).arg(socket).output().unwrap());
    assert_eq!(shown["counts"]["tcp_flows"], 1);
    assert_eq!(shown["counts"]["udp_flows"], 1);

    // After the token is replaced, the tunnel's token is revoked, but files are still served.
    let tokens = house.place.path().join("tokens");
    write_private(tokens, "b fedcba9876543210\n");
    house.server.process.signal(Signal::SIGHUP);
    house.server.logged("the configuration was read again", 30);
    assert!(!echoes(forward));
    assert_eq!(house.get(), "content");
    let (_other, listeners) = house.tunnel("fedcba9876543210@", &["-L", &tcp]);
    assert!(echoes(listeners[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_tunnels_share_a_connection() {
    let house = House::new(TempDir::new().unwrap(), &format!("a {TOKEN}\n"), &[]);
    let target = echo();
    let transport = Arc::new(pathmark::transport_config(&"auto".parse().unwrap()));
    let config = pathmark::ClientConfig::with_transport(Arc::new(house.tls()), transport);
    let address: SocketAddr = house.server.address.parse().unwrap();
    let endpoint = pathmark::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = endpoint.connect_with(config, address, "localhost").unwrap();
    let link = ClientLink::with_tunnels(connecting.await.unwrap(), 65_536);
    let link = link.await.unwrap();
    let settings = link.peer_settings().await.unwrap();
    assert!(settings.connect_protocol && settings.datagrams);
    // More streams than a server allows at first.
    let probes = async {
        for _ in 0..300 {
            link.probe().await.unwrap();
        }
    };
    tokio::time::timeout(WAIT, probes).await.unwrap();

    let connect = |token: Option<&str>| {
        let mut head = Request::new(());
        *head.method_mut() = Method::CONNECT;
        *head.uri_mut() = target.to_string().parse().unwrap();
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().unwrap();
            head.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        head
    };
    let mut refused = link.connect(connect(None), None).await.unwrap();
    let response = refused.response().await.unwrap();
    assert_eq!(response.status(), StatusCode::PROXY_AUTHENTICATION_REQUIRED);
    let mut request = link.connect(connect(Some(TOKEN)), None).await.unwrap();
    assert_eq!(request.response().await.unwrap().status(), StatusCode::OK);
    let (mut send, mut recv, _) = request.into_tunnel().unwrap();
    send.write_all(b"before").await.unwrap();
    recv.read_exact(&mut [0; 6]).await.unwrap();

    let head = Request::get(format!("https://{address}/a")).body(());
    let mut request = link.request(head.unwrap()).await.unwrap();
    request.finish(None).await.unwrap();
    assert_eq!(request.response().await.unwrap().status(), StatusCode::OK);
    assert_eq!(request.data().await.unwrap().unwrap(), "content");

    send.write_all(b"after").await.unwrap();
    let mut got = [0; 5];
    recv.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"after");
}

/// These keys are replaced by arguments of `serve`.
#[test]
fn a_configuration_with_its_own_port_is_refused() {
    let offered = Offered::new();
    let place = TempDir::new().unwrap();
    let config = place.path().join("proxy.toml");
    write_private(place.path().join("tokens"), &format!("a {TOKEN}\n"));
    let directory = offered.path().to_str().unwrap();
    let listen = ["serve", "--listen", "127.0.0.1:0", "--dir", directory];
    for (line, says) in [
        ("listen = ':1'", "remove `listen`"),
        ("cert = 'c'\nkey = 'k'", "remove `cert` and `key`"),
        ("cc = 'auto'", "remove `cc`"),
        ("tokens = 'none'", "duplicate key"),
    ] {
        fs::write(&config, format!("tokens = 'tokens'\n{line}\n")).unwrap();
        let proxy = ["--proxy", config.to_str().unwrap()];
        ended(&run(&[&listen[..], &proxy].concat()), 2, says);
    }
}

#[test]
fn a_user_is_known_by_the_certificate_that_the_tunnel_shows() {
    let place = TempDir::new().unwrap();
    let known = certificate(place.path(), "known");
    certificate(place.path(), "other");
    let house = House::new(place, &format!("a sha256:{known}\n"), &[]);
    let place = house.place.path();
    let forward = format!("0:{}", echo());
    for (name, opens) in [("known", true), ("other", false)] {
        let path = |end: &str| place.join(format!("{name}.{end}")).display().to_string();
        let (chain, key) = (path("pem"), path("key"));
        let shown = ["--client-cert", &chain, "--client-key", &key];
        let arguments = [&["-L", &forward], &shown[..]].concat();
        let (_tunnel, listeners) = house.tunnel("", &arguments);
        assert_eq!(echoes(listeners[0]), opens, "{name}");
        // The same in a configuration.
        let config = place.join("tunnel.toml");
        let text = format!("forward = ['{forward}']\ncert = '{name}.pem'\nkey = '{name}.key'\n");
        fs::write(&config, text).unwrap();
        let (_tunnel, listeners) = house.tunnel("", &["--config", config.to_str().unwrap()]);
        assert_eq!(echoes(listeners[0]), opens, "{name}");
    }
    let uri = format!("pathmark://{}", house.server.address);
    ended(
        &run(&["tunnel", &uri, "-D", "0"]),
        2,
        "the URI has no token",
    );

    // After removing the user's line, flows of an open connection end, and no new flows can start.
    let path = |name: &str| place.join(name).display().to_string();
    let (chain, key) = (path("known.pem"), path("known.key"));
    let shown = ["--client-cert", &chain, "--client-key", &key];
    let (_tunnel, listeners) = house.tunnel("", &[&["-L", &forward], &shown[..]].concat());
    let mut flow = TcpStream::connect(listeners[0]).unwrap();
    flow.set_read_timeout(Some(WAIT)).unwrap();
    flow.write_all(b"x").unwrap();
    flow.read_exact(&mut [0]).unwrap();
    write_private(place.join("tokens"), &format!("a {TOKEN}\n"));
    house.server.process.signal(Signal::SIGHUP);
    house.server.logged("the configuration was read again", 30);
    assert!(!matches!(flow.read(&mut [0]), Ok(1)));
    assert!(!echoes(listeners[0]));
}
