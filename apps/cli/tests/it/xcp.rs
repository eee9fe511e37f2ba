//! XCP in reality: files through `vcp-router` on TUN interfaces, between separate processes,
//! compared with the emulator's results for the same path.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use pathmark_emulator::Scenario;
use pathmark_testbed::chain::{Chain, Hop, SENDER};
use pathmark_testbed::undisturbed;
use serde_json::Value;

use crate::common::on_node::{self, figures, router, shown as show, spawn};
use crate::common::{measuring, words};
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

/// Offers a file to clients that request XCP, or otherwise by VCP.
fn serve(chain: &Chain, bytes: usize) -> Served<'_> {
    Served::by(chain, "vcp+bise+wlte,xcp,xcp[form=compact]", bytes)
}

/// Fetches the file without knowledge of earlier downloads, and returns the figures.
fn fetch(served: &Served<'_>, cc: &str) -> Value {
    served.get(cc, Path::new("/dev/null"))
}

/// Returns a chain of one router with the same port in both directions, apart from the law.
fn one_router(rate: &str, delay: &str, rtt: &str, back: &str) -> Chain {
    let hop = Hop {
        forward: port(rate, delay, rtt, "xcp"),
        reverse: port(rate, delay, rtt, back),
    };
    Chain::new(router(), 1500, &[hop]).unwrap()
}

#[test]
fn a_file_by_xcp_through_a_router() {
    let _place = measuring();
    undisturbed(|| {
        let chain = one_router("50Mbit", "10ms", ROOM, "none");
        let served = serve(&chain, 10_000_000);
        for cc in ["xcp", "xcp[form=compact]"] {
            // The server uses VCP unless the client requests another law from its list.
            let figures = fetch(&served, cc);
            println!("{figures}");
            assert_eq!(figures["feedback"], "xcp", "{cc}");
            assert_eq!(figures["router_id"], 1, "{cc}");
            assert_eq!(figures["packets_lost"], 0, "{cc}");
            let goodput = figures["goodput_down_bps"].as_f64().unwrap();
            assert!(goodput > 35e6, "{cc}: {goodput}");
        }
        let state = show(&chain, 0);
        let link = &state["links"][0];
        keeps_its_queue_empty(link);
        let law = &link["controller"];
        assert_eq!(law["law"], "xcp");
        assert!(law["stamped"].as_u64().unwrap() > 10_000, "{law}");
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
    let _place = measuring();
    undisturbed(|| {
        let chain = one_router("10Mbit", "100ms", "200ms", "none");
        let served = serve(&chain, 4_000_000);
        let (chain, served) = (&chain, &served);
        let figures = std::thread::scope(|scope| {
            let fetching = scope.spawn(|| fetch(served, "xcp"));
            let sent = || show(chain, 0)["links"][0]["sent_packets"].as_u64().unwrap();
            while sent() < 1_200 {}
            let router = chain.router(0).unwrap();
            router.halt().unwrap();
            #[expect(clippy::disallowed_methods, reason = "the stall, in real time")]
            std::thread::sleep(Duration::from_secs(1));
            router.go_on().unwrap();
            fetching.join().unwrap()
        });
        println!("{figures}");
        assert_eq!(figures["feedback"], "xcp");
        assert_eq!(figures["packets_lost"], 0);
        let link = &show(chain, 0)["links"][0];
        assert_eq!(link["drops"], 0, "{link}");
        let longest = figures["rtt_ms"]["max"].as_f64().unwrap();
        assert!((1_000.0..=1_240.0).contains(&longest), "{longest}");
    });
}

#[test]
fn both_directions_at_once_by_xcp() {
    let _place = measuring();
    undisturbed(|| {
        let chain = one_router("30Mbit", "10ms", ROOM, "xcp");
        let listen = format!("{SENDER}:4433");
        let server = [
            "perf", "server", "--listen", &listen, "--cc", "xcp", "--json",
        ];
        let (_server, said) = on_node::serve(&chain.sender, &server);
        let client = format!(
            "perf client {listen} --cc xcp --pin {} --upload 4MB --download 4MB --streams 2 --json",
            said["pin"].as_str().unwrap()
        );
        let figures = figures(spawn(&chain.receiver, &words(&client)));
        assert_eq!(figures["feedback"], "xcp", "{figures}");
        for direction in ["bytes_up", "bytes_down"] {
            assert_eq!(figures[direction], 8_000_000, "{direction}");
        }
        let state = show(&chain, 0);
        for link in [&state["links"][0], &state["links"][1]] {
            keeps_its_queue_empty(link);
            let law = &link["controller"];
            assert!(law["stamped"].as_u64().unwrap() > 5_000, "{law}");
            assert!(law["given_bps"].as_f64().unwrap() > 20e6, "{law}");
        }
    });
}

/// Figure 5 of the paper in reality: four flows, 10 Mbit/s, 500 ms. Each transfers as much as an
/// XCP flow does in half a minute. The emulator's files over the same path finish in the same time,
/// apart from delays of the machine.
#[test]
fn four_flows_of_the_xcp_linux_paper_as_in_the_emulator() {
    let _place = measuring();
    undisturbed(|| {
        const BYTES: usize = 6_000_000;
        let chain = one_router("10Mbit", "250ms", "500ms", "none");
        let served = serve(&chain, BYTES);
        let real = std::thread::scope(|scope| {
            let clients = [(); 4].map(|()| scope.spawn(|| fetch(&served, "xcp")));
            clients.map(|client| client.join().unwrap())
        });
        let link = show(&chain, 0)["links"][0].clone();

        let scenario = format!(
            "name = \"four files\"\nduration = \"120s\"\n\
         [[link]]\nname = \"bottleneck\"\nfrom = \"R\"\nto = \"D\"\nduplex = true\nrate \
         = \"10Mbit\"\ndelay = \"250ms\"\n\
         queue = {{ limit = \"1bdp\" }}\ncontroller = \"xcp\"\n\
         [[link]]\nname = \"access\"\nfrom = \"S\"\nto = \"R\"\nduplex = true\n\
         [[flow]]\nname = \"f\"\nfrom = \"S\"\nto = \"D\"\nalgorithm = \"xcp\"\ncount = 4\nbytes = \
         {BYTES}\n"
        );
        let scenario = Scenario::parse(Path::new("four files"), &scenario).unwrap();
        let emulated = scenario.run(|_| ControlFlow::Continue(())).unwrap();

        assert_eq!(link["drops"], 0);
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / 4.0;
        let real_goodput = mean(&mut real.iter().map(|figures| {
            assert_eq!(figures["feedback"], "xcp");
            println!("{figures}");
            figures["goodput_down_bps"].as_f64().unwrap()
        }));
        let emulated_goodput = mean(&mut emulated.flows.iter().map(|flow| flow.goodput_bps));
        let ratio = real_goodput / emulated_goodput;
        // `get` counts from the end of the handshake to the end of its answer, and emulated flows
        // count from their first packet to their last byte: this is half a round trip in twenty
        // seconds.
        println!("real {real_goodput:.0} bit/s, emulated {emulated_goodput:.0} bit/s: {ratio:.4}");
        // 0.999 and 0.992 in two runs, and 0.893 in one, for unknown reasons.
        assert!((0.85..=1.05).contains(&ratio), "{ratio}");
    });
}
