//! Disturbed transfers result in correct bytes or in a failure with its reason. Real sockets,
//! processes and file systems.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common::offered::{Offered, settle, unfinished_bytes, until_unfinished};
use crate::common::{self, Process, Server, ended, json, names, words};

fn write(path: &Path, bytes: usize) -> Vec<u8> {
    let content = common::content(bytes, 0);
    fs::write(path, &content).unwrap();
    settle(path);
    content
}

fn serve(there: &Offered, listen: &str) -> Server {
    Server::offering(there, listen, &["--allow-put"])
}

fn get(server: &Server, name: &str, out: &TempDir) -> Output {
    server.run(&format!("get @/{name} -o {} --json", out.path().display()))
}

/// Runs a `get` that can only write files of up to this number of kB.
fn limited_get(server: &Server, name: &str, out: &TempDir, most: usize) -> Output {
    let line = format!("ulimit -f {most}; exec \"$0\" \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &line, env!("CARGO_BIN_EXE_pathmark"), "get"]);
    command.args([&server.at(name), "-o", out.path().to_str().unwrap()]);
    command
        .args(["--pin", &server.pin])
        .env("XDG_STATE_HOME", "/dev/null");
    command.output().unwrap()
}

#[track_caller]
fn failed(output: &Output, word: &str) {
    ended(output, 1, word);
}

/// A server that is killed and started again ends the transfer, and the next transfer continues it.
#[test]
fn a_get_goes_on_after_its_server_was_killed() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let large = write(&there.path().join("large"), 150_000_000);
    let server = serve(&there, "127.0.0.1:0");
    let (address, target) = (server.address.clone(), server.at("large"));
    let out = here.path().to_str().unwrap();
    let client = Process::start(&["get", &target, "-o", out, "--pin", &server.pin, "--json"]);
    until_unfinished(here.path(), 1_000_000);
    drop(server);
    let server = serve(&there, &address);
    failed(&client.finish(), "bytes that arrived are kept");
    let left = unfinished_bytes(here.path());
    let said = json(&get(&server, "large", &here));
    // The mark at its end shows that the part is not complete.
    assert_eq!(said["files"][0]["resumed_bytes"], left);
    assert!(fs::read(here.path().join("large")).unwrap() == large);
    assert_eq!(names(here.path()), ["large"]);
}

/// The client can only write files of up to 1 MB, and keeps the bytes that it has received.
#[test]
fn a_broken_get_goes_on_where_it_stopped() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let bytes = write(&there.path().join("f"), 2_000_000);
    let server = serve(&there, "127.0.0.1:0");
    failed(&limited_get(&server, "f", &here, 1000), "cannot write");
    assert_eq!(names(here.path()).len(), 2, "a part and its tag");
    let said = json(&get(&server, "f", &here));
    // The last byte is fetched again.
    let resumed = said["files"][0]["resumed_bytes"].as_u64().unwrap();
    assert!((1..1_024_000).contains(&resumed), "{resumed}");
    assert_eq!(said["bytes_down"], 2_000_000 - resumed);
    assert!(fs::read(here.path().join("f")).unwrap() == bytes);
    assert_eq!(names(here.path()), ["f"]);
}

/// After its file was changed, a part can't be used any more, even if size and time are the same.
#[test]
fn a_source_that_changed_between_two_attempts_is_fetched_whole() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let source = there.path().join("f");
    let first = write(&source, 3_000_000);
    let server = serve(&there, "127.0.0.1:0");
    failed(&limited_get(&server, "f", &here, 1000), "cannot write");
    assert!(unfinished_bytes(here.path()) > 0);
    let modified = fs::metadata(&source).unwrap().modified().unwrap();
    let second: Vec<u8> = first.iter().map(|byte| !byte).collect();
    fs::write(&source, &second).unwrap();
    let times = FileTimes::new().set_modified(modified);
    let file = File::options().write(true).open(&source).unwrap();
    file.set_times(times).unwrap();
    let said = json(&get(&server, "f", &here));
    assert_eq!(said["files"][0]["resumed_bytes"], 0);
    assert!(fs::read(here.path().join("f")).unwrap() == second);
    assert_eq!(names(here.path()), ["f"]);
}

/// A file that differs from that of the server is only replaced with `--force`, and one that is the
/// same isn't sent again.
#[test]
fn a_file_that_differs_is_replaced_on_demand() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let bytes = write(&there.path().join("f"), 200_000);
    fs::create_dir(there.path().join("d")).unwrap();
    write(&there.path().join("d/small"), 10);
    write(&there.path().join("d/large"), 100_000);
    symlink("small", there.path().join("d/link")).unwrap();
    let server = serve(&there, "127.0.0.1:0");
    let out = here.path();
    let run = |more: &str| server.run(&format!("get @/{more} -o {}", out.display()));
    json(&run("f --json"));
    let again = json(&run("f --json"));
    assert_eq!(
        (&again["bytes_down"], &again["streams"]),
        (&0.into(), &1.into())
    );
    assert_eq!(again["files"][0]["resumed_bytes"], 200_000);
    fs::write(out.join("f"), "mine").unwrap();
    failed(&run("f"), "--force replaces it");
    assert_eq!(fs::read(out.join("f")).unwrap(), b"mine");
    json(&run("f --json --force"));
    assert!(fs::read(out.join("f")).unwrap() == bytes);

    json(&run("d -r --json"));
    for name in ["small", "large", "link"] {
        fs::remove_file(out.join("d").join(name)).unwrap();
        fs::write(out.join("d").join(name), "mine").unwrap();
    }
    let kept = run("d -r");
    for name in ["small", "large", "link"] {
        failed(&kept, &format!("d/{name}: it is there already and differs"));
        assert_eq!(fs::read(out.join("d").join(name)).unwrap(), b"mine");
    }
    let replaced = json(&run("d -r --json --force"));
    assert_eq!(replaced["streams"], 2);
    assert!(out.join("d/link").is_symlink());
    // The same content with another time is not fetched.
    let file = File::options()
        .write(true)
        .open(out.join("d/large"))
        .unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let same = json(&run("d -r --json"));
    assert_eq!(
        (&same["streams"], &same["unchanged"]),
        (&0.into(), &2.into())
    );
}

/// A file that the disk has no room for is not begun, unless it has holes.
#[test]
fn a_file_without_room_is_not_begun() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    write(&there.path().join("large"), 3_000_000);
    let holes = File::create(there.path().join("holes")).unwrap();
    holes.set_len(3_000_000).unwrap();
    let server = serve(&there, "127.0.0.1:0");
    let out = here.path();
    let get = |name: &str| {
        let line = format!(
            "get {}/{name} -o {} --pin {}",
            server.address,
            out.display(),
            server.pin
        );
        let mut command = on_a_small_disk(out, &words(&line));
        command.arg("--json").output().unwrap()
    };
    let refused = get("large");
    failed(&refused, "the file needs 3000000 bytes");
    assert_eq!(common::object(&refused)["bytes_down"], 0);
    json(&get("holes"));
}

/// Neither side writes through a symbolic link.
#[test]
fn a_link_in_the_place_of_the_destination_is_not_followed() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let bytes = write(&there.path().join("f"), 10_000);
    let kept = TempDir::new().unwrap();
    let kept = kept.path().join("kept");
    fs::write(&kept, b"keep me").unwrap();
    symlink(&kept, here.path().join("f")).unwrap();
    symlink(&kept, there.path().join("link")).unwrap();
    let server = serve(&there, "127.0.0.1:0");
    // What the link leads to may be another's file.
    failed(&get(&server, "f", &here), "--force replaces it");
    assert!(here.path().join("f").is_symlink());
    json(&server.run(&format!(
        "get @/f -o {} --force --json",
        here.path().display()
    )));
    assert!(!here.path().join("f").is_symlink());
    assert!(fs::read(here.path().join("f")).unwrap() == bytes);
    let source = here.path().join("f");
    for more in ["", " --force"] {
        let put = server.run(&format!("put {} @/link{more}", source.display()));
        failed(&put, "a link");
    }
    // A link that leads outside is treated as missing.
    failed(&get(&server, "link", &here), "there is no file");
    assert_eq!(fs::read(&kept).unwrap(), b"keep me");
}

/// Runs a command for which `directory` is a file system of 1 MB.
fn on_a_small_disk(directory: &Path, arguments: &[&str]) -> Command {
    let line = "mount -t tmpfs -o size=1m none \"$0\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "sh", "-c", line])
        .arg(directory)
        .arg(env!("CARGO_BIN_EXE_pathmark"))
        .args(arguments)
        .env("XDG_STATE_HOME", "/dev/null");
    command
}

#[test]
fn a_full_disk_is_named_on_either_side() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let source = there.path().join("f");
    write(&source, 3_000_000);
    let server = serve(&there, "127.0.0.1:0");
    let (target, out) = (server.at("f"), here.path());
    let get = [
        "get",
        &target,
        "-o",
        out.to_str().unwrap(),
        "--pin",
        &server.pin,
    ];
    failed(
        &on_a_small_disk(out, &get).output().unwrap(),
        "bytes free; free space there",
    );

    let full = Offered::new();
    let directory = full.path().display();
    let serve = format!("serve --dir {directory} --listen 127.0.0.1:0 --json --allow-put");
    let server = Server::of(on_a_small_disk(full.path(), &words(&serve)));
    let put = |file: &Path, name: &str| server.run(&format!("put {} @/{name}", file.display()));
    failed(&put(&source, "f"), "disk is full");
    // The stored part is removed, so that a smaller file has room.
    let small = here.path().join("small");
    write(&small, 900_000);
    let output = put(&small, "small");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_directory_is_listed() {
    let there = Offered::new();
    write(&there.path().join("f"), 8_000);
    fs::create_dir(there.path().join("sub")).unwrap();
    symlink("f", there.path().join("to\u{1b}f")).unwrap();
    fs::write(there.path().join("sub/x y"), b"x").unwrap();
    let server = serve(&there, "127.0.0.1:0");
    let ls = |line: &str| server.run(&format!("ls @{line}"));
    let output = ls("");
    common::no_control_characters(&output.stdout);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let [f, sub, link] = lines.try_into().expect(&text);
    assert!(f.starts_with("-rw") && f.ends_with(" f"), "{text}");
    assert!(f.contains(" 8000 "), "{text}");
    assert!(sub.starts_with('d') && sub.ends_with(" sub/"), "{text}");
    assert!(link.ends_with("to\\u{1b}f -> f"), "{text}");
    for target in ["sub", "sub/"] {
        let said = json(&ls(&format!("/{target} --json")));
        let entry = &said["entries"][0];
        assert_eq!((&entry["name"], &entry["size"]), (&"x y".into(), &1.into()));
        let kind = (&entry["kind"], &entry["target"]);
        assert_eq!(kind, (&"file".into(), &().into()));
    }
    failed(&ls("/none"), "no file or directory of this name");
    // The name as encoded in URLs.
    let here = TempDir::new().unwrap();
    let out = here.path().display();
    json(&server.run(&format!("get https://@/sub/x%20y -o {out} --json")));
    assert_eq!(names(here.path()), ["x y"]);
}
