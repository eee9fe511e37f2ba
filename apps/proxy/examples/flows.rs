//! Flows through a proxy, for testing other implementations: `flows TCP UDP`. The arguments are
//! targets that echo, and the proxy's URI is read from stdin. It prints a line for each case, and
//! exits at the first failure.

use std::error::Error;
use std::io::ErrorKind;
use std::sync::Arc;

use bytes::Bytes;
use pathmark_cc::Algorithm;
use pathmark_driver::ClientConfig;
use pathmark_http3::wire::ALPN;
use pathmark_proxy::outbound::{Datagrams, Outbound, Refusal};
use pathmark_proxy::target::Target;
use pathmark_proxy::tunnel::{Dialer, Tunnel, TunnelTimes};
use pathmark_proxy::uri::ProxyUri;
use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::tls::{TlsClientConfig, Trust};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Done = Result<(), Box<dyn Error>>;

fn check(case: &str, holds: bool) -> Done {
    if holds {
        println!("{case}");
        Ok(())
    } else {
        Err(format!("failed: {case}").into())
    }
}

#[tokio::main]
async fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tcp, udp] = arguments.as_slice() else {
        return Err("usage: flows TCP UDP, with the URI of the proxy on stdin".into());
    };
    let (tcp, udp): (Target, Target) = (tcp.parse()?, udp.parse()?);
    let uri: ProxyUri = std::io::read_to_string(std::io::stdin())?.trim().parse()?;
    let trust = Trust::Pin(uri.pin.ok_or("the URI has no pin")?);
    let tls = TlsClientConfig::new(trust, &[ALPN])?;
    let law = Algorithm::default();
    let transport = TransportConfig::new(Arc::new(move |now, mtu| law.controller(now, mtu)));
    let config = ClientConfig::with_transport(Arc::new(tls), Arc::new(transport));
    let dialer = Dialer::new(uri.server, config);
    let tunnel = Tunnel::new(dialer, uri.token.as_ref(), TunnelTimes::default());

    let (mut read, mut write) = tunnel.tcp(&tcp).await?;
    let data: Vec<u8> = (0..1_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    let mut back = Vec::new();
    let writing = async {
        write.write_all(&data).await?;
        write.shutdown().await
    };
    tokio::try_join!(read.read_to_end(&mut back), writing)?;
    check("CONNECT: bytes and half-close", back == data)?;

    let (mut read, mut write) = tunnel.tcp(&tcp).await?;
    write.write_all(b"reset\n").await?;
    let error = read.read_u8().await.err().map(|error| error.kind());
    check(
        "CONNECT: a target's reset",
        error == Some(ErrorKind::ConnectionReset),
    )?;

    let refused = tunnel.tcp(&Target::new("127.0.0.1", 1)?).await.map(drop);
    check("CONNECT: refused", refused == Err(Refusal::Refused))?;

    let flow = tunnel.udp(&udp).await?;
    for (case, length) in [("a datagram", 100), ("a capsule", 9000)] {
        let payload = Bytes::from(vec![7; length]);
        flow.send(payload.clone()).await?;
        let back = flow.receive().await?;
        check(&format!("CONNECT-UDP: {case}"), back == payload)?;
    }
    Ok(())
}
