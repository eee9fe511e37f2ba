//! Granted starts in reality: files through `vcp-router` on TUN interfaces, between separate
//! processes.

use std::path::Path;
use std::thread;
use std::time::Duration;

use pathmark_testbed::chain::{Chain, Hop, SENDER};
use pathmark_testbed::{ChildGuard, undisturbed};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::on_node::{figures, router, serve, shown};
use crate::common::{at_once, piped};

/// Returns a hop of 20 Mbit/s and 50 ms each way.
fn hop(controller: &str) -> Hop {
    let port = |controller: &str| {
        format!(
            "rate = \"20Mbit\"\ndelay = \"50ms\"\ncontroller = \"{controller}\"\n\
             queue = {{ kind = \"droptail\", limit = \"1bdp\", rtt = \"200ms\" }}\n"
        )
    };
    Hop {
        forward: port(controller),
        reverse: port("none"),
    }
}

/// A server of one file.
pub(crate) struct Served<'a> {
    chain: &'a Chain,
    _process: ChildGuard,
    _directory: Offered,
    bytes: usize,
    pin: String,
}

impl<'a> Served<'a> {
    /// Starts a server that uses the first of these laws, unless the client requests another.
    pub(crate) fn by(chain: &'a Chain, laws: &str, bytes: usize) -> Self {
        let directory = Offered::new();
        std::fs::write(directory.path().join("file"), vec![7; bytes]).unwrap();
        let listen = format!("{SENDER}:4433");
        let there = directory.path().to_str().unwrap();
        let arguments = [
            "serve", "--listen", &listen, "--dir", there, "--cc", laws, "--json",
        ];
        let (process, said) = serve(&chain.sender, &arguments);
        Self {
            chain,
            _process: process,
            _directory: directory,
            bytes,
            pin: said["pin"].as_str().unwrap().to_owned(),
        }
    }

    /// Fetches the file by `get --cc` with this directory for state, and returns the figures.
    pub(crate) fn get(&self, cc: &str, state: &Path) -> Value {
        let here = TempDir::new().unwrap();
        let target = format!("{SENDER}:4433/file");
        let out = here.path().to_str().unwrap();
        let mut get = piped(&[
            "get", &target, "-o", out, "--pin", &self.pin, "--cc", cc, "--json",
        ]);
        get.env("XDG_STATE_HOME", state);
        let figures = figures(self.chain.receiver.spawn(get, &[]).unwrap());
        let got = std::fs::read(here.path().join("file")).unwrap();
        assert_eq!(got, vec![7; self.bytes]);
        figures
    }
}

/// Fetches a file of 1 MB by `get --cc`, and returns the figures.
fn fetch(chain: &Chain, cc: &str) -> Value {
    let served = Served::by(chain, "vcp+bise+wlte,cubiq,ada,auto,cubic", 1_000_000);
    served.get(cc, Path::new("/dev/null"))
}

fn grants(chain: &Chain, router: usize) -> Value {
    shown(chain, router)["links"][0]["controller"]["grants"].clone()
}

/// 1 MB takes 0.42 s on the wire, and the request takes 0.2 s. Slow start from ten packets over 200
/// ms would take five round trips more.
#[test]
fn two_routers_grant_a_file_its_rate() {
    undisturbed(|| {
        // Each law gets new routers, because the rate in use is that of the busiest 200 ms of the
        // last second, so that a file that ended within this time would lower the next grant.
        let fresh = |cc: &str| {
            let hops = [hop("quick-start"), hop("quick-start")];
            let chain = Chain::new(router(), 1500, &hops).unwrap();
            chain.hide_wires().unwrap();
            let figures = fetch(&chain, cc);
            (chain, figures)
        };
        let plain = fresh("cubic").1["seconds"].as_f64().unwrap();
        at_once(["cubiq", "ada"], |cc| {
            let (chain, figures) = fresh(cc);
            println!("{cc}: {figures}");
            assert_eq!(figures["feedback"], "quick-start", "{cc}");
            assert_eq!(figures["packets_lost"], 0, "{cc}");
            let seconds = figures["seconds"].as_f64().unwrap();
            assert!(seconds < 0.75 * plain, "{cc}: {seconds} s, cubic {plain} s");
            for router in 0..2 {
                assert!(once_or_twice(&grants(&chain, router)), "{cc}");
            }
        });
    });
}

/// A first download is granted almost all of an idle link. A second download right afterwards would
/// get less, because the rate in use is that of the busiest 200 ms of the last second.
#[test]
fn two_routers_grant_auto_its_rate() {
    undisturbed(|| {
        // 0.6 of CUBIC's time on an idle machine; on a busy one, hosts and routers are late.
        const SHARE: f64 = 0.9;
        at_once(["vcp+bise", "xcp", "quick-start"], |controller| {
            let chain = Chain::new(router(), 1500, &[hop(controller), hop(controller)]).unwrap();
            chain.hide_wires().unwrap();
            let figures = fetch(&chain, "auto");
            let plain = fetch(&chain, "cubic");
            println!("{controller}: {figures}, CUBIC {plain}");
            assert_eq!(figures["start"], "used", "{controller}");
            assert_eq!(figures["packets_lost"], 0, "{controller}");
            let approved = figures["approved_bps"].as_f64().unwrap();
            // 85 % of 20 Mbit/s, minus the rate of the handshake in one sample.
            let is_right = (14e6..17.1e6).contains(&approved);
            assert!(is_right, "{controller}: {approved}");
            let seconds = |figures: &Value| figures["seconds"].as_f64().unwrap();
            assert!(
                seconds(&figures) < SHARE * seconds(&plain),
                "{controller}: {figures} {plain}"
            );
            for router in 0..2 {
                assert!(once_or_twice(&grants(&chain, router)), "{controller}");
            }
        });
    });
}

/// Checks that a request was granted. It is repeated if a machine under load delays the answer for
/// more than two round trips.
fn once_or_twice(grants: &Value) -> bool {
    matches!(grants["granted"].as_u64(), Some(1 | 2))
}

/// A kernel between the routers decrements the IP TTL by 1 and doesn't know Quick-Start.
#[test]
fn with_a_plain_router_between_starts_are_careful_and_nothing_stalls() {
    undisturbed(|| {
        let cases = [
            ("quick-start", "cubiq"),
            ("quick-start", "auto"),
            ("xcp", "auto"),
            ("vcp+bise", "auto"),
        ];
        at_once(cases, |(controller, cc)| {
            let chain = Chain::new(router(), 1500, &[hop(controller), hop(controller)]).unwrap();
            // The traffic of CUBIC would count as in use, and CUBIC doesn't request a grant.
            let figures = fetch(&chain, cc);
            let plain = fetch(&chain, "cubic");
            println!("{controller}, {cc}: {figures}");
            let seconds = |figures: &Value| figures["seconds"].as_f64().unwrap();
            assert_eq!(figures["packets_lost"], 0, "{controller}, {cc}");
            // RFC 4782 makes the answer invalid; `auto` starts at half of the rate.
            if cc == "cubiq" {
                assert_eq!(figures["approved_bps"], Value::Null, "{controller}, {cc}");
                assert_eq!(figures["start"], "partial", "{controller}, {cc}");
            } else {
                assert_eq!(figures["start"], "used", "{controller}, {cc}");
            }
            // Laws that follow routers may be faster than CUBIC without a grant; none is slower.
            let ratio = seconds(&figures) / seconds(&plain);
            let least = if cc == "cubiq" { 0.8 } else { 0.3 };
            assert!(
                (least..1.3).contains(&ratio),
                "{controller}, {cc}: {plain} {figures}"
            );
            // Both routers granted the request. Only the sender notices the hop without feedback.
            assert!(once_or_twice(&grants(&chain, 0)), "{controller}, {cc}");
            assert!(once_or_twice(&grants(&chain, 1)), "{controller}, {cc}");
        });
    });
}

/// Waits until ports count as idle. A port's rate in use is that of the busiest 200 ms of the last
/// second. Since a router doesn't report the end of this time, the test waits for a second, such a
/// period, and 300 ms for timers.
#[expect(clippy::disallowed_methods, reason = "real time passes at the routers")]
fn until_ports_are_idle() {
    thread::sleep(Duration::from_millis(1500));
}

/// Returns the figures of two consecutive processes of the same user that fetch from a server.
fn fetch_twice(chain: &Chain, cc: &str) -> [Value; 2] {
    let state = TempDir::new().unwrap();
    let served = Served::by(chain, cc, 1_000_000);
    let first = served.get(cc, state.path());
    until_ports_are_idle();
    let second = served.get(cc, state.path());
    println!("{cc}: {first} {second}");
    for (figures, known) in [(&first, false), (&second, true)] {
        assert_eq!(figures["known_path"], known, "{figures}");
        assert_eq!(figures["packets_lost"], 0, "{figures}");
    }
    [first, second]
}

/// The second one starts with the granted flight, and saves the round trip of 200 ms that the first
/// one needed for its request.
#[test]
fn a_second_get_of_a_server_begins_with_its_granted_flight() {
    undisturbed(|| {
        at_once([("quick-start", "cubiq"), ("xcp", "auto")], |(port, cc)| {
            let chain = Chain::new(router(), 1500, &[hop(port), hop(port)]).unwrap();
            chain.hide_wires().unwrap();
            let both = fetch_twice(&chain, cc);
            let [first, second] = both.each_ref().map(|figures| {
                assert_eq!(figures["start"], "used", "{port}, {cc}");
                figures["seconds"].as_f64().unwrap()
            });
            assert!(first - second > 0.1, "{port}, {cc}: {both:?}");
        });
    });
}

/// The rate over a path on which a router doesn't take part is remembered as well. This router
/// approves nothing, and the request costs nothing.
#[test]
fn a_second_get_behind_a_plain_router_takes_as_long_as_the_first() {
    undisturbed(|| {
        let chain = Chain::new(router(), 1500, &[hop("quick-start"), hop("quick-start")]).unwrap();
        let both = fetch_twice(&chain, "cubiq");
        let [first, second] = both.each_ref().map(|figures| {
            assert_eq!(figures["start"], "partial");
            assert_eq!(figures["approved_bps"], Value::Null);
            figures["seconds"].as_f64().unwrap()
        });
        assert!(second < 1.2 * first, "{both:?}");
    });
}
