//! Listeners survive if the process has no free descriptors.

use std::fs::File;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pathmark_proxy::ingress::{Ingress, Limits, Service, listen};
use pathmark_testbed::own_process;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::ingress::direct::Direct;

#[test]
fn a_listener_outlives_a_lack_of_descriptors() {
    own_process(
        "descriptors::a_listener_outlives_a_lack_of_descriptors",
        || {
            Runtime::new().unwrap().block_on(lack_of_descriptors());
        },
    );
}

async fn lack_of_descriptors() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 256, hard).unwrap();
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = target.local_addr().unwrap().to_string().parse().unwrap();
    let ingress = Ingress::new(Direct::default(), Limits::default());
    let listener = listen::tcp(&"127.0.0.1:0".parse().unwrap())
        .unwrap()
        .remove(0);
    let address = listener.local_addr().unwrap();
    let serving = ingress.clone();
    tokio::spawn(async move { serving.serve(listener, Service::Forward(to)).await });

    let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    client.connect(&address.into()).unwrap();
    let wait = async {
        while ingress.counts().accept_failures < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait)
        .await
        .unwrap();
    drop(taken);

    client.set_nonblocking(true).unwrap();
    let mut client = TcpStream::from_std(client.into()).unwrap();
    client.write_all(b"a").await.unwrap();
    let accepted = tokio::time::timeout(Duration::from_secs(30), target.accept()).await;
    let (mut served, _) = accepted.unwrap().unwrap();
    assert_eq!(served.read_u8().await.unwrap(), b'a');
}
