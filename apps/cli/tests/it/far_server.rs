//! A server at a distance of 600 ms: how long a command waits after its work is done.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pathmark_testbed::undisturbed;
use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::{Server, json, run, words};

const ONE_WAY: Duration = Duration::from_millis(300);

#[expect(clippy::disallowed_methods, reason = "a path in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Forwards datagrams that arrive at `from` by calling `send` after `one_way`. The threads end with
/// the process, because they only hold sockets.
fn pass(
    from: UdpSocket,
    one_way: Duration,
    mut note: impl FnMut(SocketAddr) + Send + 'static,
    send: impl Fn(&[u8]) + Send + 'static,
) {
    let (arrivals, queue) = channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buffer = [0; 65536];
        loop {
            // An ICMP error of an earlier packet is reported here, once.
            let Ok((length, sender)) = from.recv_from(&mut buffer) else {
                continue;
            };
            note(sender);
            let due = now() + one_way;
            if arrivals.send((due, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        let mut held: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        loop {
            let due = held.front().map(|(due, _)| *due);
            let wait = due.map(|due| due.saturating_duration_since(now()));
            match queue.recv_timeout(wait.unwrap_or(Duration::from_secs(1))) {
                Ok(arrived) => held.push_back(arrived),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Some((_, bytes)) = held.pop_front_if(|(due, _)| *due <= now()) {
                send(&bytes);
            }
        }
    });
}

/// Returns an address at which `server` is 600 ms away, for one client at a time.
fn far(server: &str) -> SocketAddr {
    away(server, ONE_WAY)
}

fn away(server: &str, one_way: Duration) -> SocketAddr {
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    let exit = UdpSocket::bind("127.0.0.1:0").unwrap();
    exit.connect(server).unwrap();
    let address = near.local_addr().unwrap();
    let client = Arc::new(Mutex::new(None));
    let known = Arc::clone(&client);
    let (to_server, to_client) = (exit.try_clone().unwrap(), near.try_clone().unwrap());
    let note = move |sender| *known.lock().unwrap() = Some(sender);
    // A closed socket refuses datagrams, which count as lost.
    pass(near, one_way, note, move |bytes| {
        drop(to_server.send(bytes));
    });
    let send = move |bytes: &[u8]| {
        let to = *client.lock().unwrap();
        let _ = to_client.send_to(bytes, to.unwrap());
    };
    pass(exit, one_way, |_| (), send);
    address
}

/// Runs a command until it has ended, and returns how long it took.
fn timed(line: &str) -> (Duration, serde_json::Value) {
    let begun = now();
    let output = run(&words(line));
    (begun.elapsed(), json(&output))
}

/// A handshake and a request of one round trip each take 1.2 s.
const WORK: Duration = Duration::from_millis(1200);
/// Target: 0.1 s. Processes start, and files reach the disk. A closed connection that lingers does
/// so for a probe timeout or more, which is 0.9 s.
const REST: Duration = Duration::from_millis(600);

#[test]
fn get_and_put_end_when_their_work_is_done() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    std::fs::write(there.path().join("a"), [7; 100]).unwrap();
    let source = here.path().join("b");
    std::fs::write(&source, [7; 100]).unwrap();
    let server = Server::offering(&there, "127.0.0.1:0", &["--allow-put"]);
    let (out, source, pin) = (here.path().display(), source.display(), &server.pin);
    undisturbed(|| {
        let address = far(&server.address);
        let get = format!("get {address}/a -o {out} --force --pin {pin} --json");
        let (time, said) = timed(&get);
        println!("get: {time:?}");
        assert!((WORK..WORK + REST).contains(&time), "get: {time:?} {said}");
        // The server learns about the end immediately rather than by its idle timeout.
        let sent = server.logged("sent", 5);
        assert!(sent.contains("bytes=100"), "{sent}");
        let address = far(&server.address);
        let put = format!("put {source} {address} --force --pin {pin} --json");
        let (time, said) = timed(&put);
        println!("put: {time:?}");
        assert!((WORK..WORK + REST).contains(&time), "put: {time:?} {said}");
    });
}

#[test]
fn perf_ends_with_its_bytes_and_its_server_hears_of_it() {
    let server = Server::start(&["perf", "server"]);
    undisturbed(|| {
        let address = far(&server.address);
        let client = format!("perf client {address} --pin {} --json", server.pin);
        for work in ["--download", "--upload"] {
            let (time, said) = timed(&format!("{client} {work} 100"));
            println!("perf {work}: {time:?}");
            // The server's report takes another round trip.
            let most = WORK + ONE_WAY * 2 + REST;
            assert!((WORK..most).contains(&time), "{work}: {time:?} {said}");
            server.logged("gone", 5);
        }
    });
}

/// A stream that has ended is replaced two round trips after it was opened.
#[test]
fn small_files_do_not_wait_for_streams() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    for n in 0..2500 {
        std::fs::write(here.path().join(n.to_string()), [7; 10]).unwrap();
    }
    let server = Server::offering(&there, "127.0.0.1:0", &["--allow-put"]);
    let near = away(&server.address, ONE_WAY / 4);
    let (source, pin) = (here.path().display(), &server.pin);
    let (time, said) = timed(&format!("put -r {source} {near}/ --pin {pin} --json"));
    println!("put -r: {time:?}, {}", said["bounded_by"]);
    assert_eq!(said["streams"], 2500);
    assert!(said["bounded_by"]["streams"].as_f64().unwrap() < 0.25);
}
