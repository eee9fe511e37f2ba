//! Background work, in other threads, does not delay the forwarding thread.

use std::fmt::Write as _;

use crate::bed::{Bed, Pinger};

/// A configuration that takes long to read holds up nothing; once it is there it is put in force,
/// and if it was asked for again meanwhile, it is read again.
#[test]
fn packets_do_not_wait_for_a_configuration() {
    let mut bed = Bed::with("", "rate = \"2Mbit\"");
    bed.configure("", "rate = \"3Mbit\"");
    let path = bed.path("router.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}\n{}", routes(200_000))).unwrap();
    let mut pinger = Pinger::new(&bed.left, "10.0.1.1");
    let id = bed.router().id();
    for _ in 0..2 {
        // Of signals that come together only one is seen: each is followed by an answer.
        bed.router().hang_up().unwrap();
        for _ in 0..20 {
            assert!(pinger.ping(56).is_some());
        }
        assert_eq!(bed.link("right")["rate_bps"], 2e6);
    }
    // Where cores are wanted, it does not use up what packets are given of them.
    let levels = nice_levels(id);
    let reload = levels.iter().find(|(name, _)| name == "reload");
    assert_eq!(reload.unwrap().1, levels[0].1 + 10, "{levels:?}");
    for generation in [2, 3] {
        assert!(bed.next_reload().contains("vcp-router: reloaded"));
        assert_eq!(bed.link("right")["rate_bps"], 3e6);
        assert_eq!(bed.show()["reload"]["generation"], generation);
    }
}

/// The nice levels of a process's threads by name, its first thread in front.
fn nice_levels(process: u32) -> Vec<(String, i32)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut tasks: Vec<_> = tasks.map(|task| task.unwrap().path()).collect();
    tasks.sort_by_key(|path| !path.ends_with(process.to_string()));
    let level = |path: std::path::PathBuf| {
        let stat = std::fs::read_to_string(path.join("stat")).unwrap();
        let (head, rest) = stat.rsplit_once(") ").unwrap();
        // State, fifteen numbers, nice: proc_pid_stat(5).
        let nice = rest.split(' ').nth(16).unwrap().parse().unwrap();
        (head.split_once('(').unwrap().1.to_owned(), nice)
    };
    tasks.into_iter().map(level).collect()
}

fn routes(count: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        let [_, a, b, c] = (number * 4).to_be_bytes();
        let a = 20 + a;
        let _ = writeln!(
            text,
            "[[route]]\nprefix = \"{a}.{b}.{c}.0/30\"\nport = \"right\""
        );
    }
    text
}
