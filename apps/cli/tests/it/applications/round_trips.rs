//! The table of `docs/applications/long-link.md`: how many round trips programs need for 10 kB.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pathmark_cli::demo::bed::{Bed, SERVER};

use super::TARGET;
use super::files::Files;
use super::program::Program;
use super::through::Tunnel;
use crate::common::foreign::until_open;
use crate::common::long_path::path;

const PAGE: &str = "../../docs/applications/long-link.md";
/// The programs of clients and servers that are required for measuring the rows.
const PROGRAMS: [&str; 10] = [
    "curl",
    "git",
    "openssl",
    "python3",
    "rsync",
    "scp",
    "ssh",
    "smbclient",
    "/usr/sbin/smbd",
    "/usr/sbin/sshd",
];
/// Servers and their ports.
const SERVERS: [(&str, u16); 6] = [
    ("python3 {d}/serve.py {t} {to}/taken", 8000),
    (
        "openssl s_server -quiet -accept 8443 -cert {d}/tls.pem -key {d}/tls.key -WWW",
        8443,
    ),
    (
        "git daemon --base-path={d} --export-all --reuseaddr --port=9418 {d}",
        9418,
    ),
    (
        "rsync --daemon --no-detach --port=8730 --config={d}/rsyncd.conf",
        8730,
    ),
    ("/usr/sbin/sshd -D -f {d}/sshd.conf", 2222),
    (
        "/usr/sbin/smbd --foreground --no-process-group --configfile={d}/smb.conf",
        1445,
    ),
];
/// Names of the page's rows, and the commands of clients.
const CLIENTS: [(&str, &str); 7] = [
    ("curl, HTTP", "curl -sf http://{t}:8000/small -o {to}/http"),
    (
        "curl, HTTPS",
        "curl -skf https://{t}:8443/small -o {to}/https",
    ),
    ("git clone", "git clone -q git://{t}/repository {to}/clone"),
    (
        "rsync daemon",
        "rsync -a rsync://{t}:8730/d/small {to}/rsync",
    ),
    ("ssh, one command", "ssh -p 2222 {ssh} {t} true"),
    ("scp", "scp -q -P 2222 {ssh} {t}:{d}/small {to}/scp"),
    ("smbclient", "sh {d}/smb {t} get small {to}/smb"),
];
const RTT_S: f64 = 0.6;
const MOST: Duration = Duration::from_secs(60);

/// Columns of the page after the program's name.
#[derive(Clone, Copy)]
enum Column {
    Directly,
    Tunnel,
    FastOpen,
}

fn run(command: &str, arguments: &[&str], directory: &Path) {
    let output = Command::new(command)
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{command} {arguments:?}: {output:?}"
    );
}

/// Prepares a file of 10 kB, a repository that contains it, and a certificate.
fn prepared() -> Files {
    let files = Files::new();
    let d = files.path("");
    fs::write(files.path("small"), [7; 10_000]).unwrap();
    fs::create_dir(files.path("repository")).unwrap();
    fs::copy(files.path("small"), files.path("repository/small")).unwrap();
    let repository = files.path("repository");
    run("git", &["init", "-q"], &repository);
    run("git", &["add", "small"], &repository);
    let author = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
    let commit = ["commit", "-q", "-m", "a file"];
    run("git", &[&author[..], &commit].concat(), &repository);
    let certificate = "req -x509 -newkey rsa:2048 -nodes -keyout tls.key -out tls.pem -subj /CN=a";
    run("openssl", &certificate.split(' ').collect::<Vec<_>>(), &d);
    files
}

/// Returns the round trips of each client on one way, all measured at once.
fn measured(way: Column) -> Vec<f64> {
    let files = prepared();
    let bed: Bed = path(100_000_000, 0.0, "cubic");
    let target: IpAddr = match way {
        Column::Directly => SERVER,
        Column::Tunnel | Column::FastOpen => {
            let target: IpAddr = TARGET.parse().unwrap();
            bed.server().add_address("tun0", target.into()).unwrap();
            target
        }
    };
    let started: Vec<_> = SERVERS
        .iter()
        .map(|(command, port)| {
            let line = files.line(command, target, 0);
            (Program::start(bed.server(), &line, Stdio::null()), *port)
        })
        .collect();
    for (_, port) in &started {
        until_open(Some(bed.server()), target, *port);
    }
    let more: &[&str] = match way {
        Column::FastOpen => &["--fast-open"],
        Column::Directly | Column::Tunnel => &[],
    };
    let far = (bed.server(), SERVER);
    let _tunnel = (!matches!(way, Column::Directly))
        .then(|| Tunnel::new(bed.client(), far, &files, "auto", more));
    let began = Instant::now();
    let mut clients: Vec<_> = CLIENTS
        .iter()
        .map(|(_, command)| {
            let line = files.line(command, target, 0);
            (Program::start(bed.client(), &line, Stdio::inherit()), None)
        })
        .collect();
    while clients.iter().any(|(_, took)| took.is_none()) {
        assert!(began.elapsed() < MOST, "a program has not ended");
        for ((client, took), (name, _)) in clients.iter_mut().zip(CLIENTS) {
            if took.is_none()
                && let Some(status) = client.ended()
            {
                assert!(status.success(), "{name}: {status}");
                *took = Some(began.elapsed().as_secs_f64() / RTT_S);
            }
        }
        // The standard library can't wait for several children with a time limit.
        std::thread::sleep(Duration::from_millis(5));
    }
    clients.iter().filter_map(|(_, took)| *took).collect()
}

#[test]
fn programs_take_the_round_trips_that_the_page_says() {
    let ci = std::env::var_os("CI").is_some();
    let missing = PROGRAMS.iter().find(|program| {
        let found = Command::new("which").arg(program).output().unwrap();
        !found.status.success()
    });
    let why = match (missing, nix::unistd::geteuid().is_root()) {
        (Some(program), _) => Some(format!("{program} is not installed")),
        (None, false) => Some("sshd and smbd need root".to_owned()),
        (None, true) => None,
    };
    if let Some(why) = why {
        assert!(!ci, "{why}");
        return println!("not measured: {why}");
    }
    pathmark_testbed::undisturbed(compare);
}

/// Compares the round trips of all programs with the page.
fn compare() {
    let ways = [Column::Directly, Column::Tunnel, Column::FastOpen];
    let columns: Vec<_> = std::thread::scope(|scope| {
        let ways = ways.map(|way| scope.spawn(move || measured(way)));
        ways.into_iter().map(|way| way.join().unwrap()).collect()
    });
    let page = fs::read_to_string(PAGE).unwrap();
    for (row, (name, _)) in CLIENTS.iter().enumerate() {
        let here: Vec<f64> = columns
            .iter()
            .map(|column: &Vec<f64>| column[row])
            .collect();
        println!("{name:<18} {here:.2?} round trips");
        let start = format!("| {name} |");
        let line = page.lines().find_map(|line| line.strip_prefix(&start));
        let cells = line.expect(name).split('|').map(str::trim);
        let there: Vec<f64> = cells.filter_map(|cell| cell.parse().ok()).collect();
        assert_eq!(there.len(), here.len(), "{name}");
        // Other work on the machine adds to each figure, and a slow machine adds about the same to
        // every figure. The first column uses the kernel's own connections, so it shows how much:
        // programs that compute keys may take twice as long.
        let slow = (here[0] - there[0]).clamp(0.0, there[0].max(3.0));
        for (here, there) in here.into_iter().zip(there) {
            let range = there - 0.1..there + 1.5 + slow;
            assert!(
                range.contains(&here),
                "{name}: {here:.2}, on the page {there}"
            );
        }
    }
}
