//! XCP in reality: files through `vcp-router` on TUN interfaces, between separate processes.

use std::path::Path;
use std::time::Duration;

use pathmark_testbed::chain::{Chain, Hop, SENDER};
use pathmark_testbed::undisturbed;
use serde_json::Value;

use crate::common::on_node::{client, figures, router, shown, start};
use crate::common::{alone, pathmark};
use crate::quick_start::Served;

/// Buffer size for packets that wait while a process waits for a processor. A sender that fills
/// queues would also fill this one, whereas XCP's flows leave it nearly empty.
const ROOM: &str = "200ms";

/// Checks that nothing was dropped and that the queue was almost always nearly empty.
fn keeps_its_queue_empty(link: &Value) {
    assert_eq!(link["drops"], 0, "{link}");
    let mean = link["queue_ms"]["mean"].as_f64().unwrap();
    assert!(mean < 20.0, "{link}");
}

/// Returns a port of `rate` and `delay` whose buffer is one bandwidth-delay product of `rtt`.
fn port(rate: &str, delay: &str, rtt: &str, controller: &str) -> String {
    format!(
        "rate = \"{rate}\"\ndelay = \"{delay}\"\ncontroller = \"{controller}\"\n\
         queue = {{ kind = \"droptail\", limit = \"1bdp\", rtt = \"{rtt}\" }}\n"
    )
}

fn serve(chain: &Chain, bytes: usize) -> Served<'_> {
    Served::by(chain, "vcp+bise+wlte,xcp,xcp[form=compact]", bytes)
}

#[test]
fn a_file_by_xcp_through_a_router() {
    let _alone = alone();
    undisturbed(|| {
        let hop = Hop {
            forward: port("50Mbit", "10ms", ROOM, "xcp"),
            reverse: port("50Mbit", "10ms", ROOM, "none"),
        };
        let chain = Chain::new(router(), 1500, &[hop]).unwrap();
        let served = serve(&chain, 20_000_000);
        for cc in ["xcp", "xcp[form=compact]"] {
            // The server uses VCP unless the client requests another law from its list.
            let figures = served.get(cc, Path::new("/dev/null"));
            println!("{figures}");
            assert_eq!(figures["feedback"], "xcp", "{cc}");
            assert_eq!(figures["router_id"], 1, "{cc}");
            assert_eq!(figures["packets_lost"], 0, "{cc}");
            let goodput = figures["goodput_down_bps"].as_f64().unwrap();
            assert!(goodput > 35e6, "{cc}: {goodput}");
        }
        let state = shown(&chain, 0);
        let link = &state["links"][0];
        keeps_its_queue_empty(link);
        let law = &link["controller"];
        assert_eq!(law["law"], "xcp");
        assert!(law["stamped"].as_u64().unwrap() > 20_000, "{law}");
        assert!(law["given_bps"].as_f64().unwrap() > 40e6, "{law}");
        // XCP can't allocate the capacity that foreign packets (handshakes, acknowledgements) use.
        let capacity = law["capacity_bps"].as_f64().unwrap();
        assert!((49e6..=50e6).contains(&capacity), "{law}");
    });
}

/// A router that is stopped for a second grants nothing during this time. No queue overflows, and
/// no round trip takes longer than the path, the stop and 20 ms, plus the delays of this machine.
#[test]
fn a_router_that_stands_still_drops_nothing_of_xcp() {
    let _alone = alone();
    undisturbed(|| {
        let hop = Hop {
            forward: port("10Mbit", "100ms", "200ms", "xcp"),
            reverse: port("10Mbit", "100ms", "200ms", "none"),
        };
        let chain = Chain::new(router(), 1500, &[hop]).unwrap();
        let served = serve(&chain, 8_000_000);
        let (chain, served) = (&chain, &served);
        let figures = std::thread::scope(|scope| {
            let fetching = scope.spawn(|| served.get("xcp", Path::new("/dev/null")));
            let sent = || {
                shown(chain, 0)["links"][0]["sent_packets"]
                    .as_u64()
                    .unwrap()
            };
            while sent() < 2_000 {}
            let stalled = chain.router(0).unwrap();
            stalled.halt().unwrap();
            #[expect(clippy::disallowed_methods, reason = "the stall, in real time")]
            std::thread::sleep(Duration::from_secs(1));
            stalled.go_on().unwrap();
            fetching.join().unwrap()
        });
        println!("{figures}");
        assert_eq!(figures["feedback"], "xcp");
        assert_eq!(figures["packets_lost"], 0);
        let link = &shown(chain, 0)["links"][0];
        assert_eq!(link["drops"], 0, "{link}");
        let longest = figures["rtt_ms"]["max"].as_f64().unwrap();
        assert!((1_000.0..=1_240.0).contains(&longest), "{longest}");
    });
}

#[test]
fn both_directions_at_once_by_xcp() {
    let _alone = alone();
    undisturbed(|| {
        let hop = Hop {
            forward: port("30Mbit", "10ms", ROOM, "xcp"),
            reverse: port("30Mbit", "10ms", ROOM, "xcp"),
        };
        let chain = Chain::new(router(), 1500, &[hop]).unwrap();
        let listen = format!("{SENDER}:4433");
        let server = ["perf", "server", "--listen", &listen, "--cc", "xcp"];
        let (_server, said) = start(&chain.sender, &server);
        let mut perf = pathmark(&["perf", "client", &listen, "--cc", "xcp", "--json"]);
        perf.args(["--pin", said["pin"].as_str().unwrap()]);
        perf.args(["--upload", "8MB", "--download", "8MB", "--streams", "2"]);
        let figures = figures(client(&chain.receiver, perf));
        assert_eq!(figures["feedback"], "xcp", "{figures}");
        assert_eq!(
            (&figures["bytes_up"], &figures["bytes_down"]),
            (&16_000_000.into(), &16_000_000.into())
        );
        let state = shown(&chain, 0);
        for link in [&state["links"][0], &state["links"][1]] {
            keeps_its_queue_empty(link);
            let law = &link["controller"];
            assert!(law["stamped"].as_u64().unwrap() > 10_000, "{law}");
            assert!(law["given_bps"].as_f64().unwrap() > 20e6, "{law}");
        }
    });
}
