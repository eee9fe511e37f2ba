//! Connections whose packets are opened on several threads.

use std::net::SocketAddr;
use std::sync::Arc;

use super::sending_tests::{client, transport};
use super::shared::Shared;
use super::unopened::Group;
use super::*;
use pathmark_transport::connection::Received;
use pathmark_transport::{Duration, Ecn};

const CLIENTS: usize = 8;
const BYTES: usize = 3_000_000;

fn server() -> Endpoint {
    server_with_places(64)
}

fn server_with_places(handshakes: usize) -> Endpoint {
    let crypto = Arc::new(testing::server(&[b"test"]));
    let mut config = ServerConfig::new(crypto, Arc::new(transport()));
    config.max_half_open(handshakes);
    Endpoint::server(config, loopback()).unwrap()
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn content(number: usize) -> Vec<u8> {
    (0..BYTES)
        .map(|at| ((at * (number + 3)) >> 7) as u8)
        .collect()
}

/// Sends its content at once, and waits until it has arrived.
async fn upload(server: SocketAddr, number: usize) {
    let endpoint = Endpoint::client(loopback()).unwrap();
    let connecting = endpoint.connect_with(client(transport()), server, "server.test");
    let connection = connecting.unwrap().await.unwrap();
    let mut stream = connection.open_uni().await.unwrap();
    stream.write_all(&[number as u8]).await.unwrap();
    stream.write_all(&content(number)).await.unwrap();
    stream.finish().unwrap();
    stream.stopped().await.unwrap();
}

/// Receives an upload and returns the number of its sender, or `None` if the connection ended
/// before it was complete.
async fn download(incoming: Incoming) -> Option<usize> {
    let connection = incoming.accept().ok()?.await.ok()?;
    let mut stream = connection.accept_uni().await.ok()?;
    let got = stream.read_to_end(BYTES + 1).await.ok()?;
    let (number, content_got) = got.split_first()?;
    assert_eq!(content_got, content(usize::from(*number)), "{number}");
    // Until the client knows that everything has arrived.
    connection.closed().await;
    Some(usize::from(*number))
}

/// Lets other tasks run until the condition holds.
async fn until(mut is_so: impl FnMut() -> bool) {
    let deadline = now() + Duration::from_secs(10);
    while !is_so() {
        assert!(now() < deadline, "never");
        tokio::task::yield_now().await;
    }
}

/// Several connections share the socket, and one client disappears midway. The data of the others
/// is complete, their own tasks have opened packets, and nothing is left in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn packets_of_many_connections_are_opened_by_their_tasks() {
    let server = server();
    let address = server.local_address();
    let gone = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint = Endpoint::client(loopback()).unwrap();
            let mut config = transport();
            config.max_idle_timeout = Some(Duration::from_secs(2));
            let connecting = endpoint.connect_with(client(config), address, "server.test");
            let connection = connecting.unwrap().await.unwrap();
            let mut stream = connection.open_uni().await.unwrap();
            stream.write_all(&content(0)[..BYTES / 2]).await.unwrap();
            // With the runtime, everything ends without a close.
            std::mem::forget((endpoint, connection, stream));
        });
    });
    let uploads: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(upload(address, number)))
        .collect();
    let mut downloads = Vec::new();
    for _ in 0..=CLIENTS {
        let incoming = server.accept().await.unwrap();
        downloads.push(tokio::spawn(download(incoming)));
    }
    let mut whole = Vec::new();
    for download in downloads {
        whole.extend(download.await.unwrap());
    }
    whole.sort_unstable();
    assert_eq!(whole, (0..CLIENTS).collect::<Vec<_>>());
    for upload in uploads {
        upload.await.unwrap();
    }
    gone.join().unwrap();
    server.wait_idle().await;
    let stats = server.stats();
    assert!(
        0 < stats.handed_over && stats.handed_over < stats.received,
        "{stats:?}"
    );
    // The tasks of connections drop their last datagrams as they end.
    until(|| server.shared.groups.held() == 0).await;
}

/// The task of one connection doesn't run. The data that waits for it is limited, the receiving
/// task opens the rest, and other connections continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_does_not_run_holds_up_no_other() {
    let server = server();
    let address = server.local_address();
    let endpoint = Endpoint::client(loopback()).unwrap();
    let connecting = endpoint.connect_with(client(transport()), address, "server.test");
    let connecting = tokio::spawn(connecting.unwrap());
    let incoming = server.accept().await.unwrap();
    let (stuck, runtime) = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let accepted = runtime.block_on(async { incoming.accept().unwrap().await.unwrap() });
        // From here on, its task doesn't run.
        (accepted, runtime)
    })
    .join()
    .unwrap();
    let peer = connecting.await.unwrap().unwrap();
    let shared = Arc::clone(stuck.shared());
    let received = Received {
        remote: peer.shared.endpoint.socket().local_address(),
        local: None,
        ecn: Ecn::NotEct,
        ttl: None,
    };
    let noise = || {
        let mut group = Group::default();
        while !group.add(received, &[0x55; 1200]) {}
        group
    };
    let opened = || stuck.stats().packets_dropped;
    let mut waits = 0;
    let refused = loop {
        match shared.inbox.push(noise()) {
            Ok(()) => waits += 1,
            Err(group) => break group,
        }
    };
    let held = server.shared.groups.held();
    assert!(waits > 0 && held < 2 << 20, "{waits} groups, {held} bytes");
    shared.receive_group(now(), refused);
    assert!(
        opened() >= (waits + 1) * 50,
        "{waits} groups, {} dropped",
        opened()
    );
    // The peer's own datagrams may have arrived after these.
    until(|| {
        shared.receive_group(now(), Group::default());
        server.shared.groups.held() == 0
    })
    .await;
    // Other connections, at the same socket.
    let uploading = tokio::spawn(upload(address, 5));
    let other = server.accept().await.unwrap();
    assert_eq!(download(other).await, Some(5));
    uploading.await.unwrap();
    drop((stuck, shared));
    std::thread::spawn(move || drop(runtime)).join().unwrap();
}

/// Holds a connection's lock on a separate thread, until the sender is dropped.
fn hold(shared: &Arc<Shared>) -> (std::sync::mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let shared = Arc::clone(shared);
    let (release, released) = std::sync::mpsc::channel();
    let (holds, held) = std::sync::mpsc::channel();
    let holder = std::thread::spawn(move || {
        let state = shared.lock();
        holds.send(()).unwrap();
        let _ = released.recv();
        drop(state);
    });
    held.recv().unwrap();
    (release, holder)
}

/// The lock of a connection in its handshake is held, as its task does while signing. Arriving
/// datagrams wait for it, and other connections continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_at_work_holds_up_no_other() {
    let server = server();
    let address = server.local_address();
    let endpoint = Endpoint::client(loopback()).unwrap();
    let connecting = endpoint.connect_with(client(transport()), address, "server.test");
    let connecting = connecting.unwrap();
    let incoming = server.accept().await.unwrap();
    // This keeps the handshake from completing before the server's lock is held.
    let (go_on, client_holder) = hold(connecting.shared());
    let connecting = tokio::spawn(connecting);
    let accepting = incoming.accept().unwrap();
    let (release, holder) = hold(accepting.shared());
    let waiting = || server.shared.groups.held();
    let before = waiting();
    drop(go_on);
    client_holder.join().unwrap();
    // The client's next packet waits: the rest of its handshake, or a repetition of its first
    // packet.
    until(|| waiting() > before).await;
    let uploading = tokio::spawn(upload(address, 5));
    let others = async { download(server.accept().await.unwrap()).await };
    let others = tokio::time::timeout(std::time::Duration::from_secs(30), others);
    assert_eq!(others.await.expect("others go on"), Some(5));
    uploading.await.unwrap();
    drop(release);
    holder.join().unwrap();
    let (begun, accepted) = (connecting.await.unwrap().unwrap(), accepting.await.unwrap());
    let mut stream = begun.open_uni().await.unwrap();
    stream.write_all(&[7; 100_000]).await.unwrap();
    stream.finish().unwrap();
    let mut arriving = accepted.accept_uni().await.unwrap();
    assert_eq!(arriving.read_to_end(100_000).await.unwrap().len(), 100_000);
    assert_eq!(stream.stopped().await, Ok(None));
}

/// The last message of a client's handshake waits for a task that doesn't run, and all places are
/// taken. A client from another address has to wait, too, and the first handshake is completed.
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_handshake_whose_last_message_waits_makes_no_room() {
    let server = server_with_places(2);
    let address = server.local_address();
    let greedy = Endpoint::client(loopback()).unwrap();
    let mut under_way = Vec::new();
    for n in 1..=2 {
        let connecting = greedy.connect_with(client(transport()), address, "server.test");
        let connecting = connecting.unwrap();
        let incoming = server.accept().await.unwrap();
        let (go_on, client_holder) = hold(connecting.shared());
        let accepting = incoming.accept().unwrap();
        // The server has answered.
        until(|| server.stats().handed_over == n).await;
        let (release, holder) = hold(accepting.shared());
        drop(go_on);
        client_holder.join().unwrap();
        until(|| !accepting.shared().inbox.is_empty()).await;
        under_way.push((release, holder, connecting, accepting));
    }
    let other = Endpoint::client("127.0.0.2:0".parse().unwrap()).unwrap();
    let other_end = other.connect_with(client(transport()), address, "server.test");
    let other_end = tokio::spawn(other_end.unwrap());
    until(|| server.stats().dropped_full > 0).await;
    for (release, holder, connecting, accepting) in under_way {
        drop(release);
        holder.join().unwrap();
        let ends = async { tokio::join!(connecting, accepting) };
        let (begun, accepted) = ends.await;
        begun.unwrap();
        accepted.unwrap();
    }
    let accepted = server.accept().await.unwrap().accept().unwrap();
    accepted.await.unwrap();
    other_end.await.unwrap().unwrap();
    assert_eq!(server.stats().evicted, 0);
}
