//! A server that returns what it gets, on streams and in datagrams, and a client that measures the
//! path to it. Both are in one process, over loopback.
//!
//! ```sh
//! cargo run --example echo
//! ```

use std::error::Error;
use std::sync::Arc;

use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig};

/// Name of this application's protocol (ALPN), which both ends must agree on.
const PROTOCOL: &[u8] = b"echo";
const MESSAGE: &[u8] = b"over the hills";

/// Returns everything, on each stream that a client opens, until the client closes the connection.
async fn serve(connection: Connection) {
    let datagrams = connection.clone();
    tokio::spawn(async move {
        while let Ok(datagram) = datagrams.read_datagram().await {
            // Datagrams are unreliable, so a full queue only loses some.
            let _ = datagrams.send_datagram(datagram);
        }
    });
    while let Ok((send, recv)) = connection.accept_bi().await {
        tokio::spawn(echo(send, recv));
    }
}

async fn echo(
    mut send: SendStream,
    mut recv: RecvStream,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    while let Some(data) = recv.read_chunk().await? {
        send.write_chunk(data).await?;
    }
    send.finish()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = made.signing_key.serialize_der().try_into()?;
    let certificate = TlsServerConfig::new(vec![made.cert.der().clone()], key, &[PROTOCOL])?;
    // The client knows the server by its certificate. Elsewhere you would use authorities.
    let trust = Trust::Pin(certificate.pin().ok_or("no certificate")?);
    let config = ServerConfig::with_crypto(Arc::new(certificate));
    let server = Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            // Handshakes of several clients go on at the same time.
            tokio::spawn(async move {
                if let Ok(connection) = incoming.await {
                    serve(connection).await;
                }
            });
        }
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let tls = TlsClientConfig::new(trust, &[PROTOCOL])?;
    client.set_default_client_config(ClientConfig::new(Arc::new(tls)));
    let connection = client.connect(address, "localhost")?.await?;
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(MESSAGE).await?;
    send.finish()?;
    let back = recv.read_to_end(1000).await?;
    println!("stream: {}", String::from_utf8_lossy(&back));
    connection.send_datagram(MESSAGE.into())?;
    let back = connection.read_datagram().await?;
    println!("datagram: {}", String::from_utf8_lossy(&back));
    println!("{}", connection.path_report());
    connection.close(0_u32.into(), b"done");
    client.wait_idle().await;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
