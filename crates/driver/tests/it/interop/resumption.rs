//! Resumed sessions (RFC 8446 §2.2), with clients and servers of either stack.

use super::support::peers::{Options, Returning, Server, Stack};

/// Connects, sends a request and gets the answer. Returns whether the handshake was resumed, as far
/// as an end of ours can tell.
pub(crate) async fn visit(client: &Returning, server: &Server) -> bool {
    let (client, accepted) = tokio::join!(client.connect(server.address()), server.accept());
    let accepted = accepted.unwrap();
    let answering = async {
        let (mut sender, mut receiver) = accepted.accept_bi().await.unwrap();
        let asked = receiver.read_to_end().await.unwrap();
        sender.write_all(&asked).await.unwrap();
        sender.finish().unwrap();
        sender.stopped().await.unwrap();
    };
    let asking = async {
        let (mut sender, mut receiver) = client.open_bi().await.unwrap();
        sender.write_all(b"a question").await.unwrap();
        sender.finish().unwrap();
        // Tickets are sent before the answer.
        assert_eq!(receiver.read_to_end().await.unwrap(), b"a question");
    };
    tokio::join!(answering, asking);
    if let Some(ours) = client.ours() {
        assert_eq!(ours.peer_certificates().len(), 1);
    }
    let ours = client.ours().or(accepted.ours()).unwrap();
    ours.handshake_data().resumed
}

/// The client's later connections are resumed if the server knows the session.
pub(crate) async fn resumes(stacks: (Stack, Stack)) {
    let options = Options::default();
    let server = Server::start(stacks.1, &options);
    let client = Returning::new(stacks.0, &options);
    assert!(!visit(&client, &server).await, "{stacks:?}");
    for _ in 0..5 {
        assert!(visit(&client, &server).await, "{stacks:?}");
    }
    // A server at another port that doesn't know these sessions.
    let other = Server::start(stacks.1, &options);
    assert!(!visit(&client, &other).await, "{stacks:?}");
    assert!(visit(&client, &other).await, "{stacks:?}");
}
