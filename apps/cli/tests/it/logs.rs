//! The server's log, and how a terminal shows names from elsewhere.

use std::fs;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::{self, Process, Server, first_object, pathmark, words};

/// ESC, CR, DEL, and CSI in one character of the C1 set.
const HOSTILE: &str = "a\u{1b}[2Jb\rc\u{7f}d\u{9b}31m";

#[test]
fn names_with_control_characters_reach_no_terminal() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    fs::write(there.path().join(HOSTILE), b"there").unwrap();
    let server = Server::offering(&there, "127.0.0.1:0", &["--allow-put"]);
    let (out, pin) = (here.path().to_str().unwrap(), server.pin.as_str());
    let (hostile, missing) = (server.at(HOSTILE), server.at(&format!("no {HOSTILE}")));
    let own = here.path().join(HOSTILE);
    let own = own.to_str().unwrap();
    let commands: [&[&str]; 4] = [
        &["get", &hostile, "-o", out],
        &["get", &missing, "-o", out],
        &["put", own, &server.address],
        &["put", own, &server.address, "--force"],
    ];
    for command in commands {
        for more in [&["--pin", pin][..], &["--pin", pin, "--json"]] {
            let output = pathmark(&[command, more].concat()).output().unwrap();
            common::no_control_characters(&output.stdout);
            common::no_control_characters(&output.stderr);
            let all = [output.stdout, output.stderr].concat();
            let text = String::from_utf8(all).unwrap();
            assert!(text.contains("1b"), "the name is there, escaped: {text}");
        }
    }
    for word in ["sent", "refused", "stored"] {
        // A name with a bracket is first looked up in a listing, which is also sent.
        let mut lines = std::iter::repeat_with(|| server.logged(word, 10));
        let line = lines.find(|line| !line.contains(r#"name="""#)).unwrap();
        common::no_control_characters(line.as_bytes());
        assert!(line.contains("1b"), "{line}");
    }
}

/// If nobody reads the log and its pipe is full, neither requests nor the end are delayed.
#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    use std::io::Write;
    use std::process::Stdio;
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    fs::write(there.path().join("a"), b"0123456789").unwrap();
    let (_unread, mut full) = std::io::pipe().unwrap();
    let set = |flags| {
        let flags = nix::fcntl::FcntlArg::F_SETFL(flags);
        nix::fcntl::fcntl(&full, flags).unwrap();
    };
    set(nix::fcntl::OFlag::O_NONBLOCK);
    let mut filling = full.try_clone().unwrap();
    while filling.write(&[b'x'; 4096]).is_ok() {}
    while filling.write(b"x").is_ok() {}
    set(nix::fcntl::OFlag::empty());
    let directory = there.path().display();
    let serve = format!("serve --dir {directory} --listen 127.0.0.1:0 --json");
    let mut command = pathmark(&words(&serve));
    command.env("RUST_LOG", "trace").stdout(Stdio::piped());
    command.stderr(full.try_clone().unwrap());
    let mut server = Process(command.spawn().unwrap());
    full.flush().unwrap();
    let said = first_object(server.0.stdout.take().unwrap());
    let source = format!("{}/a", said["listening"].as_str().unwrap());
    let out = here.path().to_str().unwrap();
    let pin = said["pin"].as_str().unwrap();
    for _ in 0..20 {
        let get = ["get", &source, "-o", out, "--pin", pin, "--json"];
        common::json(&pathmark(&get).output().unwrap());
    }
    server.signal(Signal::SIGTERM);
    let (tell, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(server.0.wait().unwrap()));
    let wait = std::time::Duration::from_secs(20);
    let status = ended.recv_timeout(wait).unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_server_logs_transfers_and_refusals_and_what_rust_log_asks_for() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    fs::write(there.path().join("a"), b"0123456789").unwrap();
    let out = here.path().display();
    let serve = |rust_log: Option<&str>| {
        let directory = there.path().display();
        let serve = format!("serve --dir {directory} --listen 127.0.0.1:0 --json");
        let mut command = pathmark(&words(&serve));
        command.envs(rust_log.map(|filter| ("RUST_LOG", filter)));
        Server::of(command)
    };
    let visit = |server: &Server| {
        for name in ["a", "missing"] {
            server.run(&format!("get @/{name} -o {out}"));
        }
    };
    let server = serve(None);
    visit(&server);
    let sent = server.logged("sent", 10);
    for word in ["INFO", "client=127.0.0.1:", "name=\"a\"", "bytes=10"] {
        assert!(sent.contains(word), "{sent}");
    }
    let refused = server.logged("refused", 10);
    for word in ["there is no file of this name", "name=\"missing\""] {
        assert!(refused.contains(word), "{refused}");
    }

    let server = serve(Some("error"));
    visit(&server);
    server.process.signal(Signal::SIGTERM);
    assert_eq!(server.log.iter().count(), 0);
    let server = serve(Some("pathmark=trace"));
    visit(&server);
    server.logged("sent", 10);
}
