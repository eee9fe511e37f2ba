//! A peer that sends alternately from several of its addresses, to all of which congestion control
//! applies together.

use super::*;

/// Maximum initial window for datagrams of up to 1472 bytes (RFC 9002 §7.2).
const INITIAL_WINDOW: u64 = 14_720;

fn law(name: &str) -> Arc<dyn ControllerFactory> {
    let law = Algorithm::parse(name).unwrap();
    Arc::new(move |now: Instant, mtu| law.controller(now, mtu))
}

/// A pair whose server uses the law `name`, without idle timeouts.
fn pair(name: &str) -> Pair {
    let mut setup = Setup::both(|config| config.max_idle_timeout = None);
    setup.server.controller = law(name);
    Pair::at_rest(setup)
}

/// The server writes as much as the stream accepts.
fn fill(pair: &mut Pair, id: StreamId, data: &[u8]) -> usize {
    let mut written = 0;
    while let Ok(n) = pair.server.get().streams().write(id, &data[written..]) {
        written += n;
        if written == data.len() {
            break;
        }
    }
    written
}

/// `packets` PINGs arrive, `gap` apart, each from the address that `from` returns. All packets of
/// the server are lost. Returns the bytes that the server received and sent.
fn flood(
    pair: &mut Pair,
    packets: u64,
    gap: Duration,
    mut from: impl FnMut(u64) -> &'static str,
) -> (u64, u64) {
    let id = pair.server.open();
    pair.down.faults.loss = 1_000_000;
    let before = pair.server.get().stats();
    let data = vec![7; 1 << 20];
    for n in 0..packets {
        fill(pair, id, &data);
        pair.client.address = from(n).parse().unwrap();
        send_frames(pair, From::Client, &[Frame::Ping]);
        pair.run(gap);
    }
    pair.run(Duration::from_millis(50));
    assert_eq!(pair.server.error(), None);
    let after = pair.server.get().stats();
    let received = after.bytes_received - before.bytes_received;
    (received, after.bytes_sent - before.bytes_sent)
}

fn is_bounded(what: &str, (received, sent): (u64, u64)) {
    let most = 3 * received + 2 * INITIAL_WINDOW;
    assert!(sent <= most, "{what}: {sent} bytes for {received}");
}

const RATES: [(u64, u64); 3] = [(20_000, 0), (2_000, 5), (3_900, 20)];

/// Another host, another port of the same host, and many ports of it.
#[test]
fn addresses_by_turns_get_no_window_each() {
    for (packets, gap) in RATES {
        for other in ["10.0.0.77:1000", "10.0.0.1:1001"] {
            let mut pair = pair("cubic");
            let flooded = flood(&mut pair, packets, Duration::from_millis(gap), |n| {
                [CLIENT, other][n as usize % 2]
            });
            is_bounded(&format!("{other}, {gap} ms"), flooded);
        }
    }
    let mut pair = pair("cubic");
    let ports = (0..500).map(|n| &*format!("10.0.0.1:{}", 2000 + n).leak());
    let ports: Vec<&'static str> = ports.collect();
    let flooded = flood(&mut pair, 2000, Duration::from_millis(5), |n| {
        ports[n as usize % ports.len()]
    });
    is_bounded("ports", flooded);
}

/// With slow turns, probe timeouts back off as if the peer hadn't moved.
#[test]
fn a_second_between_turns_gains_nothing() {
    let turns = |other: &'static str| {
        flood(&mut pair("cubic"), 55, Duration::from_secs(1), |n| {
            [other, CLIENT][n as usize % 2]
        })
    };
    let (_, stays) = turns(CLIENT);
    for other in ["10.0.0.77:1000", "10.0.0.1:1001"] {
        let (received, sent) = turns(other);
        assert!(sent <= stays + 3 * received, "{other}: {sent}, not {stays}");
    }
}

/// A random walk over three addresses of two hosts, with pauses of up to 30 ms.
#[test]
fn walks_over_three_addresses_get_no_window_each() {
    const PLACES: [&str; 3] = [CLIENT, "10.0.0.1:1001", "10.0.0.77:1000"];
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut pair = pair(["cubic", "newreno", "bbr"][seed as usize % 3]);
        let gap = Duration::from_millis(rng.next() % 30);
        let stays = 1 + rng.next() % 4;
        let flooded = flood(&mut pair, 400, gap, |n| {
            if n % stays == 0 {
                rng.next();
            }
            PLACES[(rng.clone().next() % 3) as usize]
        });
        is_bounded(&format!("seed {seed}"), flooded);
    }
}

/// A peer that acknowledged everything has a large window. This isn't granted to its own address
/// again for each packet that appears to be from there.
#[test]
fn a_large_window_is_not_lent() {
    let mut pair = pair("cubic");
    download(&mut pair, 8_000_000);
    pair.run(Duration::from_millis(200));
    assert!(pair.server.get().path_report(pair.now).controller.window > 500_000);
    let id = pair.server.open();
    // The client is away before there's anything to send.
    pair.down.faults.loss = 1_000_000;
    pair.client.address = "10.0.0.77:1000".parse().unwrap();
    send_frames(&mut pair, From::Client, &[Frame::Ping]);
    pair.run(Duration::from_millis(20));
    fill(&mut pair, id, &vec![7; 1 << 20]);
    let flooded = flood(&mut pair, 2000, Duration::from_millis(5), |n| {
        [CLIENT, "10.0.0.77:1000"][n as usize % 2]
    });
    is_bounded("a large window", flooded);
}

/// Downloads `bytes` to the client. Returns how long it took.
fn download(pair: &mut Pair, bytes: usize) -> Duration {
    pair.transfer(false, bytes, Duration::from_secs(60), |_, _| {})
}

/// A path of 10 Mbit/s, 40 ms, and an equally long queue.
fn narrow(name: &str) -> Pair {
    let mut pair = pair(name);
    pair.up.latency = Duration::from_millis(20);
    pair.down.latency = Duration::from_millis(20);
    pair.down.rate = Some(1_250_000);
    pair.down.queue = 50_000;
    pair
}

/// Downloads 5 MB to the client, calling `at` after each of the first four MB.
fn interrupted(name: &str, mut at: impl FnMut(&mut Pair, u16)) -> (Duration, Pair) {
    let mut pair = narrow(name);
    let mut times = 1..5;
    let took = pair.transfer(false, 5_000_000, Duration::from_secs(60), |pair, got| {
        if got >= 1_000_000 * usize::from(times.start)
            && let Some(n) = times.next()
        {
            at(pair, n);
        }
    });
    assert!(times.is_empty());
    (took, pair)
}

/// RFC 9000 §9.4: a NAT gives the client another port during a transfer. The window is kept, and
/// nothing waits for validation, so only packets in flight to the former port are lost.
#[test]
fn a_nat_that_rebinds_costs_no_throughput() {
    for name in ["cubic", "newreno"] {
        let (lost, _) = interrupted(name, |pair, _| pair.down.cut());
        let (took, mut pair) = interrupted(name, |pair, n| {
            pair.client.address.set_port(1000 + n);
            // The server notices this with the next packet.
            pair.client.get().ping();
        });
        assert_eq!(pair.server.get().stats().migrations, 4);
        println!("{name}: {took:?}, {lost:?} where as much is lost");
        // Packets sent to the former port until the server notices are also lost: less than a round
        // trip each time.
        let most = lost + 4 * Duration::from_millis(40);
        assert!(took <= most, "{name}: {took:?} instead of {lost:?}");
    }
}

/// If only the port changes because a NAT is rebound, no controller is created, and the previous
/// port is challenged like any address.
#[test]
fn another_port_keeps_the_controller() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload(50_000, Duration::from_secs(5));
    let built = pair.server.log().built;
    for port in [2000, 2001, 2000] {
        let rtt = |pair: &mut Pair| pair.server.get().path_report(pair.now).min_rtt;
        let before = rtt(&mut pair);
        pair.client.address.set_port(port);
        pair.ping_and_run(Duration::from_millis(100));
        assert_eq!(pair.server.get().remote_address(), pair.client.address);
        assert!(pair.server.get().path_report(pair.now).validated);
        assert!(rtt(&mut pair) <= before && before.is_some());
    }
    assert_eq!(pair.server.log().built, built);
    assert!(pair.server.get().stats().migrations >= 2);
    pair.upload(50_000, Duration::from_secs(5));
}

/// A copy from another port of the same host, sent by someone else, moves the connection. Packets
/// sent there are lost, and the peer makes the connection return.
#[test]
fn a_copy_from_another_port_does_little_harm() {
    let undisturbed = download(&mut narrow("cubic"), 5_000_000);
    let mut pair = narrow("cubic");
    let mut copied = false;
    pair.tap = Some(Box::new(move |now, datagram| {
        if !copied && now > Instant::from_millis(2000) && datagram.from.port() == 1000 {
            copied = true;
            datagram.from.set_port(9);
        }
    }));
    let took = download(&mut pair, 5_000_000);
    assert_eq!(pair.server.get().remote_address(), CLIENT.parse().unwrap());
    let most = undisturbed + Duration::from_millis(500);
    assert!(took <= most, "{took:?} instead of {undisturbed:?}");
}

/// The peer is back, but all bytes permitted before proof are lost. Since it only receives, the
/// server must probe.
#[test]
fn a_return_goes_on_although_all_that_was_lent_is_lost() {
    let mut pair = pair("cubic");
    let id = pair.server.open();
    pair.down.faults.loss = 1_000_000;
    for address in ["10.0.0.77:1000", CLIENT] {
        pair.client.address = address.parse().unwrap();
        send_frames(&mut pair, From::Client, &[Frame::Ping]);
        pair.run(Duration::from_millis(15));
    }
    pair.up.faults.loss = 1_000_000;
    let data = pattern(100_000, 1);
    assert_eq!(fill(&mut pair, id, &data), data.len());
    pair.server.get().streams().finish(id).unwrap();
    pair.run(Duration::from_millis(900));
    assert!(!pair.server.get().paths.limit().is_lifted());
    assert!(pair.server.get().paths.limit().available() < 1200);
    pair.down.faults.loss = 0;
    pair.up.faults.loss = 0;
    assert!(pair.read(true, id, Duration::from_secs(10)) == data);
    assert!(pair.server.get().paths.limit().is_lifted());
}
