//! All ways in which a half of a stream can end, and the results of later calls: one table for
//! quinn and this library. If the two differ on purpose, the table contains both results.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::support::in_time;
use super::support::peers::{Connection, End, Options, Pair, STRANGERS, Stack};
use super::support::streams::{Fault, Receiver, Sender};

/// Waits for a call on an ended half. If it is to wait forever, this shows within the first time;
/// otherwise it resolves within the second.
async fn outcome(call: impl Future<Output = String>, want: &str) -> String {
    let millis = if want == "waits" { 500 } else { 10_000 };
    let outcome = tokio::time::timeout(Duration::from_millis(millis), call).await;
    outcome.unwrap_or_else(|_| "waits".to_owned())
}

fn fault(fault: &Fault) -> String {
    match fault {
        Fault::Stopped(code) => format!("stopped {code}"),
        Fault::Reset(code) => format!("reset {code}"),
        Fault::Closed => "closed".to_owned(),
        Fault::Lost(End::Application { code, .. }) => format!("lost {code}"),
        Fault::Lost(End::Local) => "lost here".to_owned(),
        Fault::Lost(end) => format!("{end:?}"),
    }
}

fn describe<T>(result: Result<T, Fault>, ok: impl FnOnce(T) -> String) -> String {
    result.map_or_else(|error| fault(&error), ok)
}

fn describe_io(result: io::Result<usize>) -> String {
    match result {
        Ok(bytes) => format!("{bytes} bytes"),
        Err(error) => format!("{:?}", error.kind()),
    }
}

fn code(code: Option<u64>) -> String {
    code.map_or_else(|| "none".to_owned(), |code| format!("code {code}"))
}

/// Calls on a sending half.
const SENDING: [&str; 7] = [
    "write",
    "write of nothing",
    "finish",
    "reset",
    "stopped",
    "AsyncWrite",
    "shutdown",
];

async fn send(call: &str, half: &mut Sender) -> String {
    match call {
        "write" => describe(half.write(b"more").await, |n| format!("{n} bytes")),
        "write of nothing" => describe(half.write(b"").await, |n| format!("{n} bytes")),
        "finish" => describe(half.finish(), |()| "ok".to_owned()),
        "reset" => describe(half.reset(9), |()| "ok".to_owned()),
        "stopped" => describe(half.stopped().await, code),
        "AsyncWrite" => describe_io(match half {
            Sender::Ours(half) => AsyncWriteExt::write(half, b"more").await,
            Sender::Quinn(half) => AsyncWriteExt::write(half, b"more").await,
        }),
        _ => describe_io(
            match half {
                Sender::Ours(half) => half.shutdown().await,
                Sender::Quinn(half) => half.shutdown().await,
            }
            .map(|()| 0),
        ),
    }
}

/// States of a sending half, each with the results of the calls of [`SENDING`].
const SENT: &str = "\
finished: closed, closed, closed, ok, none, NotConnected, NotConnected
finished and acknowledged: closed, closed, closed, closed, none, NotConnected, NotConnected
reset: closed, closed, closed, closed, none, NotConnected, NotConnected
finished and reset: closed, closed, closed, closed, none, NotConnected, NotConnected
reset and acknowledged: closed, closed, closed, closed, none, NotConnected, NotConnected
stopped there: stopped 7, stopped 7, ok, closed, code 7, ConnectionReset, ConnectionReset
closed by the peer: lost 3, lost 3, ok, ok, lost 3, NotConnected, NotConnected
closed here: lost here, lost here, ok, ok, lost here, NotConnected, NotConnected";

/// Brings a sending half of `subject` into this state.
async fn sender(state: &str, subject: &Connection, peer: &Connection) -> (Sender, Receiver) {
    let mut half = subject.open_uni().await.unwrap();
    half.write_all(b"begun").await.unwrap();
    let mut other = peer.accept_uni().await.unwrap();
    match state {
        "finished" => half.finish().unwrap(),
        "finished and acknowledged" => {
            half.finish().unwrap();
            assert_eq!(half.stopped().await, Ok(None));
        }
        "reset" => half.reset(8).unwrap(),
        "finished and reset" => {
            half.finish().unwrap();
            half.reset(8).unwrap();
        }
        "reset and acknowledged" => {
            half.reset(8).unwrap();
            while other.read_chunk().await != Err(Fault::Reset(8)) {}
            // The peer's next packet also carries the acknowledgement.
            let mut next = peer.open_uni().await.unwrap();
            next.write_all(b"next").await.unwrap();
            let mut next = subject.accept_uni().await.unwrap();
            assert_eq!(next.read_chunk().await.unwrap().unwrap(), "next");
        }
        "stopped there" => {
            other.stop(7).unwrap();
            assert_eq!(half.stopped().await, Ok(Some(7)));
        }
        "closed by the peer" => {
            peer.close(3, b"");
            subject.closed().await;
        }
        _ => subject.close(3, b""),
    }
    (half, other)
}

/// Calls on a receiving half.
const RECEIVING: [&str; 8] = [
    "read",
    "read of nothing",
    "read_chunk",
    "read_to_end",
    "stop",
    "received_reset",
    "AsyncRead",
    "AsyncRead of nothing",
];

async fn receive(call: &str, half: &mut Receiver) -> String {
    let bytes = |read: Option<usize>| read.map_or("end".to_owned(), |n| format!("{n} bytes"));
    match call {
        "read" => describe(half.read(&mut [0; 10]).await, bytes),
        "read of nothing" => describe(half.read(&mut []).await, bytes),
        "read_chunk" => {
            let chunk = half.read_chunk().await;
            describe(chunk, |chunk| bytes(chunk.map(|chunk| chunk.len())))
        }
        "read_to_end" => describe(half.read_to_end().await, |all| {
            format!("{} bytes", all.len())
        }),
        "stop" => describe(half.stop(9), |()| "ok".to_owned()),
        "received_reset" => describe(half.received_reset().await, code),
        "AsyncRead" => describe_io(half.read_io(&mut [0; 10]).await),
        _ => describe_io(half.read_io(&mut []).await),
    }
}

/// States of a receiving half, each with the results of the calls of [`RECEIVING`].
const RECEIVED: &str = "\
read to the end: end, 0 bytes, end, 0 bytes, closed, none, 0 bytes, 0 bytes
complete and unread: 5 bytes, 0 bytes, 5 bytes, 5 bytes, ok, none, 5 bytes, 0 bytes
reset and read: reset 8, 0 bytes, reset 8, reset 8, closed, code 8, ConnectionReset, 0 bytes
reset and reported: reset 8, 0 bytes, reset 8, reset 8, closed, code 8, ConnectionReset, 0 bytes
stopped here: closed, 0 bytes, closed, closed, closed, none, NotConnected, 0 bytes
stopped here and ended: closed, 0 bytes, closed, closed, closed, none, NotConnected, 0 bytes
read to the end, then closed: end, 0 bytes, end, 0 bytes, closed, none, 0 bytes, 0 bytes
closed by the peer: lost 3, 0 bytes, lost 3, lost 3, ok, lost 3, NotConnected, 0 bytes";

/// Returns the states of a table, each with the calls and their results.
fn rows<const N: usize>(
    table: &'static str,
    calls: [&'static str; N],
) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    table.lines().flat_map(move |line| {
        let (state, outcomes) = line.split_once(": ").unwrap();
        let calls = calls.into_iter().zip(outcomes.split(", "));
        calls.map(move |(call, ours)| (state, call, ours))
    })
}

/// Brings a receiving half of `subject` into this state.
async fn receiver(state: &str, subject: &Connection, peer: &Connection) -> (Receiver, Sender) {
    let mut other = peer.open_uni().await.unwrap();
    other.write_all(b"begun").await.unwrap();
    let mut half = subject.accept_uni().await.unwrap();
    match state {
        "read to the end" | "read to the end, then closed" => {
            other.finish().unwrap();
            assert_eq!(half.read_to_end().await.unwrap(), b"begun");
            if state.ends_with("closed") {
                peer.close(3, b"");
                subject.closed().await;
            }
        }
        "complete and unread" => {
            other.finish().unwrap();
            // The acknowledgement shows that everything has arrived.
            assert_eq!(other.stopped().await, Ok(None));
        }
        "reset and read" => {
            other.reset(8).unwrap();
            while half.read_chunk().await != Err(Fault::Reset(8)) {}
        }
        "reset and reported" => {
            other.reset(8).unwrap();
            assert_eq!(half.received_reset().await, Ok(Some(8)));
        }
        "stopped here" => half.stop(7).unwrap(),
        "stopped here and ended" => {
            half.stop(7).unwrap();
            assert_eq!(other.stopped().await, Ok(Some(7)));
        }
        _ => {
            assert_eq!(half.read_chunk().await.unwrap().unwrap(), "begun");
            peer.close(3, b"");
            subject.closed().await;
        }
    }
    (half, other)
}

/// The results that differ in quinn 0.11: state, call, and result.
const OTHERWISE: [(&str, &str, &str); 24] = [
    // Its future of the end misses an acknowledgement that arrives later.
    ("reset", "stopped", "waits"),
    ("finished and reset", "stopped", "waits"),
    // A part that the peer stopped can still be reset, without any effect.
    ("stopped there", "reset", "ok"),
    ("stopped there", "shutdown", "0 bytes"),
    // The same applies to parts of a connection that is over.
    ("closed by the peer", "shutdown", "0 bytes"),
    ("closed here", "shutdown", "0 bytes"),
    // It waits until the data is read.
    ("complete and unread", "received_reset", "waits"),
    // After the error, a reset looks like a clean end, so that a wrapper may miss a truncation.
    ("reset and read", "read", "end"),
    ("reset and read", "read_chunk", "end"),
    ("reset and read", "read_to_end", "0 bytes"),
    ("reset and read", "AsyncRead", "0 bytes"),
    // The code is only reported once.
    ("reset and reported", "read", "closed"),
    ("reset and reported", "read_chunk", "closed"),
    ("reset and reported", "read_to_end", "closed"),
    ("reset and reported", "received_reset", "none"),
    ("reset and reported", "AsyncRead", "NotConnected"),
    // A local stop looks like a clean end, too.
    ("stopped here", "read", "end"),
    ("stopped here", "read_chunk", "end"),
    ("stopped here", "read_to_end", "0 bytes"),
    ("stopped here", "AsyncRead", "0 bytes"),
    ("stopped here and ended", "read", "end"),
    ("stopped here and ended", "read_chunk", "end"),
    ("stopped here and ended", "read_to_end", "0 bytes"),
    ("stopped here and ended", "AsyncRead", "0 bytes"),
];

fn expected<'a>(stack: Stack, state: &str, call: &str, ours: &'a str) -> &'a str {
    let is_this = |entry: &&(&str, &str, &str)| entry.0 == state && entry.1 == call;
    match stack {
        Stack::Quinn => OTHERWISE.iter().find(is_this).map_or(ours, |entry| entry.2),
        Stack::Ours => ours,
    }
}

#[test]
fn each_end_of_a_half_answers_each_call() {
    in_time(async {
        let mut wrong = Vec::new();
        for stacks in STRANGERS {
            let mut check = |state: &str, call: &str, got: String, want: &str| {
                if got != want {
                    let stack = stacks.0;
                    wrong.push(format!("{stack:?}: {state}, {call}: {got}, not {want}"));
                }
            };
            let mut pair = Pair::new(stacks, &Options::default()).await;
            for (state, call, ours) in rows(SENT, SENDING) {
                if pair.client.close_reason().is_some() {
                    pair = Pair::new(stacks, &Options::default()).await;
                }
                let (mut half, _other) = sender(state, &pair.client, &pair.server).await;
                let want = expected(stacks.0, state, call, ours);
                check(
                    state,
                    call,
                    outcome(send(call, &mut half), want).await,
                    want,
                );
            }
            for (state, call, ours) in rows(RECEIVED, RECEIVING) {
                if pair.client.close_reason().is_some() {
                    pair = Pair::new(stacks, &Options::default()).await;
                }
                let (mut half, _other) = receiver(state, &pair.client, &pair.server).await;
                let want = expected(stacks.0, state, call, ours);
                check(
                    state,
                    call,
                    outcome(receive(call, &mut half), want).await,
                    want,
                );
                // Call it again, because the end must be permanent.
                let again = match (state, call) {
                    ("complete and unread", "read" | "read_chunk") => "end",
                    ("complete and unread", "read_to_end" | "AsyncRead") => "0 bytes",
                    (_, "stop") => "closed",
                    _ => ours,
                };
                let want = expected(stacks.0, state, call, again);
                check(
                    state,
                    call,
                    outcome(receive(call, &mut half), want).await,
                    want,
                );
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
