//! Rates of unmodified applications over 100 Mbit/s and 600 ms, with and without 1 % loss: through
//! a tunnel that intercepts their connections by TPROXY, and over the kernel's TCP. Tools that are
//! not installed are skipped and listed. You must run this as root.
//!
//! `PATHMARK_SECONDS` replaces the 60 s of each run, and `PATHMARK_WAYS` lists the ways to run:
//! `vcp`, `xcp`, `auto`, `fallback`, `cubic`, `bbr`.

mod way;

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pathmark_cli::demo::bed::{Bed, CLIENT, SERVER};
use way::{WAYS, Way};

use crate::applications::TARGET;
use crate::applications::files::Files;
use crate::applications::program::Program;
use crate::applications::through::Tunnel;
use crate::common::foreign::until_open;
use crate::common::long_path::path;

struct Application {
    name: &'static str,
    /// The programs that it needs.
    programs: &'static [&'static str],
    port: u16,
    /// The command of the server. `{d}` is the directory of the files, and `{t}` is the target.
    server: &'static str,
    /// The commands of a client. `{n}` is the number of the client, `{to}` is the directory for
    /// writing, and `{ssh}` contains the options of ssh.
    down: &'static str,
    up: &'static str,
    clients: u32,
    loss: f64,
}

const SCP: Application = Application {
    name: "scp",
    programs: &["scp", "ssh-keygen", "/usr/sbin/sshd"],
    port: 2222,
    server: "/usr/sbin/sshd -D -f {d}/sshd.conf",
    down: "scp -q -P 2222 {ssh} {t}:{d}/{n} {to}",
    up: "scp -q -P 2222 {ssh} {d}/{n} {t}:{to}",
    clients: 1,
    loss: 0.01,
};

pub(crate) fn curl() {
    figures(&Application {
        name: "curl",
        programs: &["curl", "python3"],
        port: 8001,
        server: "python3 {d}/serve.py {t} {to}/0",
        down: "curl -sf http://{t}:8000/0 -o {to}/0",
        up: "curl -sf -T {d}/0 http://{t}:8001/0",
        clients: 1,
        loss: 0.01,
    });
}

pub(crate) fn wget() {
    figures(&Application {
        name: "wget",
        programs: &["wget", "python3"],
        port: 8001,
        server: "python3 {d}/serve.py {t} {to}/0",
        down: "wget -q http://{t}:8000/0 -O {to}/0",
        up: "wget -q --post-file={d}/0 http://{t}:8001/0 -O /dev/null",
        clients: 1,
        loss: 0.01,
    });
}

pub(crate) fn rsync() {
    figures(&Application {
        name: "rsync daemon",
        programs: &["rsync"],
        port: 8730,
        server: "rsync --daemon --no-detach --port=8730 --config={d}/rsyncd.conf",
        down: "rsync -a rsync://{t}:8730/d/0 {to}",
        up: "rsync -a {d}/0 rsync://{t}:8730/d/to/",
        clients: 1,
        loss: 0.01,
    });
}

pub(crate) fn one_scp() {
    figures(&Application {
        name: "scp, no loss",
        loss: 0.0,
        ..SCP
    });
    figures(&SCP);
}

pub(crate) fn four_scp() {
    figures(&Application {
        name: "four scp",
        clients: 4,
        ..SCP
    });
}

pub(crate) fn ftp() {
    figures(&Application {
        name: "FTP (curl)",
        programs: &["curl", "vsftpd"],
        port: 2121,
        // As the first process of a PID namespace, it would not survive its first session.
        server: "timeout 900 vsftpd {d}/vsftpd.conf",
        down: "curl -sf ftp://{t}:2121/0 -o {to}/0",
        up: "curl -sf -T {d}/0 ftp://{t}:2121/to/0",
        clients: 1,
        loss: 0.01,
    });
}

pub(crate) fn smb() {
    for loss in [0.0, 0.01] {
        figures(&Application {
            name: "smbclient",
            programs: &["smbclient", "/usr/sbin/smbd"],
            port: 1445,
            server: "/usr/sbin/smbd --foreground --no-process-group --configfile={d}/smb.conf",
            down: "sh {d}/smb {t} get 0 {to}/0",
            up: "sh {d}/smb {t} put {d}/0 to/0",
            clients: 1,
            loss,
        });
    }
}

fn figures(application: &Application) {
    let name = application.name;
    for program in application.programs {
        let found = Command::new("which").arg(program).output().unwrap();
        if !found.status.success() {
            return println!("{name:<14} {program} is not installed");
        }
    }
    let ways = std::env::var("PATHMARK_WAYS");
    for way in &WAYS {
        if ways
            .as_ref()
            .is_ok_and(|ways| !ways.split(',').any(|name| name == way.name))
        {
            continue;
        }
        for downward in [true, false] {
            run(application, way, downward);
        }
    }
}

fn bytes_in(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap();
    files
        .filter_map(|file| Some(file.ok()?.metadata().ok()?.len()))
        .sum()
}

/// The data goes in the direction in which the path loses packets and has the port.
fn run(application: &Application, way: &Way, downward: bool) {
    let time = std::env::var("PATHMARK_SECONDS").map_or(60, |text| text.parse().unwrap());
    let time = Duration::from_secs(time);
    let files = Files::new();
    let bed: Bed = path(100_000_000, application.loss, way.law);
    let (near, far, address) = if downward {
        (bed.client(), bed.server(), SERVER)
    } else {
        (bed.server(), bed.client(), CLIENT)
    };
    let target = match way.kernel {
        Some(kernel) => {
            for node in [near, far] {
                let route = format!("ip route replace default dev tun0 congctl {kernel}");
                node.script(&route).unwrap();
            }
            address
        }
        None => {
            let target: IpAddr = TARGET.parse().unwrap();
            far.add_address("tun0", target.into()).unwrap();
            target
        }
    };
    let _server = Program::start(
        far,
        &files.line(application.server, target, 0),
        Stdio::null(),
    );
    until_open(Some(far), target, application.port);
    let _tunnel = way
        .kernel
        .is_none()
        .then(|| Tunnel::new(near, (far, address), &files, way.cc, &[]));
    let command = if downward {
        application.down
    } else {
        application.up
    };
    let began = Instant::now();
    let mut clients: Vec<_> = (0..application.clients)
        .map(|number| Program::start(near, &files.line(command, target, number), Stdio::inherit()))
        .collect();
    let mut ended = None;
    while began.elapsed() < time && ended.is_none() {
        // No client ends prematurely unless it fails. The standard library can't wait for several
        // children with a time limit.
        ended = clients.iter_mut().find_map(Program::ended);
        std::thread::sleep(Duration::from_millis(20));
    }
    let (seconds, bytes) = (began.elapsed().as_secs_f64(), bytes_in(&files.to()));
    let rate = bytes as f64 * 8e-6 / seconds;
    let direction = if downward { "down" } else { "up" };
    let ended = ended.map_or_else(String::new, |status| format!("  a client ended: {status}"));
    println!(
        "{:<14} {direction:<5} {:<6} {rate:>6.1} Mbit/s in {seconds:.0} s{ended}",
        application.name, way.name
    );
}
