//! Slow work only delays the tasks that need it: signatures and their verification, and system
//! calls.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::shared::Shared;
use super::testing::*;
use super::*;
use pathmark_transport::crypto::tls::TlsServerConfig;

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
        let waits = |is_open: &mut bool| !*is_open;
        let waited = self.opened.wait_timeout_while(is_open, LONGEST, waits);
        if waited.unwrap().1.timed_out() {
            self.late.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until `sessions` sessions have reached the gate.
    async fn reached(&self, sessions: usize) {
        let is_so = || self.reached.load(Ordering::Relaxed) >= sessions;
        until("a handshake at work", is_so).await;
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
fn slow_server(tls: TlsServerConfig, sessions: usize, reads: usize) -> (Endpoint, Opener) {
    let (crypto, opener) = slow(tls, sessions, reads);
    let mut config = ServerConfig::with_transport(crypto, Arc::new(transport()));
    config.max_half_open(2);
    (Endpoint::server(config, loopback()).unwrap(), opener)
}

/// Connects `endpoint` to `server`, transfers data, and closes the connection.
async fn goes_on(endpoint: &Endpoint, server: &Endpoint) {
    let others = async {
        let ends = both(connect(endpoint, server), server).await;
        upload(&ends, 100_000).await;
    };
    soon("others", others).await;
}

/// Opens the gate, and waits until both ends of a handshake have completed it.
async fn completes(opener: Opener, connecting: Connecting, accepted: Connecting) {
    drop(opener);
    let both = async { tokio::try_join!(connecting, accepted) };
    soon("an end", both).await.unwrap();
}

/// The task that accepts clients never signs, because this would delay other clients. This holds
/// even if the first packet decides whether early data is accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_accepts_does_not_sign() {
    for tls in [server_tls(), server_tls().with_early_data(10)] {
        let (server, opener) = slow_server(tls, 1, 0);
        let endpoint = endpoint();
        let connecting = connect(&endpoint, &server);
        let incoming = server.accept().await.unwrap();
        let accepting = tokio::task::spawn_blocking(move || incoming.accept().unwrap());
        let accepted = soon("accept", accepting).await.unwrap();
        opener.0.reached(1).await;
        goes_on(&endpoint, &server).await;
        completes(opener, connecting, accepted).await;
    }
}

/// While a server's handshake processes the client's last message, other connections continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_receives_for_a_server_waits_for_no_handshake() {
    let (server, opener) = slow_server(server_tls(), 1, 1);
    let endpoint = endpoint();
    let connecting = connect(&endpoint, &server);
    let accepted = server.accept().await.unwrap().accept().unwrap();
    opener.0.reached(1).await;
    goes_on(&endpoint, &server).await;
    completes(opener, connecting, accepted).await;
}

/// While a client verifies the server's signature, other connections of its endpoint continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_receives_for_a_client_waits_for_no_handshake() {
    let (server, endpoint) = (server(), endpoint());
    let (crypto, opener) = slow(client_tls(), 1, 0);
    let config = ClientConfig::with_transport(crypto, Arc::new(transport()));
    let connecting = connect_with(&endpoint, &server, config);
    let accepted = server.accept().await.unwrap().accept().unwrap();
    opener.0.reached(1).await;
    goes_on(&endpoint, &server).await;
    completes(opener, connecting, accepted).await;
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
    let (server, opener) = slow_server(server_tls(), 2, 0);
    let greedy = endpoint();
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
    let (server, opener) = slow_server(server_tls(), 2, 1);
    let greedy = endpoint();
    let under_way = two_at_work(&greedy, &server, &opener).await;
    let endpoint = Endpoint::client("127.0.0.2:0".parse().unwrap()).unwrap();
    let other = tokio::spawn(connect(&endpoint, &server));
    until("a place is kept", || server.stats().dropped_full > 0).await;
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
    let (server, endpoint) = (server(), endpoint());
    let (connection, accepted) = both(connect(&endpoint, &server), &server).await;
    connection.confirmed().await.unwrap();
    MOVING.set(Some(Arc::clone(connection.shared())));
    endpoint.shared.interfaces.on_ask(|| {
        let is_free = MOVING.with_borrow(|moving| !moving.as_ref().unwrap().is_locked());
        FREE.with_borrow_mut(|free| free.push(is_free));
    });
    for _ in 0..2 {
        rebind(&endpoint);
        let now = endpoint.local_address();
        until("the move", || accepted.remote_address() == now).await;
    }
    // The cached values are discarded and queried again.
    assert_eq!(FREE.take(), [true, true]);
    MOVING.set(None);
}
