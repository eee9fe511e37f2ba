// The measurements, compiled against both crates as `api`. The module around this file has the
// functions `transport` and `endpoint_config`, which set the largest packet.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use api::{
    ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, TokioRuntime, VarInt,
};
use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{CALL, Direction, Figures, Identity, cpu, now};

/// During this time, the MTU search ends, and what it sent arrives.
const WARM_UP: Duration = Duration::from_millis(300);

/// A slow application reads this much at a time …
const SLOW_READ: usize = 4096;
/// … and then pauses.
const SLOW_PAUSE: Duration = Duration::from_millis(100);

/// A server and a client with connections between them. The ends of a connection have the same
/// index.
struct Ends {
    server: Endpoint,
    client: Endpoint,
    of_client: Vec<Connection>,
    of_server: Vec<Connection>,
}

impl Ends {
    async fn new(identity: &Identity, connections: usize) -> Result<Self> {
        let transport = Arc::new(transport());
        let crypto = QuicServerConfig::try_from(identity.server()?)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::clone(&transport));
        let start = |server| {
            let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
            Endpoint::new(endpoint_config()?, server, socket, Arc::new(TokioRuntime))
                .map_err(anyhow::Error::from)
        };
        let server = start(Some(config))?;
        let crypto = QuicClientConfig::try_from(identity.client()?)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(transport);
        let mut client = start(None)?;
        client.set_default_client_config(config);
        let mut ends = Self {
            server,
            client,
            of_client: Vec::new(),
            of_server: Vec::new(),
        };
        ends.connect(connections).await?;
        Ok(ends)
    }

    async fn connect(&mut self, connections: usize) -> Result<()> {
        for _ in 0..connections {
            let connecting = self
                .client
                .connect(self.server.local_addr()?, "localhost")?;
            let accepting = async { Ok(self.server.accept().await.context("closed")?.await?) };
            let of_client = async { anyhow::Ok(connecting.await?) };
            let (of_client, of_server) = tokio::try_join!(of_client, accepting)?;
            self.of_client.push(of_client);
            self.of_server.push(of_server);
        }
        Ok(())
    }

    fn first(&self) -> Result<(Connection, Connection)> {
        let first = self.of_client.first().zip(self.of_server.first());
        let (of_client, of_server) = first.context("no connection")?;
        Ok((of_client.clone(), of_server.clone()))
    }

    async fn close(self) {
        for connection in self.of_client {
            connection.close(VarInt::from_u32(0), b"");
        }
        self.client.wait_idle().await;
    }
}

/// Sends datagrams as fast as the window allows to a receiver that only reads.
pub(super) async fn datagrams(identity: &Identity, len: usize, time: Duration) -> Result<Figures> {
    let ends = Ends::new(identity, 1).await?;
    let (from, to) = ends.first()?;
    let read = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&read);
    tokio::spawn(async move {
        while to.read_datagram().await.is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let data = Bytes::from(vec![7; len]);
    let send = async |time: Duration| -> Result<u64> {
        let (end, mut sent) = (now() + time, 0);
        while now() < end {
            from.send_datagram_wait(data.clone()).await?;
            sent += 1;
        }
        Ok(sent)
    };
    send(WARM_UP).await?;
    sleep(WARM_UP).await;
    read.store(0, Ordering::Relaxed);
    let before = cpu()?;
    let sent = send(time).await?;
    // Packets in flight can arrive.
    sleep(Duration::from_millis(200)).await;
    let used = cpu()? - before;
    let read = read.load(Ordering::Relaxed) as f64;
    ensure!(read > 0.0, "no datagram has arrived");
    let room = from.max_datagram_size().context("no datagrams")?;
    ensure!(
        usize::from(MTU) - room < 100,
        "packets carry only {room} bytes"
    );
    ends.close().await;
    Ok(vec![
        ("read per second", read / time.as_secs_f64()),
        ("part of those sent", read / sent as f64),
        ("CPU us each", used / read * 1e6),
    ])
}

/// Calls once each 5 ms, next to a stream that sends as fast as it can on the same connection.
pub(super) async fn calls_beside_bulk(
    identity: &Identity,
    bulk: Direction,
    time: Duration,
) -> Result<Figures> {
    let ends = Ends::new(identity, 1).await?;
    let (client, server) = ends.first()?;
    let read = Arc::new(AtomicU64::new(0));
    let answering = server.clone();
    tokio::spawn(async move {
        while let Ok((send, recv)) = answering.accept_bi().await {
            tokio::spawn(answer(send, recv));
        }
    });
    let (up, down) = match bulk {
        Direction::Up => (true, false),
        Direction::Down => (false, true),
        Direction::Both => (true, true),
    };
    for (from, to, is_used) in [(&client, &server, up), (&server, &client, down)] {
        if is_used {
            let (from, to, read) = (from.clone(), to.clone(), Arc::clone(&read));
            tokio::spawn(async move {
                let (sending, receiving) = tokio::join!(send_bulk(from), read_bulk(to, read));
                drop((sending, receiving));
            });
        }
    }
    sleep(WARM_UP).await;
    let (begun, at_first, before) = (now(), read.load(Ordering::Relaxed), cpu()?);
    let mut calling = JoinSet::new();
    while begun.elapsed() < time {
        calling.spawn(call(client.clone(), now()));
        sleep(Duration::from_millis(5)).await;
    }
    let bits = (read.load(Ordering::Relaxed) - at_first) as f64 * 8.0;
    ensure!(bits > 0.0, "no bulk data has arrived");
    let seconds = begun.elapsed().as_secs_f64();
    let used = cpu()? - before;
    let mut waits = Vec::new();
    while let Some(wait) = calling.join_next().await {
        waits.push(wait??.as_secs_f64() * 1e3);
    }
    waits.sort_by(f64::total_cmp);
    let part = |of_100: usize| {
        waits
            .get(waits.len() * of_100 / 100)
            .copied()
            .context("no call")
    };
    ends.close().await;
    Ok(vec![
        ("first byte ms, median", part(50)?),
        ("first byte ms, 99 of 100", part(99)?),
        ("bulk Gbit/s", bits / seconds / 1e9),
        ("CPU s each Gbit", used / bits * 1e9),
    ])
}

async fn send_bulk(from: Connection) -> Result<()> {
    let mut send = from.open_uni().await?;
    let data = vec![0; 64 << 10];
    loop {
        send.write_all(&data).await?;
    }
}

async fn read_bulk(to: Connection, read: Arc<AtomicU64>) -> Result<()> {
    let mut recv = to.accept_uni().await?;
    let mut buffer = vec![0; 64 << 10];
    while let Some(length) = recv.read(&mut buffer).await? {
        read.fetch_add(length as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Calls, and returns the time from `begun` until the first byte of the answer has arrived.
async fn call(client: Connection, begun: Instant) -> Result<Duration> {
    let (mut send, mut recv) = client.open_bi().await?;
    send.write_all(&[7; CALL]).await?;
    send.finish()?;
    let mut first = [0];
    recv.read_exact(&mut first).await?;
    let wait = begun.elapsed();
    let rest = recv.read_to_end(CALL).await?;
    ensure!(rest.len() == CALL - 1, "{} bytes", rest.len());
    Ok(wait)
}

async fn answer(mut send: SendStream, mut recv: RecvStream) -> Result<()> {
    let question = recv.read_to_end(CALL).await?;
    send.write_all(&question).await?;
    send.finish()?;
    Ok(())
}

/// Calls on this number of connections, `at_once` on each.
pub(super) async fn calls(
    identity: &Identity,
    connections: usize,
    at_once: usize,
    time: Duration,
) -> Result<Figures> {
    let ends = Ends::new(identity, connections).await?;
    for connection in &ends.of_server {
        let connection = connection.clone();
        tokio::spawn(async move {
            while let Ok((send, recv)) = connection.accept_bi().await {
                tokio::spawn(answer(send, recv));
            }
        });
    }
    let (begun, before) = (now(), cpu()?);
    let mut callers = JoinSet::new();
    for connection in &ends.of_client {
        for _ in 0..at_once {
            let connection = connection.clone();
            callers.spawn(async move {
                let mut called = 0;
                while begun.elapsed() < time {
                    call(connection.clone(), now()).await?;
                    called += 1;
                }
                anyhow::Ok(called)
            });
        }
    }
    let mut called = 0;
    while let Some(caller) = callers.join_next().await {
        called += caller??;
    }
    let (used, seconds) = (cpu()? - before, begun.elapsed().as_secs_f64());
    ends.close().await;
    Ok(vec![
        ("calls per second", f64::from(called) / seconds),
        ("CPU us each", used / f64::from(called) * 1e6),
    ])
}

/// Opens fresh streams on 20 of 100 connections. On each of the 100, an application reads another
/// stream slowly.
pub(super) async fn fresh_beside_slow(identity: &Identity) -> Result<Figures> {
    let ends = Ends::new(identity, 100).await?;
    let (arrive, arrivals) = unbounded_channel();
    for (from, to) in ends.of_client.iter().zip(&ends.of_server) {
        tokio::spawn(send_bulk(from.clone()));
        let (to, arrive) = (to.clone(), arrive.clone());
        tokio::spawn(async move {
            let mut slow = to.accept_uni().await?;
            tokio::spawn(read_fresh(to, arrive));
            let mut buffer = [0; SLOW_READ];
            while slow.read(&mut buffer).await?.is_some() {
                sleep(SLOW_PAUSE).await;
            }
            anyhow::Ok(())
        });
    }
    let waits = open_fresh(&ends.of_client[..20], arrivals).await?;
    ends.close().await;
    Ok(waits)
}

/// Opens fresh streams on one connection, next to a client that leaves 1 MB unread on each of 100
/// others.
pub(super) async fn fresh_beside_unread(identity: &Identity) -> Result<Figures> {
    let mut ends = Ends::new(identity, 100).await?;
    for (from, to) in ends.of_client.iter().zip(&ends.of_server) {
        let from = from.clone();
        tokio::spawn(async move {
            let mut send = from.open_uni().await?;
            send.write_all(&vec![0; 1_000_000]).await?;
            send.stopped().await?;
            anyhow::Ok(())
        });
        let to = to.clone();
        tokio::spawn(async move {
            let unread = to.accept_uni().await?;
            let closed = to.closed().await;
            drop(unread);
            Err::<(), _>(anyhow::Error::from(closed))
        });
    }
    sleep(Duration::from_secs(1)).await;
    ends.connect(1).await?;
    let to = ends.of_server.last().cloned().context("no connection")?;
    let (arrive, arrivals) = unbounded_channel();
    tokio::spawn(read_fresh(to, arrive));
    let waits = open_fresh(&ends.of_client[100..], arrivals).await?;
    ends.close().await;
    Ok(waits)
}

/// Reports when fresh streams arrive.
async fn read_fresh(to: Connection, arrive: UnboundedSender<Instant>) -> Result<()> {
    loop {
        let mut fresh = to.accept_uni().await?;
        fresh.read_to_end(8).await?;
        arrive.send(now())?;
    }
}

/// Each ten seconds for 40 s, opens a stream of 8 bytes on each connection, and measures how long
/// these take to arrive.
async fn open_fresh(
    connections: &[Connection],
    mut arrivals: UnboundedReceiver<Instant>,
) -> Result<Figures> {
    let (mut waits, mut asked) = (Vec::new(), 0);
    sleep(Duration::from_secs(3)).await;
    // Faults grow slowly.
    for _ in 0..4 {
        let opened = now();
        for connection in connections {
            asked += 1;
            let connection = connection.clone();
            tokio::spawn(async move {
                let mut send = connection.open_uni().await?;
                send.write_all(&[7; 8]).await?;
                send.finish()?;
                anyhow::Ok(())
            });
        }
        sleep(Duration::from_secs(10)).await;
        while let Ok(arrived) = arrivals.try_recv() {
            waits.push((arrived - opened).as_secs_f64() * 1e3);
        }
    }
    let arrived = waits.len() as f64 / asked as f64;
    waits.resize(asked, f64::INFINITY);
    waits.sort_by(f64::total_cmp);
    let median = waits.get(asked / 2).copied().context("no stream")?;
    let longest = waits.last().copied().context("no stream")?;
    Ok(vec![
        ("part within 10 s", arrived),
        ("ms, median", median),
        ("ms, longest", longest),
    ])
}
