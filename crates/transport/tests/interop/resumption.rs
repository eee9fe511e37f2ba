//! Sessions that are resumed (RFC 8446 §2.2), by either stack's client at either stack's server.

use std::net::SocketAddr;

use pathmark_transport::driver;

use crate::support::peers::{Connection, NAME, Options, Server, Stack, loopback};

/// A client that remembers sessions from one connection to the next.
enum Rememberer {
    Ours(driver::Endpoint, driver::ClientConfig),
    Quinn(quinn::Endpoint, quinn::ClientConfig),
}

impl Rememberer {
    fn new(stack: Stack, options: &Options) -> Self {
        match stack {
            Stack::Ours => {
                let endpoint = driver::Endpoint::client(loopback()).unwrap();
                Self::Ours(endpoint, options.our_client())
            }
            Stack::Quinn => {
                let endpoint = quinn::Endpoint::client(loopback()).unwrap();
                Self::Quinn(endpoint, options.quinn_client())
            }
        }
    }

    async fn connect(&self, server: SocketAddr) -> Connection {
        match self {
            Self::Ours(endpoint, config) => {
                let connecting = endpoint.connect(config.clone(), server, NAME).unwrap();
                Connection::Ours(connecting.await.unwrap())
            }
            Self::Quinn(endpoint, config) => {
                let connecting = endpoint.connect_with(config.clone(), server, NAME).unwrap();
                Connection::Quinn(connecting.await.unwrap())
            }
        }
    }

    /// Connects, asks and is answered; whether the handshake was resumed, as far as one of ours
    /// knows it.
    async fn visit(&self, server: &Server) -> bool {
        let (client, accepted) = tokio::join!(self.connect(server.address()), server.accept());
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
            // Tickets are on their way before the answer.
            assert_eq!(receiver.read_to_end().await.unwrap(), b"a question");
        };
        tokio::join!(answering, asking);
        assert_eq!(client.certificates().len(), 1);
        let ours = client.ours().or(accepted.ours()).unwrap();
        ours.handshake_data().resumed
    }
}

/// The client's later connections are resumed, as far as the server knows of the session.
pub(crate) async fn resumes(stacks: (Stack, Stack)) {
    let options = Options::default();
    let server = Server::start(stacks.1, &options);
    let client = Rememberer::new(stacks.0, &options);
    assert!(!client.visit(&server).await, "{stacks:?}");
    for _ in 0..5 {
        assert!(client.visit(&server).await, "{stacks:?}");
    }
    // One that knows nothing of those sessions, at another port.
    let other = Server::start(stacks.1, &options);
    assert!(!client.visit(&other).await, "{stacks:?}");
    assert!(client.visit(&other).await, "{stacks:?}");
}
