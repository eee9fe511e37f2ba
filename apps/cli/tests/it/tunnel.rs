//! `pathmark tunnel` as users run it, with a proxy in this process.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::common::{Process, Server, ended, first_object, lines, logged, pathmark, run, stderr};
use crate::support::{Served, access, token};

const WAIT: Duration = Duration::from_secs(30);

/// A proxy, and the file with its user's URI.
struct Bed {
    directory: tempfile::TempDir,
    uri: String,
    _served: Served,
    _runtime: Runtime,
}

impl Bed {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let served = {
            let _entered = runtime.enter();
            Served::new(access(&["a"]))
        };
        let (secret, Served { address, pin, .. }) = (token("a"), &served);
        let uri = format!("pathmark://{}@{address}?pin={pin}", secret.secret());
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("proxy.uri"), format!("{uri}\n")).unwrap();
        Self {
            directory,
            uri,
            _served: served,
            _runtime: runtime,
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Starts a tunnel, and returns the addresses of its IPv4 listeners.
    fn start(&self, arguments: &[&str]) -> (Process, Vec<(String, SocketAddr)>) {
        let mut process = Process::start(&[&["tunnel", "--json"], arguments].concat());
        let mut line = String::new();
        let stdout = process.0.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let piped = process.0.stderr.take().unwrap();
            panic!("{line}{}", std::io::read_to_string(piped).unwrap())
        });
        let listeners = started["listeners"].as_array().unwrap().iter();
        let listeners = listeners.map(|listener| {
            let [kind, address] = ["kind", "address"].map(|key| listener[key].as_str().unwrap());
            (kind.to_owned(), address.parse().unwrap())
        });
        let listeners = listeners.filter(|(_, address): &(String, SocketAddr)| address.is_ipv4());
        (process, listeners.collect())
    }
}

/// A TCP target that reads to the end, and returns everything preceded by a text.
fn target() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut got = b"you wrote ".to_vec();
                if stream.read_to_end(&mut got).is_ok() {
                    stream.write_all(&got).unwrap();
                }
            });
        }
    });
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream
}

/// Writes, ends its direction, and reads to the end.
fn ask(mut stream: TcpStream) -> String {
    stream.write_all(b"this").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut got = String::new();
    stream.read_to_string(&mut got).unwrap();
    got
}

/// Opens a tunnel to a target by HTTP.
fn through_http(listener: SocketAddr, target: SocketAddr) -> TcpStream {
    let mut http = connect(listener);
    let request = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
    http.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 19];
    http.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK\r\n\r\n");
    http
}

#[test]
fn each_listener_of_a_file_and_of_arguments_serves() {
    let bed = Bed::new();
    let (target, echo) = (target(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let datagrams = echo.local_addr().unwrap();
    let text =
        format!("uri_file = \"proxy.uri\"\nforward = [\"0:{datagrams}/udp\"]\nhttp = [\"0\"]");
    std::fs::write(bed.path("tunnel.toml"), text).unwrap();
    let config = bed.path("tunnel.toml");
    let forward = format!("0:{target}");
    let (tunnel, listeners) = bed.start(&["--config", &config, "-L", &forward, "-D", "0"]);
    let of = |kind: &str| listeners.iter().find(|(known, _)| known == kind).unwrap().1;

    assert_eq!(ask(connect(of("forward"))), "you wrote this");

    let mut socks = connect(of("socks"));
    let greeting = b"\x05\x01\0\x05\x01\0\x01\x7f\0\0\x01";
    socks.write_all(greeting).unwrap();
    socks.write_all(&target.port().to_be_bytes()).unwrap();
    let mut reply = [9; 12];
    socks.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..4], [5, 0, 5, 0]);
    assert_eq!(ask(socks), "you wrote this");

    let http = through_http(of("http"), target);
    assert_eq!(ask(http), "you wrote this");

    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for socket in [&client, &echo] {
        socket.set_read_timeout(Some(WAIT)).unwrap();
    }
    client.send_to(b"datagram", of("udp forward")).unwrap();
    let mut got = [0; 20];
    let (length, from) = echo.recv_from(&mut got).unwrap();
    echo.send_to(&got[..length], from).unwrap();
    assert_eq!(client.recv(&mut got).unwrap(), 8);
    assert_eq!(&got[..8], b"datagram");

    tunnel.signal(Signal::SIGTERM);
    assert_eq!(tunnel.finish().status.code(), Some(0));
}

#[test]
fn connect_joins_stdin_and_stdout_with_a_target() {
    let bed = Bed::new();
    let target = target();
    let port = target.port().to_string();
    let mut command = pathmark(&["tunnel", "connect", "127.0.0.1", &port]);
    command
        .env("PATHMARK_TUNNEL", &bed.uri)
        .stdin(Stdio::piped());
    let mut process = Process::of(command);
    let mut stdin = process.0.stdin.take().unwrap();
    // More than pipes and windows hold at first.
    let sent = vec![b'a'; 3 << 20];
    stdin.write_all(&sent).unwrap();
    drop(stdin);
    let output = process.finish();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == [b"you wrote ", &sent[..]].concat());
    let said = stderr(&output);
    assert!(!said.contains("cannot"), "{said}");
}

#[test]
fn connect_says_why_there_is_no_connection() {
    let bed = Bed::new();
    let file = bed.path("proxy.uri");
    let refused = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    refused.bind(&any.into()).unwrap();
    let refused = refused.local_addr().unwrap().as_socket().unwrap();
    let refused = refused.port().to_string();
    for (host, port, says) in [
        (
            "127.0.0.1",
            &refused[..],
            "the target refused the connection",
        ),
        ("127.0.0.66", "80", "the proxy does not allow this target"),
        (
            "missing.invalid",
            "80",
            "the name of the target has no address",
        ),
    ] {
        let output = run(&["tunnel", "connect", "--uri-file", &file, host, port]);
        ended(&output, 1, says);
    }
}

/// A socket that receives datagrams but never answers, as behind a firewall.
#[test]
fn a_network_that_blocks_udp_is_reported_within_3_s() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent_at = silent.local_addr().unwrap();
    let uri = format!("pathmark://0123456789abcdef@{silent_at}");
    let mut command = pathmark(&["tunnel", "-D", "0"]);
    command.env("PATHMARK_TUNNEL", uri).stderr(Stdio::piped());
    let mut tunnel = Process(command.stdout(Stdio::null()).spawn().unwrap());
    let stderr = tunnel.0.stderr.take().unwrap();
    let (tell, log) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let reported = lines.find(|line| line.contains("the network may block UDP"));
        let _ = tell.send(reported);
    });
    silent.set_read_timeout(Some(WAIT)).unwrap();
    silent.recv(&mut [0; 2000]).unwrap();
    let reported = log.recv_timeout(Duration::from_millis(3_500));
    assert!(reported.unwrap().is_some());
}

/// Existing flows continue, and listeners that stay in the file accept new flows. Listeners can be
/// added and removed. A file with an error changes nothing.
#[test]
fn a_reload_keeps_flows() {
    let bed = Bed::new();
    let target = target();
    let config = bed.path("tunnel.toml");
    let control = bed.path("control.sock");
    let write = |listeners: &str| {
        let text = format!(
            "uri_file = \"proxy.uri\"\ncontrol = \"control.sock\"\n{listeners}\n\
             [limits]\nhandshake = \"1m\""
        );
        std::fs::write(&config, text).unwrap();
    };
    let shown = || {
        let show = ["tunnel", "show", "--json", "--socket", &control];
        let output = pathmark(&show).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let address = |shown: &Value, kind: &str| {
        let listeners = shown["listeners"].as_array().unwrap().clone();
        let of = |listener: &Value| -> SocketAddr {
            listener["address"].as_str().unwrap().parse().unwrap()
        };
        let mut matching = listeners.iter().filter(|listener| listener["kind"] == kind);
        matching.find(|listener| of(listener).is_ipv4()).map(of)
    };
    write(&format!("forward = [\"0:{target}\"]\nsocks = [\"0\"]"));
    let (mut tunnel, listeners) = bed.start(&["--config", &config]);
    let log = lines(tunnel.0.stderr.take().unwrap());
    let is_forward = |(kind, _): &&(String, SocketAddr)| kind == "forward";
    let forward = listeners.iter().find(is_forward).unwrap().1;
    let mut flow = connect(forward);
    flow.write_all(b"before ").unwrap();
    while shown()["flows"][0]["bytes_up"] != 7 {
        std::thread::yield_now();
    }
    let socks = address(&shown(), "socks").unwrap();

    write("forward = 5");
    tunnel.signal(Signal::SIGHUP);
    logged(&log, "the configuration stays as it was", WAIT);
    write(&format!("forward = [\"0:{target}\"]\nhttp = [\"0\"]"));
    tunnel.signal(Signal::SIGHUP);
    logged(&log, "the configuration was read again", WAIT);
    let now = shown();
    assert_eq!(address(&now, "forward"), Some(forward));
    assert_eq!(address(&now, "socks"), None);
    assert!(TcpStream::connect(socks).is_err());
    let http = through_http(address(&now, "http").unwrap(), target);
    assert_eq!(ask(http), "you wrote this");
    assert_eq!(ask(connect(forward)), "you wrote this");
    assert_eq!(ask(flow), "you wrote before this");

    // After changing the token, new flows use it.
    let other = bed.uri.replace(token("a").secret(), token("b").secret());
    std::fs::write(bed.path("proxy.uri"), other).unwrap();
    tunnel.signal(Signal::SIGHUP);
    logged(&log, "the configuration was read again", WAIT);
    let mut refused = connect(forward);
    assert!(refused.read_exact(&mut [0]).is_err());
    tunnel.signal(Signal::SIGTERM);
    assert_eq!(tunnel.0.wait().unwrap().code(), Some(0));
}

#[test]
fn the_state_has_flows_and_the_path() {
    let bed = Bed::new();
    let target = target();
    let (config, control) = (bed.path("tunnel.toml"), bed.path("control.sock"));
    let text = format!(
        "uri_file = \"proxy.uri\"\ncontrol = \"control.sock\"\nmetrics = \"127.0.0.1:0\"\n\
         forward = [\"127.0.0.1:0:{target}\"]"
    );
    std::fs::write(&config, text).unwrap();
    let mut tunnel = Process::start(&["tunnel", "--json", "--config", &config]);
    let started = first_object(tunnel.0.stdout.as_mut().unwrap());
    let address = |value: &Value| -> SocketAddr { value.as_str().unwrap().parse().unwrap() };
    let mut flow = connect(address(&started["listeners"][0]["address"]));
    flow.write_all(b"abc").unwrap();
    let show = |more: &[&str]| {
        let output = run(&[&["tunnel", "show"], more].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = loop {
        let shown: Value = serde_json::from_str(&show(&["--json", "--config", &config])).unwrap();
        if shown["flows"][0]["bytes_up"] == 3 {
            break shown;
        }
    };
    let facts = (&shown["connected"], &shown["counts"]["accepted"]);
    assert_eq!(facts, (&true.into(), &1.into()));
    let flow_shown = &shown["flows"][0];
    assert_eq!(flow_shown["kind"], "tcp");
    assert_eq!(flow_shown["by"], "forward");
    assert_eq!(flow_shown["target"], target.to_string());
    assert_eq!(address(&flow_shown["client"]), flow.local_addr().unwrap());
    assert!(shown["path_report"]["rtt_ms"]["p50"].as_f64().unwrap() > 0.0);
    for bound in ["bounded_by_up", "bounded_by_down"] {
        let bound = &flow_shown[bound];
        assert!(bound == "application" || bound == "path", "{bound}");
    }
    assert!(flow_shown["rate_up_bps"].is_f64());
    let looks = ["top", &control, "--count", "2", "--interval", "10ms"];
    let top = pathmark(&looks).output().unwrap();
    assert!(top.status.success(), "{top:?}");
    let top = String::from_utf8(top.stdout).unwrap();
    assert_eq!(top.matches("Mbit/s up").count(), 2, "{top}");
    assert_eq!(top.matches(&target.to_string()).count(), 4, "{top}");

    let people = show(&["--socket", &control]);
    let target = target.to_string();
    for part in ["connected to", "listener   forward on", "law ", &target] {
        assert!(people.contains(part), "{part}: {people}");
    }
    let metrics = show(&["--metrics", "--socket", &control]);
    let scrape = |request: &[u8]| {
        let mut stream = connect(address(&started["metrics"]));
        stream.write_all(request).unwrap();
        std::io::read_to_string(stream).unwrap()
    };
    let _silent_clients = [(); 40].map(|()| connect(address(&started["metrics"])));
    let scraped = scrape(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    for part in [
        "pathmark_tunnel_connected 1\n",
        "pathmark_tunnel_flows{kind=\"tcp\"} 1\n",
        "# TYPE pathmark_tunnel_accepted_total counter\n",
        "pathmark_tunnel_rtt_seconds ",
    ] {
        assert!(metrics.contains(part), "{part}: {metrics}");
        assert!(scraped.contains(part), "{part}: {scraped}");
    }
    let answer = scrape(b"GET / HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    tunnel.signal(Signal::SIGTERM);
    tunnel.finish();
    assert!(!std::path::Path::new(&control).exists());
    let gone = run(&["tunnel", "show", "--socket", &control]);
    ended(&gone, 1, "nothing answers on");
}

#[test]
fn a_token_is_in_no_message() {
    let bed = Bed::new();
    let secret = token("a").secret().to_owned();
    for uri in [
        format!("{}&x", bed.uri),
        bed.uri.replace("pathmark", "http"),
    ] {
        let output = run(&["tunnel", &uri, "-D", "0"]);
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(!stderr.contains(&secret), "{stderr}");
    }
    let mut none = pathmark(&["tunnel", "-D", "0"]);
    let none = none.env_remove("PATHMARK_TUNNEL").output().unwrap();
    let stderr = stderr(&none);
    assert!(stderr.contains("--uri-file FILE"), "{stderr}");
}

/// If the tunnel is stopped or killed, the data of a flow doesn't count as complete.
#[test]
fn a_tunnel_that_ends_resets_its_flows_and_leaves_none_at_the_proxy() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let bed = Bed::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let forward = format!("127.0.0.1:0:{}", listener.local_addr().unwrap());
        let uri = bed.path("proxy.uri");
        let (mut tunnel, said) = bed.start(&["--uri-file", &uri, "-L", &forward]);
        let mut client = connect(said[0].1);
        let (mut target, _) = listener.accept().unwrap();
        target.write_all(b"some of it").unwrap();
        client.read_exact(&mut [0; 10]).unwrap();
        tunnel.signal(signal);
        let _ = tunnel.0.wait();
        let ended = client.read(&mut [0]).unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::ConnectionReset, "{signal}");
        if signal == Signal::SIGTERM {
            // The proxy notices this immediately.
            let limit = Some(Duration::from_secs(5));
            target.set_read_timeout(limit).unwrap();
            let ended = target.read(&mut [0]).unwrap_err();
            assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
        }
    }
}

/// The client's own certificate can be created without a proxy. Its pin is printed in the format of
/// the proxy's list of users.
#[test]
fn the_pin_of_the_own_certificate_is_printed_without_a_proxy() {
    let state = tempfile::tempdir().unwrap();
    let own = |more: &[&str]| {
        let mut command = pathmark(&[&["tunnel", "--own-cert"], more].concat());
        command.env("XDG_STATE_HOME", state.path());
        command.env_remove("PATHMARK_TUNNEL").output().unwrap()
    };
    let [first, second] = [own(&[]), own(&[])];
    let pin = String::from_utf8(first.stdout).unwrap();
    assert!(pin.starts_with("sha256:") && pin.len() == 72, "{pin}");
    assert_eq!(second.stdout, pin.as_bytes());
    // A tunnel needs a proxy, and a timeout that keeps its flows alive.
    for (more, says) in [
        (&["-D", "0"][..], "no proxy is named"),
        (&["--udp-idle", "0s"], "ends each flow at once"),
    ] {
        ended(&own(more), 2, says);
    }
}

/// Who takes a proxy for a server of files is told, and so is who takes such a server for a proxy.
#[test]
fn proxies_and_servers_of_files_are_told_apart() {
    let bed = Bed::new();
    let (address, pin) = bed
        .uri
        .rsplit_once('@')
        .unwrap()
        .1
        .split_once("?pin=")
        .unwrap();
    let file = format!("{address}/file");
    let output = pathmark(&["get", &file, "--pin", pin, "-o", "-"]).output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(
        said.contains("401") && said.contains("use pathmark tunnel"),
        "{said}"
    );

    let directory = bed.directory.path().to_str().unwrap();
    let server = Server::start(&["serve", "--dir", directory]);
    let secret = token("a");
    let secret = secret.secret();
    let uri = format!("pathmark://{secret}@{}?pin={}", server.address, server.pin);
    let (mut tunnel, _) = bed.start(&[&uri, "-D", "0"]);
    let log = lines(tunnel.0.stderr.take().unwrap());
    logged(&log, "perhaps it is no proxy", WAIT);
}

#[test]
fn check_reports_faults() {
    let bed = Bed::new();
    let file = bed.path("tunnel.toml");
    let uri = "uri_file = \"proxy.uri\"\n";
    for (text, code, says) in [
        (format!("{uri}socks = [\"1080\"]"), 0, "no faults"),
        (
            format!("cc = \"bbr\"\n{uri}socks = [\":1080\"]"),
            0,
            "without a password",
        ),
        (
            "uri_file = \"other.uri\"\nsocks = [\"1080\"]".into(),
            2,
            "other.uri",
        ),
        (
            "socks = [\"1080\"]\nhttp = [\"1080\"]".into(),
            2,
            "two listeners",
        ),
        (
            "\n\nsocks = [\"a:1080\"]".into(),
            2,
            ":3: `a` is no address",
        ),
        (uri.into(), 2, "no listener"),
        (
            "cert = 'a.pem'\nkey = 'a.key'\nsocks = ['1080']".into(),
            2,
            "a.pem",
        ),
        ("[limits]\nflows = 0".into(), 2, "from 1 to 1000000"),
        (
            "[limits]\nudp_flows = 4294967295".into(),
            2,
            "from 1 to 1000000",
        ),
        (
            "[limits]\nudp_idle = '0s'".into(),
            2,
            "ends each flow at once",
        ),
        ("[[class]]\nports = [0]".into(), 2, ".toml:2: "),
        ("cc = 'foo'".into(), 2, "known are"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let output = run(&["tunnel", "check", &file]);
        let all = [output.stdout, output.stderr].concat();
        let all = String::from_utf8(all).unwrap();
        assert!(all.contains(says), "{text}: {all}");
        assert_eq!(output.status.code(), Some(code), "{text}: {all}");
    }
}
