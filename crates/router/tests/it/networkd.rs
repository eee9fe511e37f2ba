//! systemd-networkd next to a router, in namespaces of the test's own.

use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::cards::{Cards, shell};
use crate::watched::{PATIENCE, Watched, has_nft};

/// systemd-networkd, with directories of its own, as the only user of the namespace.
const START_NETWORKD: &str = "mount --make-rprivate /; mount -t tmpfs run /run; \
     mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/networkd.conf.d; \
     mount -t sysfs -o ro sys /sys; \
     printf 'root:x:0:0::/:/bin/sh\\nsystemd-network:x:0:0::/:/bin/sh\\n' > /run/passwd; \
     printf 'root:x:0:\\nsystemd-network:x:0:\\n' > /run/group; \
     mount --bind /run/passwd /etc/passwd; mount --bind /run/group /etc/group; \
     for at in 1 2; do printf \"[Match]\\nName=extra$at\\n[Network]\\nAddress=10.77.$at.1/24\\n\" \
     > /run/systemd/network/extra$at.network; done; \
     [ -z \"$0\" ] || cp \"$0\" /run/systemd/networkd.conf.d/10-vcp-router.conf; \
     exec /lib/systemd/systemd-networkd";

/// The router logs what systemd-networkd removes when it configures a link, nothing passes by, and
/// set-up mends it; with the packaged drop-in, networkd removes nothing.
#[test]
fn networkd_is_seen_and_the_drop_in_stops_it() {
    if !std::path::Path::new("/lib/systemd/systemd-networkd").exists() {
        eprintln!("systemd-networkd is not installed: its deletions are made by `ip` alone");
        return;
    }
    let nft = has_nft();
    let drop_in = format!("{}/packaging/networkd.conf", env!("CARGO_MANIFEST_DIR"));
    for drop_in in ["", drop_in.as_str()] {
        let cards = Cards::with("on_stop = \"closed\"", "rate = \"10Mbit\"");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-euc", START_NETWORKD, drop_in]);
        command.stderr(std::process::Stdio::piped());
        let mut networkd = cards.kernel.spawn(command, &[]).unwrap();
        let stderr = networkd.child().stderr.take().unwrap();
        let said = std::thread::spawn(move || {
            let lines = BufReader::new(stderr).lines().map_while(Result::ok);
            lines.collect::<Vec<_>>().join("\n")
        });
        let configured = |cards: &Cards, at: u32| {
            let look = format!("ip -4 -o address show dev extra{at} | grep -q 10.77.{at}.1");
            let start = Instant::now();
            while shell(&cards.kernel, &look).code != Some(0) {
                if start.elapsed() > PATIENCE {
                    return false;
                }
            }
            true
        };
        let add = |at: u32| {
            format!("ip link add extra{at} type veth peer name peer{at}; ip link set peer{at} up")
        };
        cards.does(&add(1));
        if !configured(&cards, 1) {
            drop(networkd);
            panic!("systemd-networkd does not run: {}", said.join().unwrap());
        }
        let watched = Watched::new(cards);
        let udp = watched.cards.udp(false);
        udp.until_it_passes();
        watched.does(&add(2));
        if drop_in.is_empty() {
            let (_, line) = watched.line("steering of port lan is missing");
            assert!(line.contains("missing: ip -"), "{line}");
            udp.count();
            for _ in 0..50 {
                udp.probe();
            }
            assert!(!nft || udp.next(Duration::from_millis(100)) != Some(true));
            watched.cards.setup();
            watched.line("steering of port lan is back");
        } else {
            assert!(configured(&watched.cards, 2), "the link is not configured");
            assert_eq!(watched.cards.setup(), "", "networkd has removed something");
            watched.until("\"ok\":true");
        }
        udp.until_it_passes();
        udp.until_not_past();
    }
}
