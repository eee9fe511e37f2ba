//! Slow work only delays the tasks that need it: signatures and their verification, and system
//! calls.

use std::cell::RefCell;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::sending_tests::{client, transport};
use super::shared::Shared;
use super::testing::{Hooks, Tampered};
use super::*;
use pathmark_transport::crypto::tls::TlsServerConfig;

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(Duration::from_secs(20), future).await;
    done.unwrap_or_else(|_| panic!("{what}: it waits"))
}

/// Longest time that a session waits if its blocked thread would also block the test.
const LONGEST: Duration = Duration::from_secs(30);

/// A gate at which sessions wait until it is opened.
#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    /// A session has waited for too long.
    late: AtomicBool,
    /// Sessions that have reached the gate.
    reached: AtomicUsize,
}

impl Gate {
    fn pass(&self) {
        self.reached.fetch_add(1, Ordering::Relaxed);
        let is_open = self.is_open.lock().unwrap();
        let waited = self
            .opened
            .wait_timeout_while(is_open, LONGEST, |is_open| !*is_open);
        if waited.unwrap().1.timed_out() {
            self.late.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until `sessions` sessions have reached the gate.
    async fn reached(&self, sessions: usize) {
        let all = async {
            while self.reached.load(Ordering::Relaxed) < sessions {
                tokio::task::yield_now().await;
            }
        };
        soon("a handshake at work", all).await;
    }
}

/// Opens the gate when dropped, so that it also opens if a test fails.
struct Opener(Arc<Gate>);

impl Drop for Opener {
    fn drop(&mut self) {
        *self.0.is_open.lock().unwrap() = true;
        self.0.opened.notify_all();
        let is_late = self.0.late.load(Ordering::Relaxed);
        assert!(!is_late || std::thread::panicking(), "others wait for it");
    }
}

/// TLS whose first `slow` sessions wait at the gate after reading `reads` times.
fn slow<T>(tls: T, slow: usize, reads: usize) -> (Arc<Tampered<T>>, Opener) {
    let gate = Arc::new(Gate::default());
    let opener = Opener(Arc::clone(&gate));
    let slow = AtomicUsize::new(slow);
    let begin = move || {
        let order = Ordering::Relaxed;
        let left = slow.fetch_update(order, order, |n| n.checked_sub(1));
        let (mut reads, gate) = (reads, Arc::clone(&gate));
        left.is_ok().then(|| Hooks {
            before_read: Box::new(move || match reads.checked_sub(1) {
                Some(left) => reads = left,
                None => gate.pass(),
            }),
            keys: |keys| keys,
        })
    };
    (Tampered::new(tls, begin), opener)
}

/// Returns a server whose first `sessions` handshakes wait after reading `reads` times.
fn server(tls: TlsServerConfig, sessions: usize, reads: usize) -> (Endpoint, Opener) {
    let (crypto, opener) = slow(tls, sessions, reads);
    let mut config = ServerConfig::new(crypto, Arc::new(transport()));
    config.max_half_open(2);
    (Endpoint::server(config, loopback()).unwrap(), opener)
}

fn tls() -> TlsServerConfig {
    testing::server(&[b"test"])
}

fn connect(endpoint: &Endpoint, server: &Endpoint) -> Connecting {
    let config = client(transport());
    let connecting = endpoint.connect_with(config, server.local_address(), "server.test");
    connecting.unwrap()
}

/// Connects `endpoint` to `server`, transfers data, and closes the connection.
async fn goes_on(endpoint: &Endpoint, server: &Endpoint) {
    let uploading = async {
        let connection = connect(endpoint, server).await.unwrap();
        let mut stream = connection.open_uni().await.unwrap();
        stream.write_all(&[7; 100_000]).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let reading = async {
        let accepted = server.accept().await.unwrap().accept().unwrap();
        let connection = accepted.await.unwrap();
        let mut stream = connection.accept_uni().await.unwrap();
        let all = stream.read_to_end(100_000).await.unwrap();
        assert_eq!(all.len(), 100_000);
        connection.closed().await;
    };
    soon("others", async { tokio::join!(uploading, reading) }).await;
}

/// The task that accepts clients never signs, because this would delay other clients. This holds
/// even if the first packet decides whether early data is accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_accepts_does_not_sign() {
    for tls in [tls(), tls().with_early_data(10)] {
        let (server, opener) = server(tls, 1, 0);
        let endpoint = Endpoint::client(loopback()).unwrap();
        let connecting = connect(&endpoint, &server);
        let incoming = server.accept().await.unwrap();
        let accepting = tokio::task::spawn_blocking(move || incoming.accept().unwrap());
        let accepted = soon("accept", accepting).await.unwrap();
        opener.0.reached(1).await;
        goes_on(&endpoint, &server).await;
        drop(opener);
        let (begun, accepted) = tokio::join!(connecting, accepted);
        begun.unwrap();
        accepted.unwrap();
    }
}

/// While a server's handshake processes the client's last message, other connections continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_receives_for_a_server_waits_for_no_handshake() {
    let (server, opener) = server(tls(), 1, 1);
    let endpoint = Endpoint::client(loopback()).unwrap();
    let connecting = connect(&endpoint, &server);
    let accepted = server.accept().await.unwrap().accept().unwrap();
    opener.0.reached(1).await;
    goes_on(&endpoint, &server).await;
    drop(opener);
    let (begun, accepted) = tokio::join!(connecting, accepted);
    begun.unwrap();
    accepted.unwrap();
}

/// While a client verifies the server's signature, other connections of its endpoint continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_receives_for_a_client_waits_for_no_handshake() {
    let (server, _) = server(tls(), 0, 0);
    let (crypto, opener) = slow(testing::client(&[b"test"]), 1, 0);
    let config = ClientConfig::new(crypto, Arc::new(transport()));
    let endpoint = Endpoint::client(loopback()).unwrap();
    let connecting = endpoint.connect_with(config, server.local_address(), "server.test");
    let accepted = server.accept().await.unwrap().accept().unwrap();
    opener.0.reached(1).await;
    goes_on(&endpoint, &server).await;
    drop(opener);
    let (begun, accepted) = tokio::join!(connecting.unwrap(), accepted);
    begun.unwrap();
    accepted.unwrap();
}

/// Starts two handshakes that take all places, each at the step at which the server is slow.
async fn two_at_work(
    greedy: &Endpoint,
    server: &Endpoint,
    opener: &Opener,
) -> Vec<(Connecting, Connecting)> {
    let mut under_way = Vec::new();
    for n in 1..=2 {
        let connecting = connect(greedy, server);
        let accepted = server.accept().await.unwrap().accept().unwrap();
        opener.0.reached(n).await;
        under_way.push((connecting, accepted));
    }
    under_way
}

/// A handshake in progress has to make room for a client from another address, which is accepted
/// immediately.
#[tokio::test(flavor = "multi_thread", worker_threads = 5)]
async fn a_handshake_at_work_makes_room() {
    let (server, opener) = server(tls(), 2, 0);
    let greedy = Endpoint::client(loopback()).unwrap();
    let under_way = two_at_work(&greedy, &server, &opener).await;
    let endpoint = Endpoint::client("127.0.0.2:0".parse().unwrap()).unwrap();
    goes_on(&endpoint, &server).await;
    drop(opener);
    let mut ends = Vec::new();
    for (connecting, accepted) in under_way {
        let (_, accepted) = soon("an end", async { tokio::join!(connecting, accepted) }).await;
        ends.push(accepted.is_ok());
    }
    assert_eq!(ends, [false, true], "the oldest has made room");
}

/// Clients whose last message is being read keep their places. A client from another address has to
/// wait for this, and is accepted afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 5)]
async fn a_handshake_whose_last_message_is_being_read_makes_no_room() {
    let (server, opener) = server(tls(), 2, 1);
    let greedy = Endpoint::client(loopback()).unwrap();
    let under_way = two_at_work(&greedy, &server, &opener).await;
    let endpoint = Endpoint::client("127.0.0.2:0".parse().unwrap()).unwrap();
    let other = tokio::spawn(connect(&endpoint, &server));
    let dropped = async {
        while server.stats().dropped_full == 0 {
            tokio::task::yield_now().await;
        }
    };
    soon("a place is kept", dropped).await;
    drop(opener);
    for (connecting, accepted) in under_way {
        let (begun, accepted) = soon("an end", async { tokio::join!(connecting, accepted) }).await;
        begun.unwrap();
        accepted.unwrap();
    }
    let accepted = soon("the other", server.accept()).await.unwrap().accept();
    accepted.unwrap().await.unwrap();
    other.await.unwrap().unwrap();
    assert_eq!(server.stats().evicted, 0);
}

thread_local! {
    static MOVING: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
    static FREE: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
}

/// While the system is queried for the MTU of interfaces, no task that needs the connection waits.
#[tokio::test]
async fn a_connection_that_moves_asks_the_system_without_its_lock() {
    let (server, _) = server(tls(), 0, 0);
    let endpoint = Endpoint::client(loopback()).unwrap();
    let connecting = connect(&endpoint, &server);
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    let (connection, accepted) = tokio::try_join!(connecting, accepting).unwrap();
    connection.confirmed().await.unwrap();
    MOVING.set(Some(Arc::clone(connection.shared())));
    endpoint.shared.interfaces.on_ask(|| {
        let is_free = MOVING.with_borrow(|moving| !moving.as_ref().unwrap().is_locked());
        FREE.with_borrow_mut(|free| free.push(is_free));
    });
    for _ in 0..2 {
        endpoint
            .rebind(UdpSocket::bind(loopback()).unwrap())
            .unwrap();
        let moved = async {
            while accepted.remote_address() != endpoint.local_address() {
                tokio::task::yield_now().await;
            }
        };
        soon("the move", moved).await;
    }
    // The cached values are discarded and queried again.
    assert_eq!(FREE.take(), [true, true]);
    MOVING.set(None);
}
