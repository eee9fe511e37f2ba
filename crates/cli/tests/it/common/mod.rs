//! The `pathmark` command as a process.

pub(crate) mod encapsulation;
pub(crate) mod foreign;
pub(crate) mod gate;
pub(crate) mod gateway;
pub(crate) mod long_path;
#[allow(dead_code, reason = "benches use more of it")]
pub(crate) mod mix;
pub(crate) mod offered;
pub(crate) mod on_node;
#[allow(dead_code, reason = "benches use more of it")]
pub(crate) mod pair;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use serde_json::Value;

/// A lock of tests that measure rates or delays of real processes. Tests with different locks run
/// side by side.
pub(crate) struct Measuring(Mutex<()>);

pub(crate) static XCP: Measuring = Measuring(Mutex::new(()));
pub(crate) static XCP_I: Measuring = Measuring(Mutex::new(()));

impl Measuring {
    pub(crate) fn alone(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes all locks, for tests that use most of the CPU time.
pub(crate) fn alone() -> [MutexGuard<'static, ()>; 2] {
    [&XCP, &XCP_I].map(Measuring::alone)
}

pub(crate) fn pathmark(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathmark"));
    command
        .args(arguments)
        // Each run starts without the state of earlier runs.
        .env("XDG_STATE_HOME", "/dev/null")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

/// Like [`pathmark`], with its output in a pipe.
pub(crate) fn piped(arguments: &[&str]) -> Command {
    let mut command = pathmark(arguments);
    command.stdout(Stdio::piped());
    command
}

/// Returns the JSON object in the first line of a process's output.
pub(crate) fn first_object(output: impl Read) -> Value {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

/// A process that ends with the test.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = pathmark(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().try_into().unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Waits until the process ends, and returns its output.
    pub(crate) fn finish(mut self) -> Output {
        let stdout = self.0.stdout.take().unwrap();
        let stderr = self.0.stderr.take().unwrap();
        let [stdout, stderr] = std::thread::scope(|scope| {
            let out = scope.spawn(|| read(stdout));
            let err = scope.spawn(|| read(stderr));
            [out.join().unwrap(), err.join().unwrap()]
        });
        let status = self.0.wait().unwrap();
        Output {
            status,
            stdout,
            stderr,
        }
    }
}

fn read(mut from: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls only fail if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that ends with the test, and the lines of its log.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: String,
    pub(crate) pin: String,
    pub(crate) log: std::sync::mpsc::Receiver<String>,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = pathmark(arguments);
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        Self::of(command)
    }

    pub(crate) fn of(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        let said = first_object(process.0.stdout.take().unwrap());
        let stderr = process.0.stderr.take().unwrap();
        let (lines, log) = std::sync::mpsc::channel();
        // This thread ends with the server.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            address: said["listening"].as_str().unwrap().to_owned(),
            pin: said["pin"].as_str().unwrap().to_owned(),
            log,
        }
    }

    /// Returns the next log line that contains `word`, which must appear within `seconds`.
    #[track_caller]
    pub(crate) fn logged(&self, word: &str, seconds: u64) -> String {
        let wait = std::time::Duration::from_secs(seconds);
        loop {
            match self.log.recv_timeout(wait) {
                Ok(line) if line.contains(word) => return line,
                Ok(_) => {}
                Err(error) => panic!("no `{word}` in the log: {error}"),
            }
        }
    }
}

#[track_caller]
pub(crate) fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    object(output)
}

/// Returns the single JSON object that was printed.
#[track_caller]
pub(crate) fn object(output: &Output) -> Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    serde_json::from_str(&stdout).unwrap()
}

/// Checks that the output contains no control characters except for line ends.
#[track_caller]
pub(crate) fn no_control_characters(printed: &[u8]) {
    let text = String::from_utf8_lossy(printed);
    let bad = text.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(bad, None, "{text:?}");
}
