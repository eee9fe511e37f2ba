//! The `pathmark` command as a process.

pub(crate) mod encapsulation;
pub(crate) mod ends;
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

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use pathmark::tls::Pin;
use serde_json::Value;

/// Tests that measure rates or delays of real processes hold this lock. They run one at a time,
/// because they would otherwise measure each other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Returns the command of a line, whose words are separated by spaces, in a directory.
pub(crate) fn command(here: &impl AsRef<Path>, line: &str) -> Command {
    let mut command = pathmark(&line.split(' ').collect::<Vec<_>>());
    command.current_dir(here);
    command
}

pub(crate) fn run(here: &impl AsRef<Path>, line: &str) -> Output {
    command(here, line).output().unwrap()
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

/// Reads the first line of a process's output.
pub(crate) fn first_line(from: impl Read) -> String {
    let mut line = String::new();
    BufReader::new(from).read_line(&mut line).unwrap();
    line
}

/// The lines of a process's log.
pub(crate) struct Log(Mutex<Receiver<String>>);

impl Log {
    /// Reads in a thread that ends with the process.
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
        let (lines, log) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        Self(Mutex::new(log))
    }

    /// Returns the next line that contains `words`, with this time limit between two lines.
    #[track_caller]
    pub(crate) fn next_with(&self, words: &str, time: Duration) -> String {
        let mut before = Vec::new();
        loop {
            match self.0.lock().unwrap().recv_timeout(time) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => before.push(line),
                Err(error) => panic!("{error}: no `{words}` in {before:#?}"),
            }
        }
    }

    /// Returns the lines that have arrived and were not returned yet.
    pub(crate) fn arrived(&mut self) -> Vec<String> {
        self.0.get_mut().unwrap().try_iter().collect()
    }

    /// Returns the remaining lines once the process has ended.
    pub(crate) fn rest(self) -> Vec<String> {
        self.0.into_inner().unwrap().iter().collect()
    }
}

/// Writes a file that no other user can read.
pub(crate) fn write_private(path: impl AsRef<Path>, text: &str) {
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
}

/// Creates a certificate and its key in the files `name.pem` and `name.key`, and returns the pin.
pub(crate) fn certificate(directory: &Path, name: &str) -> Pin {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = made.signing_key.serialize_pem();
    write_private(directory.join(format!("{name}.key")), &key);
    std::fs::write(directory.join(format!("{name}.pem")), made.cert.pem()).unwrap();
    Pin::of(made.cert.der())
}

/// Starts a command that prints an object as its first line, and returns it with this object and
/// its log.
pub(crate) fn started(command: Command) -> (Process, Value, Log) {
    let mut process = Process::of(command);
    let log = Log::of(process.0.stderr.take().unwrap());
    let line = first_line(process.0.stdout.take().unwrap());
    let Ok(said) = serde_json::from_str(&line) else {
        panic!("{line}{:#?}", log.rest());
    };
    (process, said, log)
}

/// Returns the kinds and addresses of a tunnel's IPv4 listeners, from the object that it printed.
pub(crate) fn listeners(said: &Value) -> Vec<(String, SocketAddr)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let listeners = said["listeners"].as_array().unwrap().iter();
    let all = listeners.map(|listener| {
        let address: SocketAddr = text(&listener["address"]).parse().unwrap();
        (text(&listener["kind"]), address)
    });
    all.filter(|(_, address)| address.is_ipv4()).collect()
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
    /// The object that it has printed.
    pub(crate) said: Value,
    pub(crate) log: Log,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = pathmark(arguments);
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        Self::of(command)
    }

    pub(crate) fn of(command: Command) -> Self {
        let (process, said, log) = started(command);
        let text = |key: &str| said[key].as_str().unwrap().to_owned();
        Self {
            process,
            address: text("listening"),
            pin: text("pin"),
            said,
            log,
        }
    }

    /// Starts a server of files.
    pub(crate) fn of_files(directory: &impl AsRef<Path>, listen: &str, more: &[&str]) -> Self {
        let directory = directory.as_ref().to_str().unwrap();
        let serve = ["serve", "--dir", directory, "--listen", listen, "--json"];
        Self::of(pathmark(&[&serve, more].concat()))
    }

    /// Returns a client in a directory. In its command line, `@` is the address of this server.
    pub(crate) fn client(&self, here: &impl AsRef<Path>, line: &str) -> Command {
        let line = line.replace('@', &self.address);
        command(here, &format!("{line} --pin {}", self.pin))
    }

    pub(crate) fn run(&self, here: &impl AsRef<Path>, line: &str) -> Output {
        self.client(here, line).output().unwrap()
    }

    /// Returns the next log line that contains `word`, which must appear within `seconds`.
    #[track_caller]
    pub(crate) fn logged(&self, word: &str, seconds: u64) -> String {
        self.log.next_with(word, Duration::from_secs(seconds))
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
