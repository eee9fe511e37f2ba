//! `pathmark proxy` as a process, with a client of the library. Real sockets.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nix::sys::signal::Signal;
use pathmark::tls::{TlsClientConfig, Trust};
use pathmark_http3::wire::ALPN;
use pathmark_proxy::outbound::{Datagrams, Outbound};
use pathmark_proxy::target::Target;
use pathmark_proxy::tunnel::{Dialer, Tunnel, TunnelTimes};
use pathmark_proxy::uri::ProxyUri;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

use crate::common::{Process, Server, ended, pathmark, run, words, write_private};

const TOKEN: &str = "0123456789abcdef";

fn tunnel(uri: &str) -> Tunnel {
    let uri: ProxyUri = uri.parse().unwrap();
    let tls = TlsClientConfig::new(Trust::Pin(uri.pin.unwrap()), &[ALPN]).unwrap();
    let transport = Arc::new(pathmark::transport_config(&"auto".parse().unwrap()));
    let config = pathmark::ClientConfig::with_transport(Arc::new(tls), transport);
    let dialer = Dialer::new(uri.server, config);
    Tunnel::new(dialer, uri.token.as_ref(), TunnelTimes::default())
}

fn target(address: SocketAddr) -> Target {
    address.to_string().parse().unwrap()
}

async fn echo() -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = target(listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    target
}

/// Returns a directory with tokens.
fn place(tokens: &str) -> TempDir {
    let place = TempDir::new().unwrap();
    write_private(place.path().join("tokens"), tokens);
    place
}

async fn bounded<T>(test: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, test).await.expect("in time")
}

/// Starts a proxy with these arguments, and returns the object that it prints.
fn start(arguments: &[&str]) -> (Server, serde_json::Value) {
    Server::and_said(pathmark(
        &[&["proxy"], arguments, &["--json", "--show-uri"]].concat(),
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pasted_uri_is_all_that_a_client_needs() {
    bounded(async {
        let place = TempDir::new().unwrap();
        let tokens = place.path().join("tokens");
        let tokens_at = tokens.display();
        let line = format!("--listen 127.0.0.1:0 --token-file {tokens_at} --allow 127.0.0.0/8");
        let (server, said) = start(&words(&line));
        let mode = fs::metadata(&tokens).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let uri = said["uris"][0]["uri"].as_str().unwrap();
        // It is also in a file for the tunnel.
        let file = place.path().join("proxy.uri");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_to_string(file).unwrap().trim(), uri);
        let tunnel = tunnel(uri);
        let (mut read, mut write) = tunnel.tcp(&echo().await).await.unwrap();
        write.write_all(b"hello").await.unwrap();
        write.shutdown().await.unwrap();
        let mut back = String::new();
        read.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, "hello");
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let flow = tunnel.udp(&target(socket.local_addr().unwrap())).await;
        let flow = flow.unwrap();
        flow.send(Bytes::from_static(b"ping")).await.unwrap();
        let (_, from) = socket.recv_from(&mut [0; 10]).await.unwrap();
        socket.send_to(b"pong", from).await.unwrap();
        assert_eq!(flow.receive().await.unwrap(), "pong");
        server.process.signal(Signal::SIGTERM);
        server.logged("stopped", 20);
        let mut process = server.process;
        assert!(process.0.wait().unwrap().success());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_keeps_flows_and_revokes_tokens() {
    bounded(async {
        let place = place(&format!("a {TOKEN}a\nb {TOKEN}b\n"));
        let config = place.path().join("proxy.toml");
        let text = "listen = '127.0.0.1:0'\ntokens = 'tokens'\nallow = ['127.0.0.1']\n";
        fs::write(&config, text).unwrap();
        let (server, said) = start(&["--config", config.to_str().unwrap()]);
        let uri = |user: usize| said["uris"][user]["uri"].as_str().unwrap();
        let to = echo().await;
        let (mut kept_read, mut kept_write) = tunnel(uri(0)).tcp(&to).await.unwrap();
        let (mut gone_read, _gone_write) = tunnel(uri(1)).tcp(&to).await.unwrap();
        // An invalid file changes nothing.
        write_private(place.path().join("tokens"), "a\n");
        server.process.signal(Signal::SIGHUP);
        let line = server.logged("stays as it was", 20);
        assert!(line.contains("tokens:1: a line has a name"), "{line}");
        write_private(place.path().join("tokens"), &format!("a {TOKEN}a\n"));
        server.process.signal(Signal::SIGHUP);
        server.logged("read again", 20);
        assert!(gone_read.read_u8().await.is_err());
        kept_write.write_all(b"x").await.unwrap();
        assert_eq!(kept_read.read_u8().await.unwrap(), b'x');
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_has_clients_and_flows() {
    bounded(async {
        let place = place(&format!("first {TOKEN}\n"));
        let config = place.path().join("proxy.toml");
        let text = "listen = '127.0.0.1:0'\ntokens = 'tokens'\nallow = ['127.0.0.0/8']\n\
                    control = 'control.sock'\n";
        write_private(&config, text);
        let config = config.to_str().unwrap();
        let (_server, said) = start(&["--config", config]);
        let tunnel = tunnel(said["uris"][0]["uri"].as_str().unwrap());
        let to = echo().await;
        let (mut read, mut write) = tunnel.tcp(&to).await.unwrap();
        write.write_all(b"abcd").await.unwrap();
        let mut got = [0; 4];
        read.read_exact(&mut got).await.unwrap();
        let show = |format: &str| {
            let output = pathmark(&["proxy", "show", format, "--config", config]).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        let shown: serde_json::Value = serde_json::from_str(&show("--json")).unwrap();
        let flow = &shown["flows"][0];
        assert_eq!(
            (&flow["kind"], &flow["by"]),
            (&"tcp".into(), &"first".into())
        );
        assert_eq!(
            (&flow["bytes_up"], &flow["bytes_down"]),
            (&4.into(), &4.into())
        );
        assert_eq!(flow["target"], to.to_string());
        assert_eq!(shown["connections"].as_array().unwrap().len(), 1);
        assert!(shown["connections"][0]["path_report"]["algorithm"].is_string());
        let user = &shown["users"][0];
        assert_eq!(
            (&user["user"], &user["bytes_up"]),
            (&"first".into(), &4.into())
        );
        assert_eq!((&user["tcp"], &user["tcp_flows"]), (&1.into(), &1.into()));
        let metrics = show("--metrics");
        for part in [
            "pathmark_proxy_user_up_bytes_total{user=\"first\"} 4\n",
            "pathmark_proxy_user_flows{user=\"first\"} 1\n",
            "pathmark_proxy_connections 1\n",
            "pathmark_proxy_flows{kind=\"tcp\"} 1\n",
            "pathmark_proxy_down_bytes_total 4\n",
        ] {
            assert!(metrics.contains(part), "{part}: {metrics}");
        }
    })
    .await;
}

/// Reads the lines of a log once it has this number of them.
async fn lines_of(log: &std::path::Path, number: usize) -> Vec<serde_json::Value> {
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.lines().count() >= number {
            return text
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
        }
        // Nothing tells that the proxy has written a line.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Each request is a line of the log, also of those who are refused, revoked or have used up their
/// volume; and the log may be moved away.
#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_a_line_of_the_access_log() {
    bounded(async {
        let place = place(&format!("a {TOKEN}a\nb {TOKEN}b\n"));
        let path = |name: &str| place.path().join(name);
        let text = "listen = '127.0.0.1:0'\ntokens = 'tokens'\nallow = ['127.0.0.1']\n\
                    access_log = 'log'\n[limits]\nrate_per_user = 100_000_000\n\
                    [user.b]\nvolume = 1000\n";
        fs::write(path("proxy.toml"), text).unwrap();
        let (server, said) = start(&["--config", path("proxy.toml").to_str().unwrap()]);
        let uri = |user: usize| said["uris"][user]["uri"].as_str().unwrap();
        let to = echo().await;
        let (first, second) = (tunnel(uri(0)), tunnel(uri(1)));
        let (mut read, mut write) = first.tcp(&to).await.unwrap();
        server.logged("connected", 20);
        write.write_all(b"hello").await.unwrap();
        write.shutdown().await.unwrap();
        read.read_to_end(&mut Vec::new()).await.unwrap();
        let denied: Target = "10.0.0.1:1".parse().unwrap();
        assert!(first.tcp(&denied).await.is_err());
        let lines = lines_of(&path("log"), 2).await;
        let whole = lines.iter().find(|line| line["status"] == 200).unwrap();
        assert_eq!(
            (&whole["user"], &whole["kind"]),
            (&"a".into(), &"tcp".into())
        );
        assert_eq!(
            (&whole["bytes_up"], &whole["bytes_down"]),
            (&5.into(), &5.into())
        );
        assert_eq!(
            (&whole["target"], &whole["error"]),
            (&to.to_string().into(), &().into())
        );
        let refused = lines.iter().find(|line| line["status"] == 502).unwrap();
        assert_eq!(refused["target"], "10.0.0.1:1");
        assert!(
            refused["error"]
                .as_str()
                .unwrap()
                .contains("does not allow")
        );

        // The user with a volume loses its flow, and gets no other one.
        let (mut read, mut write) = second.tcp(&to).await.unwrap();
        let _ = write.write_all(&[7; 2000]).await;
        let mut all = Vec::new();
        assert!(read.read_to_end(&mut all).await.is_err());
        assert!(second.tcp(&to).await.is_err());
        server.logged("volume of a day is used up", 20);
        let lines = lines_of(&path("log"), 4).await;
        let errors = lines[2..]
            .iter()
            .map(|line| (&line["user"], line["status"].as_u64()));
        assert!(
            errors.eq([(&"b".into(), Some(200)), (&"b".into(), Some(503))]),
            "{lines:?}"
        );

        // After a move and a signal, lines are in a new file.
        let (mut read, _write) = first.tcp(&to).await.unwrap();
        fs::rename(path("log"), path("old")).unwrap();
        write_private(path("tokens"), &format!("b {TOKEN}b\n"));
        server.process.signal(Signal::SIGHUP);
        server.logged("revoked", 20);
        server.logged("read again", 20);
        assert!(read.read_u8().await.is_err());
        let lines = lines_of(&path("log"), 1).await;
        assert_eq!(lines[0]["error"], "the user was removed");

        // A flow that ends with the proxy is a line, too.
        write_private(path("tokens"), &format!("c {TOKEN}a\n"));
        server.process.signal(Signal::SIGHUP);
        server.logged("read again", 20);
        let (mut read, mut write) = first.tcp(&to).await.unwrap();
        write.write_all(b"last").await.unwrap();
        read.read_exact(&mut [0; 4]).await.unwrap();
        server.process.signal(Signal::SIGTERM);
        server.logged("gone", 20);
        let mut process = server.process;
        assert!(process.0.wait().unwrap().success());
        let lines = lines_of(&path("log"), 2).await;
        let last = lines.last().unwrap();
        assert_eq!((&last["user"], &last["bytes_up"]), (&"c".into(), &4.into()));
    })
    .await;
}

#[test]
fn a_token_is_shown_to_no_pipe_and_wrong_files_have_a_line() {
    let place = place(&format!("a {TOKEN}\n"));
    let tokens = place.path().join("tokens");
    let line = format!(
        "proxy --listen 127.0.0.1:0 --token-file {}",
        tokens.display()
    );
    let mut process = Process::start(&words(&line));
    let mut line = String::new();
    let mut stdout = BufReader::new(process.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on 127.0.0.1:"), "{line}");
    process.signal(Signal::SIGINT);
    let mut rest = String::new();
    stdout.read_line(&mut rest).unwrap();
    assert_eq!(rest, "");

    let config = place.path().join("proxy.toml");
    let config = config.to_str().unwrap();
    let outcome = |arguments: &[&str]| {
        let output = run(arguments);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let check = |text: &str| {
        fs::write(config, text).unwrap();
        outcome(&["proxy", "check", config])
    };
    let (code, said) = check("listen = ':1'\ntokens = 'tokens'\n");
    let is_correct = code == Some(0) && said.contains("correct, 1 users");
    assert!(is_correct, "{said}");
    let uris = |more: &[&str]| outcome(&[&["proxy", "uris", config], more].concat());
    let (all, (code, one)) = (uris(&[]), uris(&["a"]));
    assert_eq!(all.1, format!("for a: {one}"));
    let is_one = code == Some(0) && one.starts_with("pathmark://");
    assert!(is_one, "{code:?} {one}");
    let (code, said) = uris(&["b"]);
    assert!(code == Some(2) && said.contains("has no user b"), "{said}");
    let (code, said) = outcome(&["proxy", "uris", tokens.to_str().unwrap()]);
    assert!(code == Some(2) && said.contains("--show-uri"), "{said}");
    let start = "tokens = 'tokens'\nlisten = ':1'\n";
    for (text, expected) in [
        (format!("{start}ports = 1\n"), "proxy.toml:3: unknown field"),
        (
            format!("{start}cert = 'none.pem'\nkey = 'none.key'\n"),
            "none.pem",
        ),
        (
            format!("{start}[[class]]\nports = [80]\nweight = 0\n"),
            "proxy.toml:5: ",
        ),
        ("tokens = 'tokens'\nlisten = 'x'\n".into(), "proxy.toml:2: "),
        (format!("{start}cc = 'x'\n"), "proxy.toml:3: "),
    ] {
        let (code, said) = check(&text);
        assert!(code == Some(2) && said.contains(expected), "{said}");
    }
    fs::set_permissions(&tokens, Permissions::from_mode(0o644)).unwrap();
    let (code, said) = check("listen = ':1'\ntokens = 'tokens'\n");
    let is_refused = code == Some(2) && said.contains("set its mode to 600");
    assert!(is_refused, "{said}");
    let without = run(&["proxy", "--listen", "127.0.0.1:0"]);
    ended(&without, 2, "PATHMARK_PROXY_TOKENS");
}
