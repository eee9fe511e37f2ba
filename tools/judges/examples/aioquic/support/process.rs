//! The process that runs aioquic for all cases, and the requests to it: see `peer.py`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::fault::Fault;

/// The process, which ends when its standard input is closed.
struct Running {
    _child: Child,
    address: SocketAddr,
}

/// Returns the address of the process. The first call starts it.
fn address() -> SocketAddr {
    static RUNNING: OnceLock<Running> = OnceLock::new();
    RUNNING.get_or_init(start).address
}

fn start() -> Running {
    let python = std::env::var_os("AIOQUIC_PYTHON").unwrap_or_else(|| "python3".into());
    let mut child = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/aioquic/peer.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is a Python");
    let mut port = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut port)
        .unwrap();
    let port = port.trim().parse();
    let port: u16 = port.expect("tools/judges/aioquic/run.sh installs what peer.py needs");
    Running {
        _child: child,
        address: (Ipv4Addr::LOCALHOST, port).into(),
    }
}

fn answer(line: &[u8]) -> Result<Value, Fault> {
    let answer: Value = serde_json::from_slice(line)?;
    match answer.get("failed") {
        Some(why) => Err(why.into()),
        None => Ok(answer),
    }
}

/// Sends a request and waits a few milliseconds for the answer, for requests that are answered
/// immediately.
pub(super) fn ask_now(request: &Value) -> Result<(Value, TcpStream), Fault> {
    let mut stream = TcpStream::connect(address())?;
    writeln!(stream, "{request}")?;
    let mut line = Vec::new();
    // Read exactly one line, because later bytes belong to the stream.
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok((answer(&line)?, stream))
}

/// A TCP connection that has become a stream, and the answer that preceded this.
pub(super) struct Answered {
    pub(super) answer: Value,
    pub(super) from: tokio::io::BufReader<OwnedReadHalf>,
    pub(super) to: OwnedWriteHalf,
}

/// Sends a request and waits for the answer, no matter how long this takes.
pub(super) async fn ask(request: &Value) -> Result<Answered, Fault> {
    let stream = tokio::net::TcpStream::connect(address()).await?;
    let (from, mut to) = stream.into_split();
    to.write_all(format!("{request}\n").as_bytes()).await?;
    let mut from = tokio::io::BufReader::new(from);
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line).await?;
    Ok(Answered {
        answer: answer(&line)?,
        from,
        to,
    })
}
