//! Ends, resets and refusals of flows, on each way.

use std::io::ErrorKind;
use std::net::SocketAddr;

use pathmark_proxy::ingress::Service;
use pathmark_proxy::outbound::{Outbound, Refusal};
use pathmark_proxy::target::Target;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::bed::{Bed, WAYS, Way, failure, reset, target, until, within};
use super::direct::Direct;

/// Returns both ends of a flow on some way.
async fn pair(bed: &Bed<impl Outbound>, way: Way) -> (TcpStream, TcpStream) {
    let (listener, target) = target().await;
    let both = async { tokio::join!(bed.connect(way, &target), listener.accept()) };
    let (client, served) = within(both).await;
    (client.unwrap(), served.unwrap().0)
}

async fn a_clients_end_leaves_the_other_direction_open(bed: &Bed<impl Outbound>) {
    for way in WAYS {
        let (mut client, mut served) = pair(bed, way).await;
        client.write_all(b"request").await.unwrap();
        client.shutdown().await.unwrap();
        let mut request = String::new();
        within(served.read_to_string(&mut request)).await.unwrap();
        assert_eq!(request, "request", "{way:?}");
        // More than all buffers on the way can hold.
        let answer = vec![7; 8 << 20];
        let sent = async {
            served.write_all(&answer).await.unwrap();
            drop(served);
        };
        let mut got = Vec::new();
        let (read, ()) = within(async { tokio::join!(client.read_to_end(&mut got), sent) }).await;
        read.unwrap();
        assert!(got == answer, "{way:?}: {} bytes", got.len());
    }
}

async fn a_targets_end_leaves_the_other_direction_open(bed: &Bed<impl Outbound>) {
    for way in WAYS {
        let (mut client, mut served) = pair(bed, way).await;
        served.write_all(b"greeting").await.unwrap();
        served.shutdown().await.unwrap();
        let mut greeting = String::new();
        within(client.read_to_string(&mut greeting)).await.unwrap();
        assert_eq!(greeting, "greeting", "{way:?}");
        client.write_all(b"late").await.unwrap();
        drop(client);
        let mut late = String::new();
        within(served.read_to_string(&mut late)).await.unwrap();
        assert_eq!(late, "late", "{way:?}");
    }
}

async fn a_reset_reaches_the_other_side_as_a_reset(bed: &Bed<impl Outbound>) {
    for way in WAYS {
        let (client, mut served) = pair(bed, way).await;
        reset(client);
        let ended = failure(&mut served).await;
        assert_eq!(ended, ErrorKind::ConnectionReset, "{way:?}: client");

        let (mut client, served) = pair(bed, way).await;
        reset(served);
        let ended = failure(&mut client).await;
        assert_eq!(ended, ErrorKind::ConnectionReset, "{way:?}: target");
    }
}

/// The splice reads nothing from the client while the target accepts no bytes.
async fn a_reset_passes_a_direction_that_is_full(bed: &Bed<impl Outbound>) {
    for way in WAYS {
        let (client, mut served) = pair(bed, way).await;
        let mut sent = 0;
        // The kernel's buffers on the way are full when nothing more is accepted for a long time.
        while let Ok(wrote) = tokio::time::timeout(std::time::Duration::from_millis(200), async {
            client.writable().await.unwrap();
            client.try_write(&[0; 65_536])
        })
        .await
        {
            sent += wrote.unwrap_or(0);
        }
        assert!(sent > 65_536, "{way:?}");
        reset(client);
        let mut all = Vec::new();
        let error = within(served.read_to_end(&mut all)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{way:?}");
    }
}

/// After FIN, the other direction is silent, and then the client is reset.
async fn a_reset_after_an_end_ends_the_silent_direction(bed: &Bed<impl Outbound>) {
    for way in WAYS {
        let (mut client, mut served) = pair(bed, way).await;
        client.shutdown().await.unwrap();
        assert_eq!(within(served.read(&mut [0])).await.unwrap(), 0);
        reset(client);
        // The kernel only reports this to a writer.
        within(async { while served.write_all(&[0; 1024]).await.is_ok() {} }).await;
    }
}

/// With Nagle's algorithm on any side, the second segment of each pair would wait for an
/// acknowledgement that its receiver delays by 40 ms.
async fn small_segments_do_not_wait_for_acknowledgements(bed: &Bed<impl Outbound>) {
    const PAIRS: u32 = 50;
    for way in WAYS {
        let (mut client, mut served) = pair(bed, way).await;
        client.set_nodelay(true).unwrap();
        served.set_nodelay(true).unwrap();
        let began = tokio::time::Instant::now();
        for _ in 0..PAIRS {
            client.write_all(b"a").await.unwrap();
            client.write_all(b"b").await.unwrap();
            within(served.read_exact(&mut [0; 2])).await.unwrap();
            served.write_all(b"c").await.unwrap();
            served.write_all(b"d").await.unwrap();
            within(client.read_exact(&mut [0; 2])).await.unwrap();
        }
        let took = began.elapsed();
        assert!(
            took < PAIRS * std::time::Duration::from_millis(40),
            "{way:?}: {took:?}"
        );
    }
}

/// Returns a listener whose queue is full, so that SYNs get no answer.
fn silent() -> (Socket, Vec<Socket>, Target) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let waiting = (0..4).map(|_| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let _ = socket.connect(&address);
        socket
    });
    let waiting = waiting.collect();
    let target = address.as_socket().unwrap().to_string().parse().unwrap();
    (listener, waiting, target)
}

/// Returns a port without a listener. It is bound, so that no other test can use it.
fn closed() -> (Socket, Target) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address.to_string().parse().unwrap())
}

/// Returns how a forward to a target fails.
async fn forwarded(bed: &Bed<impl Outbound>, target: &Target) -> ErrorKind {
    let address = bed.listen(Service::Forward(target.clone()));
    let read = async { TcpStream::connect(address).await?.read_u8().await };
    within(read).await.unwrap_err().kind()
}

async fn refusals_have_their_causes(bed: &Bed<impl Outbound>) {
    let (_bound, refused) = closed();
    for (way, expected) in [(Way::Socks, 5), (Way::Http, 502)] {
        let got = within(bed.connect(way, &refused)).await.unwrap_err();
        assert_eq!(got, expected, "{way:?}");
    }
    assert_eq!(forwarded(bed, &refused).await, ErrorKind::ConnectionReset);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_has_its_cause() {
    let target = "192.0.2.1:80".parse().unwrap();
    for (refusal, socks, http) in [
        (Refusal::Refused, 5, 502),
        (Refusal::TimedOut, 6, 504),
        (Refusal::Unreachable, 3, 502),
        (Refusal::Name, 4, 502),
        (Refusal::Denied, 2, 403),
        (Refusal::Busy, 1, 503),
        (Refusal::Proxy("it was stopped".into()), 1, 502),
    ] {
        let bed = Bed::new(Direct::refusing(refusal.clone()));
        for (way, expected) in [(Way::Socks, socks), (Way::Http, http)] {
            let got = within(bed.connect(way, &target)).await.unwrap_err();
            assert_eq!(got, expected, "{way:?}: {refusal}");
        }
        let forwarded = forwarded(&bed, &target).await;
        assert_eq!(forwarded, ErrorKind::ConnectionReset, "{refusal}");
        assert_eq!(bed.ingress.counts().refused, 3, "{refusal}");
    }
}

/// Runs each test with direct flows, and with flows through a proxy.
macro_rules! by_both {
    ($($name:ident),* $(,)?) => {
        mod directly {
            use super::{Bed, Direct};

            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::$name(&Bed::new(Direct::default())).await;
                }
            )*
        }

        mod through_a_proxy {
            use super::Bed;
            use crate::support::{Served, access};

            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    let served = Served::new(access(&["a"]));
                    super::$name(&Bed::new(served.tunnel("a"))).await;
                }
            )*
        }
    };
}

by_both!(
    a_clients_end_leaves_the_other_direction_open,
    a_targets_end_leaves_the_other_direction_open,
    a_reset_reaches_the_other_side_as_a_reset,
    a_reset_passes_a_direction_that_is_full,
    a_reset_after_an_end_ends_the_silent_direction,
    a_flow_that_is_killed_does_not_disturb_others,
    small_segments_do_not_wait_for_acknowledgements,
    refusals_have_their_causes,
);

/// The proxy resolves names. This machine doesn't know the name and isn't asked.
#[tokio::test(flavor = "multi_thread")]
async fn names_travel_to_the_proxy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let target: Target = format!("far.invalid:{port}").parse().unwrap();
    for way in [Way::Forward, Way::Socks, Way::Http] {
        let direct = Direct::with_names(&[("far.invalid", "127.0.0.1")]);
        let bed = Bed::new(direct.clone());
        let connected = async { tokio::join!(bed.connect(way, &target), listener.accept()) };
        let (client, served) = within(connected).await;
        let (mut client, mut served) = (client.unwrap(), served.unwrap().0);
        served.write_all(b"a").await.unwrap();
        assert_eq!(within(client.read_u8()).await.unwrap(), b'a');
        assert_eq!(direct.asked(), std::slice::from_ref(&target), "{way:?}");
    }
}

async fn a_flow_that_is_killed_does_not_disturb_others(bed: &Bed<impl Outbound>) {
    for way in [Way::Forward, Way::Socks, Way::Http] {
        let (mut first, mut first_served) = pair(bed, way).await;
        let (mut killed, killed_served) = pair(bed, way).await;
        first.write_all(b"a").await.unwrap();
        killed.write_all(b"b").await.unwrap();
        reset(killed_served);
        assert!(within(killed.read_u8()).await.is_err(), "{way:?}");
        first.write_all(b"c").await.unwrap();
        let mut got = [0; 2];
        within(first_served.read_exact(&mut got)).await.unwrap();
        assert_eq!(&got, b"ac", "{way:?}");
        first_served.write_all(b"d").await.unwrap();
        assert_eq!(within(first.read_u8()).await.unwrap(), b'd', "{way:?}");
    }
}

/// A client that leaves before the target answers ends the attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_early_opens_no_flow() {
    let (_listener, _waiting, silent) = silent();
    let bed = Bed::new(Direct::default());
    let client = bed.connect(Way::Forward, &silent).await.unwrap();
    reset(client);
    until(|| bed.ingress.counts().ended > 0).await;
    let counts = bed.ingress.counts();
    assert_eq!((counts.accepted, counts.reset, counts.refused), (1, 1, 0));
}
