//! Three routers in a row, the middle one without XCP: the last one measures its unused
//! capacity.

#[path = "clouds_tests/row.rs"]
mod row;

use std::collections::BTreeMap;
use std::net::IpAddr;

use xcp_proto::Form;

use super::super::cloud_meter::MOST_NAMED;
use super::super::super_tests::segments_of;
use super::super::tests::{renew, udp};
use super::*;
use row::{BACK, OUT, PORT, RECEIVER, Row, SENDER, address, meter};

/// Both versions at once: for each address of the upstream router, packets of the other version
/// are foreign.
#[test]
fn a_cloud_of_both_versions_of_ip() {
    let mut row = measured();
    row.forms = vec![Form::V4, Form::V6];
    let share = |bytes: i64| bytes as f64 / 3_750_000.0;
    let mut left = BTreeMap::<IpAddr, Vec<f64>>::new();
    // A train lasts a few milliseconds, and meets more or fewer packets. After some seconds, the
    // first ones are averaged out, and the median counts.
    for half_seconds in 20..=60 {
        row.run(Duration::from_millis(500 * half_seconds));
        let meter = row.routers[2].cloud_meter().unwrap();
        for known in meter.estimates(row.now) {
            let estimate = &known.estimate;
            let capacity = share(estimate.capacity as i64);
            assert!((capacity - 1.0).abs() < 0.03, "{estimate:?}");
            let available = share(estimate.available);
            left.entry(known.upstream).or_default().push(available);
        }
    }
    assert_eq!(left.len(), 2);
    for (upstream, mut left) in left {
        assert!(left.len() > 10, "{upstream}: {left:?}");
        left.sort_by(f64::total_cmp);
        let median = left[left.len() / 2];
        assert!((median - 1.0 / 3.0).abs() < 0.08, "{upstream}: {left:?}");
    }
    assert_eq!(row.clouds().known, 2);
    // Messages are of the version of the address that they are for.
    let versions = [4, 6].map(|version| {
        let messages = row.requests.iter().chain(&row.answers);
        messages.filter(|bytes| bytes[0] >> 4 == version).count()
    });
    assert!(versions.iter().all(|count| *count > 50), "{versions:?}");
}

/// 10 of 30 Mbit/s are used. The port must get the estimate, the sender's packets must be
/// counted in a virtual router, and no other packets may change.
#[test]
fn a_plain_router_in_the_middle_is_measured() {
    let mut row = measured();
    row.run(Duration::from_secs(4));
    let known = row.estimate().unwrap();
    let share = |bytes: i64| bytes as f64 / 3_750_000.0;
    let capacity = share(known.capacity as i64);
    assert!((capacity - 1.0).abs() < 0.03, "{known:?}");
    let available = share(known.available);
    assert!((available - 2.0 / 3.0).abs() < 0.05, "{known:?}");
    let clouds = row.clouds();
    assert_eq!((clouds.upstreams, clouds.known), (1, 1));
    assert!(clouds.counted > 2000, "{clouds:?}");
    // Four seconds of data, but no messages, must have arrived at the end.
    let arrived = row.arrived.len();
    assert!((3990..=4000).contains(&arrived), "{arrived}");
    let before = row.routers[0].cloud_meter().unwrap();
    let answers = before.measurer().edge().prober.stats();
    assert!(answers.trains > 5 && answers.refused == 0, "{answers:?}");
    let counts = row.routers[1].counters();
    assert_eq!((counts.local, counts.no_route), (0, 0));
}

/// With another secret, requests must get no answer, and count as forged.
#[test]
fn strangers_get_no_answer() {
    let mut row = Row::new(["xcp-i", "none", "xcp-i[estimate=real]"]);
    row.routers[0].set_cloud_meter(Some(meter(0, SECRET)));
    row.routers[2].set_cloud_meter(Some(meter(2, b"another one of sixteen bytes")));
    row.run(Duration::from_secs(4));
    assert_eq!(row.estimate(), None);
    let before = row.routers[0].cloud_meter().unwrap();
    let asked = before.measurer().edge().forged();
    assert!((3..=9).contains(&asked), "{asked}");
    assert_eq!(before.counts().sent, 0);
}

/// Without a meter, or for another port, a router must reply with port unreachable as usual.
#[test]
fn other_packets_for_the_router_are_answered_as_before() {
    let mut row = Row::new(["xcp-i", "none", "none"]);
    let own = address(0).to_string();
    let mut packet = udp(RECEIVER, &own, 64, 0x4000, &[4; 64]);
    let unreachable = |row: &Row| row.routers[0].counters().icmp_sent;
    packet[22..24].copy_from_slice(&PORT.to_be_bytes());
    row.receive(0, OUT, &packet);
    assert_eq!(unreachable(&row), 1);
    row.routers[0].set_cloud_meter(Some(meter(0, SECRET)));
    row.receive(0, OUT, &packet);
    assert_eq!(unreachable(&row), 1);
    packet[22..24].copy_from_slice(&(PORT + 1).to_be_bytes());
    row.receive(0, OUT, &packet);
    assert_eq!(unreachable(&row), 2);
    assert_eq!(row.routers[0].cloud_meter().unwrap().counts().received, 1);
}

const SECRET: &[u8] = b"a secret of sixteen bytes";

fn measured() -> Row {
    let mut row = Row::new(["xcp-i", "none", "xcp-i[estimate=real]"]);
    for router in [0, 2u8] {
        let meter = meter(router, SECRET);
        row.routers[usize::from(router)].set_cloud_meter(Some(meter));
    }
    row
}

/// The upstream router disappears. Its estimate must expire within seconds, packets must report
/// an unaccounted cloud, and only a few requests may be sent. Once the router is back, it must
/// be asked again.
#[test]
fn a_router_that_vanishes() {
    let mut row = measured();
    row.run(Duration::from_secs(2));
    assert!(row.estimate().is_some());
    row.routers[0].set_cloud_meter(None);
    let asked = row.requests.len();
    row.run(Duration::from_secs(8));
    assert_eq!(row.estimate(), None);
    let before = row.clouds();
    row.run(Duration::from_secs(9));
    let after = row.clouds();
    assert_eq!(after.counted, before.counted);
    assert!(after.unknown >= before.unknown + 990, "{after:?}");
    assert!(row.requests.len() - asked <= 12);
    row.routers[0].set_cloud_meter(Some(meter(0, SECRET)));
    row.run(Duration::from_secs(16));
    assert!(row.estimate().is_some());
}

/// A thousand made-up routers per second, each of which would be asked: memory must be bounded,
/// few requests may be sent, and the estimate of the known cloud must stay.
#[test]
fn made_up_routers_in_headers() {
    let mut row = measured();
    row.run(Duration::from_secs(2));
    row.floods = true;
    let counts = row.routers[2].cloud_meter().unwrap().counts();
    row.run(Duration::from_secs(6));
    assert!(row.made_up > 30_000);
    assert!(row.estimate().is_some());
    let clouds = row.clouds();
    assert!(clouds.upstreams <= 32 && clouds.known == 1, "{clouds:?}");
    assert!(clouds.counted > 5000, "{clouds:?}");
    // They have no route; there are at most 10 requests at once, and 10 per second.
    let after = row.routers[2].cloud_meter().unwrap().counts();
    assert!(after.unsent - counts.unsent <= 60, "{after:?}");
}

/// Made-up routers before two ports fill the list of routers to ask. The one before a third
/// port, with more bytes, must still be asked.
#[test]
fn made_up_routers_before_one_port_leave_room_for_those_before_another() {
    let of = |n: u8| Upstream::of(IpAddr::from([192, 0, 2, n])).unwrap();
    let mut named = Vec::new();
    for n in 0..100 {
        gather(&mut named, of(n), 1500);
    }
    assert_eq!(named.len(), MOST_NAMED);
    gather(&mut named, of(200), 150_000);
    gather(&mut named, of(200), 150_000);
    assert_eq!(named.len(), MOST_NAMED);
    assert!(named.contains(&(of(200), 300_000)));
    gather(&mut named, of(201), 1500);
    let is_named = named.iter().any(|(router, _)| *router == of(201));
    assert!(!is_named, "no more than others");
}

/// A tunnel in the cloud sets the TTL of its packets. The value that they would have without the
/// cloud hides it, and any other makes it seem longer. Both must be harmless.
#[test]
fn a_tunnel_that_rewrites_the_ttl() {
    for (ttl, found) in [(63, false), (255, true), (12, true)] {
        let mut row = measured();
        row.tunnel = Some(ttl);
        row.run(Duration::from_secs(2));
        assert_eq!(row.clouds().upstreams > 0, found, "{ttl}");
        assert_eq!(row.estimate().is_some(), found, "{ttl}");
        assert!(row.arrived.len() >= 1990);
    }
}

/// A flood of forged messages must not cost more than ten thousand authenticators per second,
/// and the cloud stays known as long as an estimate is valid.
#[test]
fn a_flood_of_forged_messages() {
    let mut row = measured();
    row.run(Duration::from_secs(2));
    let own = address(2).to_string();
    let mut payload = row.answers[0][28..].to_vec();
    payload[20] ^= 1;
    let mut forged = udp(&address(0).to_string(), &own, 60, 0x4000, &payload);
    forged[20..24].copy_from_slice(&[PORT.to_be_bytes(), PORT.to_be_bytes()].concat());
    for _ in 0..50_000 {
        row.receive(2, BACK, &forged);
    }
    let meter = row.routers[2].cloud_meter().unwrap();
    let looked_at = meter.measurer().edge().forged();
    assert!(looked_at <= 1_000, "{looked_at}");
    assert!(meter.counts().too_many >= 49_000);
    assert!(row.estimate().is_some());
    row.run(Duration::from_secs(4));
    assert!(row.estimate().is_some());
}

/// Packets that a host sends in sequence may arrive as one super-packet, of which each segment
/// is a message.
#[test]
fn messages_in_a_super_packet() {
    let mut row = measured();
    let own = address(2).to_string();
    let mut bytes = udp(SENDER, &own, 60, 0x4000, &[4; 5 * 64]);
    bytes[22..24].copy_from_slice(&PORT.to_be_bytes());
    let offload = segments_of(64);
    let mut buffer = vec![0; 2048].into_boxed_slice();
    buffer[..bytes.len()].copy_from_slice(&bytes);
    row.routers[2].receive(row.now, BACK, &mut buffer, bytes.len(), offload);
    let meter = row.routers[2].cloud_meter().unwrap();
    assert_eq!(meter.counts().received, 5);
}
