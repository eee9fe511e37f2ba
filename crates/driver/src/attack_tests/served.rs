//! The attacked server, in a separate process so that its memory can be measured without that of
//! the attackers.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use super::*;

/// Set for the serving process.
const ROLE: &str = "PATHMARK_ATTACKED_SERVER";

#[test]
#[ignore = "the server of the tests in this module: they start it as a process of its own"]
fn attacked_server() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    // With two threads, connections' tasks open the packets from the receiving task.
    runtime(2).block_on(async {
        let crypto = Arc::new(testing::server(&[ALPN]));
        let at = (Ipv4Addr::LOCALHOST, 0).into();
        let server = Endpoint::server(ServerConfig::new(crypto, transport()), at).unwrap();
        println!("\nlistening {}", server.local_address());
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _ = ended.send(());
        });
        let late = Arc::new(Lateness::default());
        tokio::spawn(Arc::clone(&late).watch());
        let serving = server.clone();
        tokio::spawn(async move {
            while let Some(incoming) = serving.accept().await {
                if let Ok(connecting) = incoming.accept() {
                    tokio::spawn(async move {
                        let Ok(connection) = connecting.await else {
                            return;
                        };
                        while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                            let _ = recv.read_to_end(8).await;
                            let _ = send.write_all(&[7; ANSWER]).await;
                            let _ = send.finish();
                        }
                    });
                }
            }
        });
        let _ = end.await;
        println!("\n{:?}, {late:?}", server.stats());
    });
}

/// The server's process.
pub(super) struct Served {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    pub(super) address: SocketAddr,
}

impl Served {
    pub(super) fn start() -> Self {
        let name = "attack_tests::served::attacked_server";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env(ROLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let address = Self::line(&mut output, "listening ");
        Self {
            child,
            output,
            address: address.parse().unwrap(),
        }
    }

    /// Returns the text after `start` in the next line that contains it.
    fn line(output: &mut impl BufRead, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "the server ended");
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Returns the resident memory of the process in bytes.
    pub(super) fn resident(&self) -> usize {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().trim_end_matches("kB").trim();
        kib.parse::<usize>().unwrap() * 1024
    }

    /// Ends the process, and returns the statistics that it prints about its endpoint.
    pub(super) fn end(mut self) -> String {
        drop(self.child.stdin.take());
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
