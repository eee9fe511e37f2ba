//! Retry: clients must prove their address first (RFC 9000 §8.1).

use super::support::peers::{Client, Connection, Options, Pair, STRANGERS, Server, Stack};
use super::support::{data, for_each, in_time};

fn proving() -> Options {
    Options::with(|options| options.retry = true)
}

async fn talk(from: &Connection, to: &Connection) {
    data::pass(from, to, (3, 100_000), |_| ()).await;
}

#[test]
fn clients_prove_their_address_and_go_on() {
    for_each(STRANGERS, async |stacks| {
        let pair = Pair::new(stacks, &proving()).await;
        talk(&pair.client, &pair.server).await;
        talk(&pair.server, &pair.client).await;
        // The loop in quinn's own code doesn't accept clients without a token.
        if let Server::Ours(endpoint) = &pair.server_endpoint {
            let stats = endpoint.stats();
            assert_eq!((stats.retries_sent, stats.incoming), (1, 1), "{stats:?}");
        }
    });
}

/// With tokens that a server issued in the first connection, the second one needs no Retry. Each
/// token only works once.
#[test]
fn a_token_from_before_spares_the_retry() {
    in_time(async {
        let options = proving();
        let server = Server::start(Stack::Ours, &options);
        let Server::Ours(endpoint) = &server else {
            unreachable!("it was asked for");
        };
        for client in [Stack::Quinn, Stack::Ours] {
            let before = endpoint.stats();
            let client = Client::start(client);
            // A single configuration, because it stores the servers' tokens.
            let config = options.quinn_client();
            let connect = || async {
                match &client {
                    Client::Ours(_) => client.connect(server.address(), &options).await.unwrap(),
                    Client::Quinn(endpoint) => {
                        let connecting =
                            endpoint.connect_with(config.clone(), server.address(), options.name);
                        Connection::Quinn(connecting.unwrap().await.unwrap())
                    }
                }
            };
            for _ in 0..2 {
                let (ours, theirs) = tokio::join!(connect(), server.accept());
                let (ours, theirs) = (ours, theirs.unwrap());
                // The token arrives after the handshake, and data sent after it show that it has
                // arrived.
                talk(&theirs, &ours).await;
                talk(&ours, &theirs).await;
            }
            let after = endpoint.stats();
            assert_eq!(after.incoming - before.incoming, 2);
            assert_eq!(after.retries_sent - before.retries_sent, 1, "{after:?}");
            assert_eq!(after.tokens_refused, 0, "{after:?}");
        }
    });
}
