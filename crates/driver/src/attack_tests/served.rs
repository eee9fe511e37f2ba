//! A server in a separate process, so that its memory can be measured without that of its clients
//! and attackers.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pathmark_transport::endpoint::RetryPolicy;

use super::*;

/// Set for the serving process; its value is a [`Role`].
const ROLE: &str = "PATHMARK_SERVED";

/// How a server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    OneThread,
    WithoutRetry,
    /// With two threads, connections' tasks open the packets from the receiving task.
    TwoThreads,
}

#[test]
#[ignore = "the server of the tests in this module: they start it as a process of its own"]
fn server_of_the_tests() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let is = |other: Role| role == format!("{other:?}");
    let threads = if is(Role::TwoThreads) { 2 } else { 1 };
    runtime(threads).block_on(async {
        let mut transport = transport();
        transport.max_idle_timeout = Some(Duration::from_secs(120));
        let mut config = ServerConfig::with_transport(Arc::new(server_tls()), Arc::new(transport));
        if is(Role::WithoutRetry) {
            config.retry(RetryPolicy::Never);
        }
        let server = Endpoint::server(config, loopback()).unwrap();
        println!("\nlistening {}", server.local_address());
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _ = ended.send(());
        });
        let serving = server.clone();
        tokio::spawn(async move {
            while let Some(incoming) = serving.accept().await {
                if let Ok(connecting) = incoming.accept() {
                    tokio::spawn(async move {
                        if let Ok(connection) = connecting.await {
                            answer(&connection).await;
                        }
                    });
                }
            }
        });
        let _ = end.await;
        println!("\n{:?}", server.stats());
    });
}

/// Sends as many bytes on each stream as the client requests.
async fn answer(connection: &Connection) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let Ok(asked) = recv.read_to_end(8).await else {
            continue;
        };
        let asked = asked.try_into().map_or(0, u64::from_be_bytes) as usize;
        let piece = vec![7; 64 << 10];
        for at in (0..asked).step_by(piece.len()) {
            let _ = send.write_all(&piece[..piece.len().min(asked - at)]).await;
        }
    }
}

/// Requests `length` bytes, which must arrive.
pub(super) async fn fetch(connection: &Connection, length: usize) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let asked = (length as u64).to_be_bytes();
    send.write_all(&asked).await.unwrap();
    send.finish().unwrap();
    let mut got = 0;
    while let Some(chunk) = recv.read_chunk().await.unwrap() {
        assert!(chunk.iter().all(|&byte| byte == 7));
        got += chunk.len();
    }
    assert_eq!(got, length);
}

/// Returns the resident memory of a process in bytes.
pub(super) fn resident(process: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches("kB").trim();
    kib.parse::<usize>().unwrap() * 1024
}

/// The server's process.
pub(super) struct Served {
    child: Child,
    /// Closing this ends the server.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(super) address: SocketAddr,
}

impl Served {
    pub(super) fn start(role: Role) -> Self {
        let name = "attack_tests::served::server_of_the_tests";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env(ROLE, format!("{role:?}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let address = Self::line(&mut output, "listening ");
        Self {
            input: child.stdin.take(),
            child,
            output,
            address: address.parse().unwrap(),
        }
    }

    /// Returns the text after `start` in the next line that begins with it.
    fn line(output: &mut impl BufRead, start: &str) -> String {
        let mut lines = output.lines().map(Result::unwrap);
        let found = lines.find_map(|line| line.strip_prefix(start).map(str::to_owned));
        found.expect("the server says it")
    }

    pub(super) fn resident(&self) -> usize {
        resident(&self.child.id().to_string())
    }

    /// Ends the process, and returns the statistics that it prints about its endpoint.
    pub(super) fn end(mut self) -> String {
        self.input = None;
        let stats = Self::line(&mut self.output, "EndpointStats ");
        assert!(self.child.wait().unwrap().success());
        stats
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // This is needed after a failure; otherwise the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
