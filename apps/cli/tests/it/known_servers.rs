//! The facts that `get` and `put` keep about servers: separate processes, real sockets.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use pathmark::tls::{Pin, TlsServerConfig};
use pathmark::transport::endpoint::RetryPolicy;
use pathmark::{Connection, Endpoint, ServerConfig};
use pathmark_http3::http::{HeaderMap, Request};
use pathmark_http3::origin::{Limits, Origin, Steward};
use pathmark_http3::plan::{PutRights, Rules};
use pathmark_http3::root::Root;
use pathmark_http3::wire::ALPN;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Process, json, pathmark};

/// Tells clients whether their path was known, as `pathmark serve` does.
#[derive(Debug)]
struct Reports(Connection);

impl Steward for Reports {
    fn end(&self, _: &Request<()>) -> HeaderMap {
        let report = serde_json::json!({
            "algorithm": "auto", "feedback": null, "packets_lost": 0, "router_id": null,
            "rtt_ms": { "min": 0.0, "mean": 0.0, "p50": 0.0, "p99": 0.0, "max": 0.0 },
            "bounded_by": {
                "application": 0.0, "peer": 0.0, "streams": 0.0, "buffers": 0.0, "window": 0.0,
                "router": 0.0,
            },
            "known_path": self.0.path_report().known_path,
        });
        let mut fields = HeaderMap::new();
        fields.insert("pathmark-report", report.to_string().parse().unwrap());
        fields
    }
}

/// A server that knows the rate of its clients' paths. It requests this rate if a client has proved
/// its address by a token or a Retry.
struct Server {
    endpoint: Endpoint,
    address: SocketAddr,
    pin: Pin,
    directory: TempDir,
}

impl Server {
    fn start(retry: RetryPolicy) -> Self {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("file"), [7; 10_000]).unwrap();
        let made = rcgen::generate_simple_self_signed(["known".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let certificate = vec![made.cert.der().clone()];
        let tls = TlsServerConfig::new(certificate, key.into(), &[ALPN]).unwrap();
        let pin = tls.pin().unwrap();
        let mut transport = pathmark::transport_config(&"auto".parse().unwrap());
        transport.known_rate = Some(1_000_000_000);
        let mut config = ServerConfig::with_transport(Arc::new(tls), Arc::new(transport));
        config.retry(retry);
        let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
        let rules = Rules {
            put: PutRights::New,
            ..Rules::default()
        };
        let root = Root::open(directory.path()).unwrap();
        let origin = Origin::new(root, rules, Limits::default());
        let serving = endpoint.clone();
        tokio::spawn(async move {
            while let Some(incoming) = serving.accept().await {
                let origin = origin.clone();
                tokio::spawn(async move {
                    if let Ok(connecting) = incoming.accept()
                        && let Ok(connection) = connecting.await
                    {
                        let reports = Arc::new(Reports(connection.clone()));
                        // A client that is killed ends the connection with an error.
                        let _ = origin.serve_with(connection, reports).await;
                    }
                });
            }
        });
        let address = endpoint.local_address();
        Self {
            endpoint,
            address,
            pin,
            directory,
        }
    }

    /// Returns how many clients had no token, if all must prove their address.
    fn strangers(&self) -> u64 {
        self.endpoint.stats().retries_sent
    }

    /// Returns a command for this server, as a user with this directory for state.
    fn command(&self, state: &Path, arguments: &[&str]) -> Command {
        let mut command = pathmark(arguments);
        command.args(["--json", "--pin", &self.pin.to_string()]);
        command.env("XDG_STATE_HOME", state);
        command
    }

    /// Returns the output of a successful command.
    async fn run(&self, state: &Path, arguments: &[&str]) -> Value {
        let mut command = self.command(state, arguments);
        let ended = tokio::task::spawn_blocking(move || command.output());
        json(&ended.await.unwrap().unwrap())
    }

    /// Fetches a file in a separate process.
    async fn get(&self, state: &Path, more: &[&str]) -> Value {
        let here = TempDir::new().unwrap();
        let target = format!("{}/file", self.address);
        let fixed = ["get", &target, "-o", here.path().to_str().unwrap()];
        let figures = self.run(state, &[&fixed, more].concat()).await;
        assert_eq!(fs::read(here.path().join("file")).unwrap(), [7; 10_000]);
        figures
    }
}

fn warnings(figures: &Value) -> &[Value] {
    figures["warnings"].as_array().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_is_known_to_the_server() {
    let (server, state) = (Server::start(RetryPolicy::Never), TempDir::new().unwrap());
    let mut known = Vec::new();
    for _ in 0..3 {
        let figures = server.get(state.path(), &[]).await;
        assert!(warnings(&figures).is_empty(), "{figures}");
        known.push(figures["known_path"].as_bool().unwrap());
    }
    assert_eq!(known, [false, true, true]);
    // With `--no-state`, a run uses no token of earlier runs and doesn't change the file.
    let figures = server.get(state.path(), &["--no-state"]).await;
    assert_eq!(figures["known_path"], false);
    assert_eq!(server.get(state.path(), &[]).await["known_path"], true);
    let other = TempDir::new().unwrap();
    server.get(other.path(), &["--no-state"]).await;
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_and_a_get_prove_their_address_for_each_other() {
    let (server, state) = (Server::start(RetryPolicy::Always), TempDir::new().unwrap());
    let file = server.directory.path().join("file");
    for (round, name) in ["one", "two"].into_iter().enumerate() {
        let target = format!("{}/{name}", server.address);
        let put = ["put", file.to_str().unwrap(), &target];
        let figures = server.run(state.path(), &put).await;
        assert!(warnings(&figures).is_empty(), "{figures}");
        server.get(state.path(), &[]).await;
        assert_eq!(server.strangers(), 1, "{round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_costs_a_warning_and_a_round_trip() {
    let (server, state) = (Server::start(RetryPolicy::Never), TempDir::new().unwrap());
    server.get(state.path(), &[]).await;
    let file = state.path().join("pathmark/servers.json");
    fs::write(&file, "{\"form\":1,\"tokens\":[{]}").unwrap();
    let figures = server.get(state.path(), &[]).await;
    assert_eq!(figures["known_path"], false);
    let warning = warnings(&figures)[0].as_str().unwrap();
    assert!(warning.contains("servers.json is replaced"), "{warning}");
    assert_eq!(warnings(&figures).len(), 1);
    let figures = server.get(state.path(), &[]).await;
    assert!(warnings(&figures).is_empty());
    assert_eq!(figures["known_path"], true);
    // A token that the server didn't issue has no effect, and causes no further delay.
    let written = fs::read_to_string(&file).unwrap();
    let (before, token) = written.split_once("\"token\":\"").unwrap();
    let forged = format!("{before}\"token\":\"00{}", &token[2..]);
    fs::write(&file, forged).unwrap();
    let figures = server.get(state.path(), &[]).await;
    assert!(warnings(&figures).is_empty());
    assert_eq!(figures["known_path"], false);
}

/// Two commands at once use no token twice, and both store theirs; a killed one does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_at_once_and_one_killed_do_no_harm() {
    let (server, state) = (Server::start(RetryPolicy::Never), TempDir::new().unwrap());
    server.get(state.path(), &[]).await;
    // Only one can have the token.
    let (one, two) = tokio::join!(server.get(state.path(), &[]), server.get(state.path(), &[]));
    let locked = !(warnings(&one).is_empty() && warnings(&two).is_empty());
    let known = [one, two].map(|figures| figures["known_path"].as_bool().unwrap());
    assert!(known.contains(&true) || locked, "{known:?}");
    // There are two tokens now, unless one command waited for the other.
    let (one, two) = tokio::join!(server.get(state.path(), &[]), server.get(state.path(), &[]));
    for figures in [one, two] {
        // Under load, one command may find the file locked for too long, and continue without it.
        let others = warnings(&figures).iter().filter(|warning| {
            let text = warning.as_str().unwrap();
            !text.contains("is locked by another process for too long")
        });
        assert_eq!(others.count(), 0, "{figures}");
    }
    let out = TempDir::new().unwrap();
    let target = format!("{}/file", server.address);
    for _ in 0..5 {
        let get = ["get", &target, "-o", out.path().to_str().unwrap()];
        drop(Process::of(server.command(state.path(), &get)));
    }
    let figures = server.get(state.path(), &[]).await;
    assert!(warnings(&figures).is_empty());
    assert_eq!(server.get(state.path(), &[]).await["known_path"], true);
}
