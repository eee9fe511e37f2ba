//! The `pathmark` command as a process.

pub(crate) mod encapsulation;
pub(crate) mod endpoints;
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

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use pathmark_transport::crypto::tls::Pin;
use serde_json::Value;

use offered::Offered;

/// The places of tests that measure rates or delays of real processes. Each test takes one, and
/// uses at most half of a processor, so that two processors have time to spare for three tests.
const PLACES: usize = 3;

static MEASURING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// Places among the tests that measure, until this is dropped.
pub(crate) struct Measuring(usize);

/// Waits for a place among the tests that measure.
pub(crate) fn measuring() -> Measuring {
    Measuring::take(1)
}

/// Waits for two places, for a test that uses a whole processor.
pub(crate) fn measuring_with_a_processor() -> Measuring {
    Measuring::take(2)
}

/// Waits for all places.
pub(crate) fn alone() -> Measuring {
    Measuring::take(PLACES)
}

impl Measuring {
    fn take(places: usize) -> Self {
        let (taken, left) = &MEASURING;
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken + places > PLACES;
        let mut taken = left
            .wait_while(taken, is_full)
            .unwrap_or_else(PoisonError::into_inner);
        *taken += places;
        Self(places)
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        *MEASURING.0.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        MEASURING.1.notify_all();
    }
}

/// Returns bytes that do not repeat, and that differ from those of another seed.
pub(crate) fn content(bytes: usize, seed: u64) -> Vec<u8> {
    let words = (seed..).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    words.flatten().take(bytes).collect()
}

/// Checks all cases at once. Each has hosts and routers of its own, and is mostly idle.
pub(crate) fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            let check = &check;
            scope.spawn(move || check(case));
        }
    });
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

pub(crate) fn run(arguments: &[&str]) -> Output {
    pathmark(arguments).output().unwrap()
}

/// Splits a command line at its spaces.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Reads a table of command lines and their outcomes, such as `get a => no file`.
pub(crate) fn table(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .map(|row| row.trim().split_once(" => ").unwrap())
}

/// Returns what a command wrote to stderr.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks the exit code of a command, and that it wrote `word` to stderr.
#[track_caller]
pub(crate) fn ended(output: &Output, code: i32, word: &str) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(word), "no `{word}` in: {text}");
}

/// Returns the sorted names of a directory's entries.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Writes a file that no other user can read.
pub(crate) fn write_private(path: impl AsRef<Path>, text: &str) {
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Creates a certificate and its key in separate files, and returns the pin.
pub(crate) fn certificate(directory: &Path, name: &str) -> Pin {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = directory.join(format!("{name}.key"));
    write_private(key, &made.signing_key.serialize_pem());
    fs::write(directory.join(format!("{name}.pem")), made.cert.pem()).unwrap();
    Pin::of(made.cert.der())
}

/// Returns the lines of a pipe, which a thread reads until nobody wants them.
pub(crate) fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Returns the next line that contains `words`, with this time limit between two lines.
#[track_caller]
pub(crate) fn logged(log: &Receiver<String>, words: &str, limit: Duration) -> String {
    let mut before = Vec::new();
    loop {
        match log.recv_timeout(limit) {
            Ok(line) if line.contains(words) => return line,
            Ok(line) => before.push(line),
            Err(error) => panic!("{error}: no `{words}` in {before:#?}"),
        }
    }
}

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
        Self::of(pathmark(arguments))
    }

    pub(crate) fn of(mut command: Command) -> Self {
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
    pub(crate) log: Receiver<String>,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = pathmark(arguments);
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        Self::of(command)
    }

    /// Offers a directory at an address.
    pub(crate) fn offering(directory: &Offered, listen: &str, more: &[&str]) -> Self {
        let directory = directory.path().to_str().unwrap();
        let serve = ["serve", "--dir", directory, "--listen", listen, "--json"];
        Self::of(pathmark(&[&serve[..], more].concat()))
    }

    pub(crate) fn of(command: Command) -> Self {
        Self::and_said(command).0
    }

    /// Starts a server, and returns it with the object that it prints.
    pub(crate) fn and_said(command: Command) -> (Self, Value) {
        let mut process = Process::of(command);
        let said = first_object(process.0.stdout.take().unwrap());
        let log = lines(process.0.stderr.take().unwrap());
        let server = Self {
            process,
            address: said["listening"].as_str().unwrap().to_owned(),
            pin: said["pin"].as_str().unwrap().to_owned(),
            log,
        };
        (server, said)
    }

    /// Returns the target of a file of this server.
    pub(crate) fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Runs a command line, with the address of this server for each `@`, and with its pin.
    pub(crate) fn run(&self, line: &str) -> Output {
        let line = line.replace('@', &self.address) + " --pin " + &self.pin;
        run(&words(&line))
    }
    /// Returns the next log line that contains `word`, which must appear within `seconds`.
    #[track_caller]
    pub(crate) fn logged(&self, word: &str, seconds: u64) -> String {
        logged(&self.log, word, Duration::from_secs(seconds))
    }
}

#[track_caller]
pub(crate) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
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
