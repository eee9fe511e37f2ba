//! The dissector for Wireshark, `docs/wireshark/pathmark.lua`, reads the vectors of the wire format
//! as the document describes them.

use std::process::Command;

use crate::vectors::vector;

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/wireshark/pathmark.lua"
);

/// Returns a capture (pcap, raw IP) with a UDP packet for each payload.
fn capture(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for payload in payloads {
        let len = 28 + payload.len();
        for word in [1, 0, len, len] {
            file.extend((word as u32).to_le_bytes());
        }
        file.extend([0x45, 0, 0, len as u8, 0, 0, 0, 0, 64, 17, 0, 0]);
        file.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        file.extend([0xc3, 0x50, 0x11, 0x51, 0, len as u8 - 20, 0, 0]);
        file.extend(payload);
    }
    file
}

/// Vectors, and what the text and the comments of the document say of them.
const EXPECTED: &str = "
fresh: code=1 bise=1 r_carried=1 hops=0 router=0 r=65535 t_rho=0 load=0 rtt_class=47
marked: code=1 router=11 r=30000 t_rho=200 load=60 translated=0 hops=1
marked-translated: code=1 router=11 translated=1
marked-twice: code=2 router=22 t_rho=1250 load=110 bise=0 hops=2
marked-declared: router=11 declared=5
marked-declared-twice: router=22 declared=6
quick-start: rate=125009920 function=0 qs.rtt=64 nonce=010203040506
quick-start-approved: rate=31244288 function=1
quick-start-denied: rate=0
quick-start-keep: rate=31244288 function=2
quick-start-kept: rate=15622144 function=3
xcp-fresh: stamped=0 xcp.rtt=100 x=0.001 delta=1235000 covers=1 xcp.ttl=64
xcp-stamped: stamped=1 delta=9548 router=11 last_router=c000020b
xcp-stamped-twice: stamped=1 delta=-1097.5 router=22
xcp-stamped-translated: format=5 translated=1
xcp-stamped-ipv6: last_router=20010db8000000000000000000000011 router=11
xcp-stamped-declared: declared=5
xcp-compact: window=100 xcp.rtt=100 covers=1 stamped=0 format=1
xcp-compact-stamped: feedback=0 router=11 stamped=1
unknown: kind=5
";

#[test]
fn the_dissector_reads_what_the_document_says() {
    if let Err(error) = Command::new("tshark").arg("--version").output() {
        assert!(
            std::env::var_os("CI").is_none(),
            "tshark judges the dissector and is missing here ({error}): install it, or run \
             .ci/run, which does"
        );
        println!("not judged: tshark is not installed ({error})");
        return;
    }
    let expected: Vec<_> = EXPECTED
        .trim()
        .lines()
        .map(|line| line.split_once(": ").unwrap())
        .collect();
    let mut payloads: Vec<Vec<u8>> = expected.iter().map(|(name, _)| vector(name)).collect();
    // A wrong check, a shim that is cut off, and a QUIC packet.
    let mut wrong = vector("fresh");
    wrong[15] ^= 1;
    payloads.extend([wrong, vector("fresh")[..12].to_vec(), vec![0x40; 30]]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("vectors.pcap");
    std::fs::write(&file, capture(&payloads)).unwrap();
    let output = Command::new("tshark")
        .args([
            "-n",
            "-T",
            "json",
            "-X",
            &format!("lua_script:{SCRIPT}"),
            "-r",
        ])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Lua"), "{said}");
    let packets: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packets = packets.as_array().unwrap();
    assert_eq!(packets.len(), payloads.len());
    let shim = |index: usize| &packets[index]["_source"]["layers"]["pathmark"];
    for (index, (name, values)) in expected.iter().enumerate() {
        let fields = shim(index).as_object().unwrap();
        for (key, value) in values.split(' ').map(|pair| pair.split_once('=').unwrap()) {
            let named = |field: &&String| field.ends_with(&format!(".{key}"));
            let field = fields.keys().find(named);
            let field = field.unwrap_or_else(|| panic!("{name}: no {key} in {fields:?}"));
            let shown = fields[field].as_str().unwrap().replace(':', "");
            let same = match (shown.parse::<f64>(), value.parse::<f64>()) {
                (Ok(shown), Ok(value)) => (shown - value).abs() <= 1e-9 * value.abs(),
                _ => shown == value,
            };
            assert!(same, "{name}: {key} is {shown}, not {value}");
        }
        assert!(!fields.contains_key("pathmark.check_wrong"), "{name}");
    }
    let wrong = shim(expected.len()).as_object().unwrap();
    assert!(wrong.contains_key("pathmark.check_wrong"), "{wrong:?}");
    assert!((expected.len() + 1..payloads.len()).all(|index| shim(index).is_null()));
}
