//! An application needs `use pathmark::*` and nothing else of this package.

use std::sync::Arc;

use pathmark::*;

/// Names that a typical application writes: a server's loop, limits, and the errors of each call.
async fn serve(endpoint: Endpoint) -> Result<(StreamId, u64), Box<dyn std::error::Error>> {
    let incoming: Incoming = endpoint.accept().await.ok_or("closed")?;
    let connecting: Result<Connecting, AcceptError> = incoming.accept();
    let connection: Result<Connection, ConnectionError> = connecting?.await;
    let connection = connection?;
    let data: HandshakeData = connection.handshake_data();
    assert_eq!(data.protocol.as_deref(), Some(&b"root"[..]));
    let weak: WeakConnection = connection.weak_handle();
    assert!(weak.upgrade().is_some());
    let mut asked: RecvStream = connection.accept_uni().await?;
    let read: Result<Option<usize>, ReadError> = asked.read(&mut [0; 100]).await;
    assert_eq!(read, Ok(Some(3)));
    let sent: Result<(), SendDatagramError> = connection.send_datagram_wait("hi".into()).await;
    sent?;
    let end = connection.closed().await;
    let ConnectionError::ApplicationClosed(close) = end else {
        return Err(end.into());
    };
    Ok((asked.id(), close.error_code.into_inner()))
}

#[tokio::test]
async fn the_root_has_all_that_an_application_names() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = made.signing_key.serialize_der().try_into().unwrap();
    let certificate = vec![made.cert.der().clone()];
    let certificate = tls::TlsServerConfig::new(certificate, key, &[b"root"]).unwrap();
    let trust = tls::Trust::Pin(certificate.pin().unwrap());
    let mut transport: TransportConfig = transport_config(&cc::Algorithm::default());
    transport.max_idle_timeout = Some(std::time::Duration::from_secs(30));
    transport.streams = StreamsConfig {
        max_uni_streams: 1,
        ..StreamsConfig::default()
    };
    transport.datagrams = DatagramsConfig::default();
    let transport = Arc::new(transport);
    let mut server = ServerConfig::with_transport(Arc::new(certificate), Arc::clone(&transport));
    server.retry(RetryPolicy::Never);
    let server = Endpoint::server(server, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = server.local_address();
    let serving = async { serve(server.clone()).await.unwrap() };
    let asking = async {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let config = EndpointConfig::adjusted(|config| config.max_connections = 1);
        let runtime = default_runtime().unwrap();
        let client = Endpoint::new(config, None, socket, runtime).unwrap();
        let tls = tls::TlsClientConfig::new(trust, &[b"root"]).unwrap();
        client.set_default_client_config(ClientConfig::with_transport(Arc::new(tls), transport));
        let connecting: Result<Connecting, ConnectError> = client.connect(address, "localhost");
        let connection = connecting.unwrap().await.unwrap();
        let mut stream: SendStream = connection.open_uni().await.unwrap();
        let written: Result<(), WriteError> = stream.write_all(b"ask").await;
        written.unwrap();
        let stopped: Stopped = stream.stopped();
        assert_eq!(connection.read_datagram().await.unwrap(), "hi");
        stream.finish().unwrap();
        assert_eq!(stopped.await, Ok(None));
        let report: PathReport = connection.path_report();
        let bounds: BoundShares = report.bounded_by;
        assert!(bounds.streams < 1.0);
        let line = report.to_string();
        for part in [
            report.controller.ruling,
            " kB in flight",
            "round trip ",
            " ms (least ",
        ] {
            assert!(line.contains(part), "{line}");
        }
        connection.close(VarInt::try_from(1_u64 << 40).unwrap(), b"");
        let stats: EndpointStats = client.stats();
        assert!(stats.received > 0);
        stream.id()
    };
    let ((id, code), asked) = tokio::join!(serving, asking);
    assert_eq!((id, code), (asked, 1 << 40));
    assert_eq!((id.dir(), id.initiator()), (Dir::Uni, Side::Client));
}
