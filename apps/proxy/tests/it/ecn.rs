//! The ECN field of UDP flows, from one end to the other.

use std::net::UdpSocket;
use std::time::Duration;

use pathmark_proxy::ingress::spec::Bind;
use pathmark_proxy::ingress::{Ingress, Limits, listen};
use tokio::runtime::Runtime;

use crate::support::marked::Marked;
use crate::support::{Served, access, target};

/// Not-ECT, ECT(1), ECT(0), CE.
const FIELDS: [u8; 4] = [0, 1, 2, 3];

/// Both directions, over both IP versions, in datagrams and in capsules.
#[test]
fn each_field_arrives_as_it_was_sent() {
    let runtime = Runtime::new().unwrap();
    let _entered = runtime.enter();
    let served = Served::new(access(&["a"]));
    let ingress = Ingress::new(served.tunnel("a"), Limits::default());
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let [client, far] = [(); 2].map(|()| {
            let socket = UdpSocket::bind(address).unwrap();
            let time = Some(Duration::from_secs(30));
            socket.set_read_timeout(time).unwrap();
            socket
        });
        let to = target(far.local_addr().unwrap());
        let (client, far) = (Marked::new(client), Marked::new(far));
        let bind: Bind = address.parse().unwrap();
        let listener = listen::udp(&bind).unwrap().remove(0);
        let forward = listener.local_addr().unwrap();
        let serving = ingress.clone();
        tokio::spawn(async move { serving.serve_udp(listener, to).await });
        for length in [3, 1_900] {
            for (up, down) in FIELDS.iter().flat_map(|up| FIELDS.map(|down| (*up, down))) {
                client.send(&vec![up; length], forward, up);
                let (payload, from, ecn) = far.receive();
                assert_eq!((payload, ecn), (vec![up; length], up), "{address}");
                far.send(&vec![down; length], from, down);
                let (payload, _, ecn) = client.receive();
                assert_eq!((payload, ecn), (vec![down; length], down), "{address}");
            }
        }
    }
}
