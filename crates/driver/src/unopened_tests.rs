//! Connections whose packets are opened on several threads.

use std::net::SocketAddr;
use std::sync::Arc;

use super::shared::Shared;
use super::testing::{
    NAME, client, connect, endpoint, loopback, received_from, server, server_config, soon,
    transport, until,
};
use super::unopened::Group;
use super::*;
use pathmark_transport::Duration;

const CLIENTS: usize = 8;
const BYTES: usize = 3_000_000;

fn server_with_places(handshakes: usize) -> Endpoint {
    let mut config = server_config();
    config.max_half_open(handshakes);
    Endpoint::server(config, loopback()).unwrap()
}

fn content(number: usize) -> Vec<u8> {
    let byte = |at| ((at * (number + 3)) >> 7) as u8;
    (0..BYTES).map(byte).collect()
}

/// Sends its content at once, and waits until it has arrived.
async fn upload(server: SocketAddr, number: usize) {
    let endpoint = endpoint();
    let connecting = endpoint.connect_with(client(transport()), server, NAME);
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
            let endpoint = endpoint();
            let mut config = transport();
            config.max_idle_timeout = Some(Duration::from_secs(2));
            let connecting = endpoint.connect_with(client(config), address, NAME);
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
    let is_a_part = 0 < stats.handed_over && stats.handed_over < stats.received;
    assert!(is_a_part, "{stats:?}");
    // The tasks of connections drop their last datagrams as they end.
    until("what waited", || server.shared.groups.held() == 0).await;
}

/// The task of one connection doesn't run. The data that waits for it is limited, the receiving
/// task opens the rest, and other connections continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_does_not_run_holds_up_no_other() {
    let server = server();
    let address = server.local_address();
    let endpoint = endpoint();
    let connecting = tokio::spawn(connect(&endpoint, &server));
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
    let received = received_from(peer.shared.endpoint.socket().local_address());
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
    let dropped = opened();
    assert!(
        dropped >= (waits + 1) * 50,
        "{waits} groups, {dropped} dropped"
    );
    // The peer's own datagrams may have arrived after these.
    let all_opened = || {
        shared.receive_group(now(), Group::default());
        server.shared.groups.held() == 0
    };
    until("the peer's own datagrams", all_opened).await;
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
    let endpoint = endpoint();
    let connecting = connect(&endpoint, &server);
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
    until("the next packet", || waiting() > before).await;
    let uploading = tokio::spawn(upload(address, 5));
    let others = async { download(server.accept().await.unwrap()).await };
    assert_eq!(soon("others", others).await, Some(5));
    uploading.await.unwrap();
    drop(release);
    holder.join().unwrap();
    let ends = (connecting.await.unwrap().unwrap(), accepting.await.unwrap());
    testing::upload(&ends, 100_000).await;
}

/// The last message of a client's handshake waits for a task that doesn't run, and all places are
/// taken. A client from another address has to wait, too, and the first handshake is completed.
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn a_handshake_whose_last_message_waits_makes_no_room() {
    let server = server_with_places(2);
    let greedy = endpoint();
    let mut under_way = Vec::new();
    for n in 1..=2 {
        let connecting = connect(&greedy, &server);
        let incoming = server.accept().await.unwrap();
        let (go_on, client_holder) = hold(connecting.shared());
        let accepting = incoming.accept().unwrap();
        // The server has answered.
        until("an answer", || server.stats().handed_over == n).await;
        let (release, holder) = hold(accepting.shared());
        drop(go_on);
        client_holder.join().unwrap();
        until("a last message", || !accepting.shared().inbox.is_empty()).await;
        under_way.push((release, holder, connecting, accepting));
    }
    let other = Endpoint::client("127.0.0.2:0".parse().unwrap()).unwrap();
    let other_end = tokio::spawn(connect(&other, &server));
    until("a refusal", || server.stats().dropped_full > 0).await;
    for (release, holder, connecting, accepting) in under_way {
        drop(release);
        holder.join().unwrap();
        tokio::try_join!(connecting, accepting).unwrap();
    }
    let accepted = server.accept().await.unwrap().accept().unwrap();
    accepted.await.unwrap();
    other_end.await.unwrap().unwrap();
    assert_eq!(server.stats().evicted, 0);
}
