//! A client that meets a server again sends its request in the first packet (0-RTT), so that the
//! answer arrives after one round trip instead of two.
//!
//! Whoever records such a packet can send it again, so this is only for requests that may be
//! repeated.
//!
//! ```sh
//! cargo run --example early_data
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Connection, Endpoint, Incoming, ServerConfig};

const PROTOCOL: &[u8] = b"early";

/// Answers the requests of a client, those in early data at once.
async fn serve(incoming: Incoming) -> Result<(), Box<dyn Error + Send + Sync>> {
    let connection = match incoming.accept()?.into_0rtt() {
        Ok((connection, _proved)) => connection,
        // Nothing came early.
        Err(connecting) => connecting.await?,
    };
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let request = recv.read_to_end(1000).await?;
        send.write_all(&request.to_ascii_uppercase()).await?;
        send.finish()?;
    }
    Ok(())
}

async fn ask(connection: &Connection) -> Result<Vec<u8>, Box<dyn Error>> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(b"over the hills").await?;
    send.finish()?;
    Ok(recv.read_to_end(1000).await?)
}

/// Connects, asks, and returns whether the request went early.
async fn meet(client: &Endpoint, server: SocketAddr) -> Result<bool, Box<dyn Error>> {
    let (connection, early) = match client.connect(server, "localhost")?.into_0rtt() {
        Ok((connection, accepted)) => {
            let answer = ask(&connection).await?;
            println!("{}", String::from_utf8_lossy(&answer));
            (connection, accepted.await?)
        }
        Err(connecting) => {
            let connection = connecting.await?;
            ask(&connection).await?;
            (connection, false)
        }
    };
    // The ticket for the next time comes with the confirmation.
    connection.confirmed().await?;
    connection.close(0_u32.into(), b"done");
    Ok(early)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = made.signing_key.serialize_der().try_into()?;
    let certificate = TlsServerConfig::new(vec![made.cert.der().clone()], key, &[PROTOCOL])?;
    let trust = Trust::Pin(certificate.pin().ok_or("no certificate")?);
    let certificate = certificate.with_early_data(1000);
    let config = ServerConfig::with_crypto(Arc::new(certificate));
    let server = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            tokio::spawn(serve(incoming));
        }
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let tls = TlsClientConfig::new(trust, &[PROTOCOL])?.with_early_data();
    client.set_default_client_config(ClientConfig::new(Arc::new(tls)));
    assert!(!meet(&client, address).await?);
    assert!(
        meet(&client, address).await?,
        "the server refused early data"
    );
    client.wait_idle().await;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
