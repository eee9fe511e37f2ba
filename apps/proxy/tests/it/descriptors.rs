//! Listeners survive if the process has no free descriptors.

use std::fs::File;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pathmark_proxy::ingress::Service;
use pathmark_testbed::own_process;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::ingress::bed::Bed;
use crate::ingress::direct::Direct;
use crate::support::{bounded, listener, until};

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
    let (target, to) = listener().await;
    let bed = Bed::new(Direct::default());
    let address = bed.listen(Service::Forward(to));

    let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    client.connect(&address.into()).unwrap();
    until(|| bed.ingress.counts().accept_failures >= 3).await;
    drop(taken);

    client.set_nonblocking(true).unwrap();
    let mut client = TcpStream::from_std(client.into()).unwrap();
    client.write_all(b"a").await.unwrap();
    let (mut served, _) = bounded(target.accept()).await.unwrap();
    assert_eq!(served.read_u8().await.unwrap(), b'a');
}
