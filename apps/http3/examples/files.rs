//! The origin and the client as a program, for testing them with tools that aren't written in Rust.
//!
//! - `files serve DIRECTORY CERTIFICATE` serves a directory on loopback, including PUT. It creates
//!   a certificate for `localhost`, writes it in PEM, and prints its port.
//! - `files get PORT PIN PATH TARGET` fetches a file from a server on loopback whose certificate
//!   has this pin, and prints `BYTES RESUMED VERIFIED`.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Endpoint, ServerConfig};
use pathmark_http3::client::{Client, ClientLimits};
use pathmark_http3::fields::PathName;
use pathmark_http3::origin::{Limits, Origin};
use pathmark_http3::plan::{PutRights, Rules};
use pathmark_http3::root::{Existing, Root};
use pathmark_http3::wire::ALPN;
use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use rustls::pki_types::PrivatePkcs8KeyDer;

fn transport() -> Result<Arc<TransportConfig>, Box<dyn Error>> {
    let algorithm = Algorithm::parse("cubic")?;
    let controller = move |now, mtu| algorithm.controller(now, mtu);
    Ok(Arc::new(TransportConfig::new(Arc::new(controller))))
}

async fn serve(directory: &str, certificate: &str) -> Result<(), Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    std::fs::write(certificate, made.cert.pem())?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN])?;
    let config = ServerConfig::with_transport(Arc::new(tls), transport()?);
    let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into())?;
    let rules = Rules {
        put: PutRights::Replace,
        ..Rules::default()
    };
    let origin = Origin::new(Root::open(Path::new(directory))?, rules, Limits::default());
    println!("{}", endpoint.local_address().port());
    while let Some(incoming) = endpoint.accept().await {
        let origin = origin.clone();
        tokio::spawn(async move {
            let served = async {
                let connection = incoming.accept()?.await?;
                origin.serve(connection).await?;
                Ok::<_, Box<dyn Error + Send + Sync>>(())
            };
            if let Err(error) = served.await {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

async fn get(port: &str, pin: &str, path: &str, target: &str) -> Result<(), Box<dyn Error>> {
    let tls = TlsClientConfig::new(Trust::Pin(pin.parse()?), &[ALPN])?;
    let config = ClientConfig::with_transport(Arc::new(tls), transport()?);
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    let server: SocketAddr = (Ipv4Addr::LOCALHOST, port.parse()?).into();
    let connection = endpoint.connect_with(config, server, "localhost")?.await?;
    let client = Client::new(connection, "localhost", ClientLimits::default()).await?;
    let path = PathName::parse(path.as_bytes())?;
    let fetched = client
        .get(&path, Path::new(target), Existing::Replace)
        .await?;
    println!("{} {} {}", fetched.bytes, fetched.resumed, fetched.verified);
    drop(client);
    endpoint.wait_idle().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["serve", directory, certificate] => serve(directory, certificate).await,
        ["get", port, pin, path, target] => get(port, pin, path, target).await,
        _ => Err("usage: files serve DIRECTORY CERTIFICATE | get PORT PIN PATH TARGET".into()),
    }
}
