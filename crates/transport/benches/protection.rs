//! The cost of protecting a packet of 1200 bytes, and of finding its connection. For comparison:
//! copying these bytes.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pathmark_cc::{Controller, NewReno};
use pathmark_transport::connection::Received;
use pathmark_transport::crypto::null::{NullCrypto, NullEndpointKey};
use pathmark_transport::crypto::{InitialCrypto, Keys, Random, SAMPLE_LEN, Side};
use pathmark_transport::endpoint::{Connect, DatagramEvent, Endpoint, EndpointConfig};
use pathmark_transport::wire::PartialDecode;
use pathmark_transport::{Duration, Ecn, Instant, TransportConfig};

const LEN: usize = 1200;
const HEADER: usize = 11;

fn keys_of(c: &mut Criterion, name: &str, local: &Keys, remote: &Keys) {
    let mut group = c.benchmark_group(format!("protection/{name}"));
    group.throughput(Throughput::Bytes(LEN as u64));
    let mut packet = vec![7; LEN];
    let mut pn = 0;
    group.bench_function("seal", |b| {
        b.iter(|| {
            pn += 1;
            local.local.packet.seal(pn, black_box(&mut packet), HEADER)
        });
    });
    local
        .local
        .packet
        .seal(1, &mut packet, HEADER)
        .expect("room");
    let mut copy = packet.clone();
    // Opening destroys the packet, so each round first copies it, which `copy` measures separately.
    group.bench_function("copy_and_open", |b| {
        b.iter(|| {
            copy.copy_from_slice(black_box(&packet));
            remote
                .remote
                .packet
                .open(1, &mut copy, HEADER)
                .expect("whole")
        });
    });
    group.bench_function("copy", |b| {
        b.iter(|| black_box(&mut copy).copy_from_slice(black_box(&packet)));
    });
    let sample = [9; SAMPLE_LEN];
    group.bench_function("mask", |b| {
        b.iter(|| local.local.header.mask(black_box(&sample)));
    });
    group.finish();
}

fn protection(c: &mut Criterion) {
    let null = NullCrypto::new(&[b"bench"]);
    let ends = [Side::Client, Side::Server].map(|side| null.initial_keys(b"12345678", side));
    keys_of(c, "null", &ends[0], &ends[1]);
    #[cfg(feature = "rustls")]
    {
        use pathmark_transport::crypto::tls::{TlsClientConfig, Trust};
        let tls = TlsClientConfig::new(Trust::Anyone, &[b"bench"]).expect("a configuration");
        let ends = [Side::Client, Side::Server].map(|side| tls.initial_keys(b"12345678", side));
        keys_of(c, "aes128gcm", &ends[0], &ends[1]);
    }
}

fn demultiplexing(c: &mut Criterion) {
    let key = Arc::new(NullEndpointKey::new(1));
    let config = EndpointConfig::new(key, Duration::from_secs(1));
    let mut endpoint = Endpoint::new(config, Random::from_u64(1));
    let now = Instant::from_millis(1);
    let transport = Arc::new(TransportConfig::new(Arc::new(
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) },
    )));
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 4433));
    let mut buffer = vec![0; 65_536];
    // The IDs of a thousand connections, as in their first packets.
    let ids: Vec<_> = (0..1000)
        .map(|_| {
            let connect = Connect {
                config: Arc::clone(&transport),
                crypto: Arc::new(NullCrypto::new(&[b"bench"])),
                server_name: "server".into(),
                remote,
                local: None,
                token: Vec::new(),
            };
            let (_, mut connection) = endpoint.connect(now, connect).expect("a connection");
            connection
                .poll_transmit(now, &mut buffer, 1)
                .expect("a first packet");
            match PartialDecode::new(&buffer, 8) {
                Ok(PartialDecode::Protected(found)) => found.scid,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let received = Received {
        remote,
        local: None,
        ecn: Ecn::NotEct,
        ttl: None,
    };
    let mut answer = Vec::new();
    let mut datagram = vec![0x41; LEN];
    let mut next = ids.iter().cycle();
    c.bench_function("endpoint/find_connection", |b| {
        b.iter(|| {
            if let Some(id) = next.next() {
                datagram[1..9].copy_from_slice(id.as_slice());
            }
            let event = endpoint.handle(now, &received, black_box(&datagram), &mut answer);
            assert!(matches!(event, DatagramEvent::Connection(_)));
        });
    });
}

criterion_group!(benches, protection, demultiplexing);
criterion_main!(benches);
