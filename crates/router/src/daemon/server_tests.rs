//! Clients of a server whose turns the test performs itself.

use std::path::PathBuf;
use std::thread::JoinHandle;

use super::*;
use crate::daemon::questions;
use crate::daemon::questions::{ControlServer, Request};
use crate::daemon::snapshot::{LinkView, Snapshot};
use crate::tun::LinkState;

/// Answers every request with a state of `size` bytes until the server is gone.
fn router(control: ControlServer, size: usize) -> JoinHandle<usize> {
    // Only once, because the kernel's delay does not belong to this test.
    let watch = Watch::loopback();
    std::thread::spawn(move || {
        let mut snapshots = 0;
        let mut fds = vec![sys::readable(control.wake_fd().as_raw_fd())];
        while sys::wait(&mut fds, None).is_ok() && fds[0].revents & libc::POLLHUP == 0 {
            for request in control.requests() {
                let Request::Snapshot(reply) = request else {
                    continue;
                };
                snapshots += 1;
                let mut link = LinkView::default();
                (link.name, link.watch) = ("x".repeat(size), Some(watch.clone()));
                let snapshot = Snapshot {
                    links: vec![link],
                    ..Snapshot::default()
                };
                reply.send(snapshot).unwrap();
            }
            control.answered();
        }
        snapshots
    })
}

fn connected(server: &mut Server, path: &std::path::Path, count: usize) -> Vec<UnixStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(UnixStream::connect(path).unwrap());
        server.turn().unwrap();
    }
    streams
}

/// Performs turns until no client waits for the router any more.
fn turn_until_answered(server: &mut Server) {
    server.turn().unwrap();
    while server.clients.iter().any(|client| client.waits) {
        server.turn().unwrap();
    }
}

/// All that the server sends to a client.
fn answer(mut stream: UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A server at the returned path, and the router's end, which nobody serves.
fn unanswered(dir: &tempfile::TempDir) -> (Server, ControlServer, PathBuf) {
    let (control, client) = questions::pair().unwrap();
    let path = dir.path().join("sock");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = Server::new(vec![Listener::Unix(listener)], client);
    (server, control, path)
}

fn server(dir: &tempfile::TempDir, size: usize) -> (Server, JoinHandle<usize>, PathBuf) {
    let (server, control, path) = unanswered(dir);
    (server, router(control, size), path)
}

/// Unread answers may take at most the budget; the oldest clients are closed first.
#[test]
fn unread_answers_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, router, path) = server(&dir, UNREAD / 8);
    let mut streams = Vec::new();
    for _ in 0..20 {
        // A client that asks late would be closed for its silence on a slow machine.
        streams.extend(connected(&mut server, &path, 1));
        streams.last_mut().unwrap().write_all(b"json\n").unwrap();
        turn_until_answered(&mut server);
    }
    let unread: usize = server.clients.iter().map(Client::unread).sum();
    assert!(unread <= UNREAD, "{unread}");
    let clients = server.clients.len();
    assert!((6..=8).contains(&clients), "{clients}");
    drop(server);
    assert!(router.join().unwrap() >= 20);
}

/// Simultaneous requests cost the router one answer.
#[test]
fn one_look_at_the_router_serves_all_who_ask_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, router, path) = server(&dir, 10);
    let mut streams = connected(&mut server, &path, 40);
    for (index, stream) in streams.iter_mut().enumerate() {
        let line: &[u8] = [&b"json\n"[..], b"metrics\n"][index % 2];
        stream.write_all(line).unwrap();
    }
    turn_until_answered(&mut server);
    let answers: Vec<_> = streams.into_iter().map(answer).collect();
    drop(server);
    assert_eq!(router.join().unwrap(), 1);
    for (index, answer) in answers.iter().enumerate() {
        assert!(answer.starts_with(["{", "# HELP"][index % 2]), "{answer}");
    }
}

/// While the forwarding thread is stalled, a request that does not need it must be answered, and
/// all that do must fail after 1 s, together and not one after the other.
#[test]
fn a_stalled_router_delays_no_other_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, control, path) = unanswered(&dir);
    let mut streams = connected(&mut server, &path, 12);
    let mut wrong = streams.remove(0);
    let start = now();
    for (index, stream) in streams.iter_mut().enumerate() {
        let line: &[u8] = [&b"json\n"[..], b"metrics\n", b"capacity wan 8Mbit\n"][index % 3];
        stream.write_all(line).unwrap();
        // The client may close its sending side.
        stream.shutdown(Shutdown::Write).unwrap();
        server.turn().unwrap();
    }
    wrong.write_all(b"nonsense\n").unwrap();
    server.turn().unwrap();
    let soon = now() - start;
    assert!(soon < Duration::from_millis(900), "{soon:?}");
    let mut text = [0; 1000];
    let len = wrong.read(&mut text).unwrap();
    assert!(text[..len].starts_with(b"{\"error\""));
    turn_until_answered(&mut server);
    let took = now() - start;
    let range = Duration::from_secs(1)..Duration::from_secs(2);
    assert!(range.contains(&took), "{took:?}");
    let silent = "{\"error\":\"the router does not answer\"}\n";
    for stream in streams {
        assert_eq!(answer(stream), silent);
    }
    // Once it runs again, it must answer.
    drop(control.requests().collect::<Vec<_>>());
    let mut late = connected(&mut server, &path, 1).remove(0);
    late.write_all(b"json\n").unwrap();
    server.turn().unwrap();
    for request in control.requests() {
        if let Request::Snapshot(reply) = request {
            reply.send(Snapshot::default()).unwrap();
        }
    }
    control.answered();
    turn_until_answered(&mut server);
    let text = answer(late);
    let state = text.starts_with("{\"") && !text.contains("error\":\"the");
    assert!(state, "{text}");
}

/// The kernel blocks a query about interfaces while other programs change theirs. Clients must
/// be answered meanwhile, and see interfaces again once the query returns.
#[test]
fn a_kernel_that_does_not_answer_delays_no_client() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, router, path) = server(&dir, 1);
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let look = move |_: &Watch| {
        // Waits until the other side is gone.
        let _ = held.lock().unwrap().recv();
        Some(LinkState {
            name: "lo".to_owned(),
            ..LinkState::default()
        })
    };
    server.questions.ask_kernel(look).unwrap();
    let mut interfaces = |count: usize| {
        let begun = now();
        let mut streams = connected(&mut server, &path, count);
        for stream in &mut streams {
            stream.write_all(b"json\n").unwrap();
        }
        turn_until_answered(&mut server);
        let answers = streams.into_iter().map(|stream| {
            let state: serde_json::Value = serde_json::from_str(&answer(stream)).unwrap();
            state["links"][0]["interface"].as_str().unwrap().to_owned()
        });
        (answers.collect::<Vec<_>>(), begun.elapsed())
    };
    for clients in [1, 3, 20] {
        let (answers, took) = interfaces(clients);
        assert_eq!(answers, vec![""; clients]);
        assert!(took < PATIENCE, "{took:?}");
    }
    drop(let_go);
    // A reply to an earlier request may arrive first and is discarded.
    let until = now() + Duration::from_secs(30);
    let mut names = std::iter::repeat_with(|| interfaces(2).0).take_while(|_| now() < until);
    assert!(names.any(|names| names == ["lo", "lo"]));
    drop(server);
    router.join().unwrap();
}
