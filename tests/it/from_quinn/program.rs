// A server and a client in the shape of quinn's examples: a request of eight bytes asks for so many
// bytes. Compiled against both crates, as `api`.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use api::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use api::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, IdleTimeout, Incoming,
    ReadExactError, ReadToEndError, RecvStream, SendDatagramError, SendStream, ServerConfig,
    TokioRuntime, TransportConfig, VarInt, WriteError, rustls,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::mpsc::UnboundedSender;

const ALPN: &[&[u8]] = &[b"from-quinn"];
const DONE: VarInt = VarInt::from_u32(7);

/// Starts a server whose clients must prove their address.
pub(super) fn serve(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    ends: UnboundedSender<Result<(), String>>,
) -> anyhow::Result<(SocketAddr, Endpoint)> {
    let mut crypto = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    crypto.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?));
    let transport = Arc::get_mut(&mut config.transport).unwrap();
    transport
        .max_concurrent_uni_streams(0_u8.into())
        .max_concurrent_bidi_streams(VarInt::from_u32(100))
        .max_idle_timeout(Some(IdleTimeout::try_from(Duration::from_secs(10))?))
        .keep_alive_interval(Some(Duration::from_secs(2)));
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let runtime = Arc::new(TokioRuntime);
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)?;
    let address = endpoint.local_addr()?;
    let accepting = endpoint.clone();
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            if !incoming.remote_address_validated() && incoming.may_retry() {
                incoming.retry().unwrap();
                continue;
            }
            assert!(incoming.remote_address().ip().is_loopback());
            let ends = ends.clone();
            tokio::spawn(async move {
                let ended = handle(incoming).await.map_err(|error| error.to_string());
                ends.send(ended).unwrap();
            });
        }
    });
    Ok((address, endpoint))
}

async fn handle(incoming: Incoming) -> Result<(), ConnectionError> {
    let connection = incoming.await?;
    let echoing = connection.clone();
    tokio::spawn(async move {
        while let Ok(datagram) = echoing.read_datagram().await {
            let _ = echoing.send_datagram(datagram);
        }
    });
    loop {
        match connection.accept_bi().await {
            Ok((send, recv)) => drop(tokio::spawn(answer(send, recv))),
            Err(ConnectionError::ApplicationClosed { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

async fn answer(mut send: SendStream, mut recv: RecvStream) -> anyhow::Result<()> {
    let mut length = [0; 8];
    match recv.read_exact(&mut length).await {
        Err(ReadExactError::FinishedEarly(_)) => return Ok(send.reset(DONE)?),
        read => read?,
    }
    recv.stop(DONE)?;
    send.set_priority(1)?;
    let mut left = usize::try_from(u64::from_be_bytes(length))?;
    while left > 0 {
        let piece = left.min(64 << 10);
        match send.write_all(&vec![7; piece]).await {
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return Ok(()),
            written => written?,
        }
        left -= piece;
    }
    send.finish()?;
    send.stopped().await?;
    Ok(())
}

/// Connects, fetches this many bytes twice, sends a datagram, and closes the connection.
pub(super) async fn fetch(
    server: SocketAddr,
    certificate: CertificateDer<'static>,
    bytes: usize,
) -> anyhow::Result<()> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let mut crypto = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    crypto.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(VarInt::from_u32(10_000).into()));
    transport.send_window(1 << 20).initial_mtu(1200);
    transport.receive_window(VarInt::from_u32(1 << 20));
    transport.stream_receive_window(VarInt::from_u32(1 << 19));
    transport.datagram_receive_buffer_size(Some(1 << 16));
    transport.datagram_send_buffer_size(1 << 16);
    config.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    endpoint.set_default_client_config(config);
    let connection: Connection = endpoint.connect(server, "localhost")?.await?;
    assert_eq!(connection.remote_address(), server);
    assert!(connection.close_reason().is_none());

    for _ in 0..2 {
        let (mut send, mut recv) = connection.open_bi().await?;
        send.write_all(&(bytes as u64).to_be_bytes()).await?;
        send.finish()?;
        let got = recv.read_to_end(bytes).await?;
        assert_eq!(got.len(), bytes);
    }
    assert!(connection.rtt() < Duration::from_millis(333));
    // The server stops reading after the request.
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(&(bytes as u64).to_be_bytes()).await?;
    assert!(send.stopped().await?.is_some());
    send.finish().unwrap();
    let got = recv.read_to_end(10).await;
    assert!(matches!(got, Err(ReadToEndError::TooLong)));

    let longest = connection.max_datagram_size().unwrap();
    let refused = connection.send_datagram(vec![0; longest + 1].into());
    assert!(matches!(refused, Err(SendDatagramError::TooLarge)));
    connection.send_datagram_wait("echo".into()).await?;
    assert_eq!(connection.read_datagram().await?, "echo");
    connection.close(0_u32.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}
