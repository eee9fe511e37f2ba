//! Directories, names of fetched files, standard input and output, and rate limits.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::{Server, ended, json, names, object, pathmark};

/// Starts a server of a directory that the test fills first.
fn serve(fill: impl FnOnce(&Path), more: &[&str]) -> (Server, Offered) {
    let offered = Offered::new();
    fill(offered.path());
    (Server::offering(&offered, "127.0.0.1:0", more), offered)
}

/// Returns a megabyte.
fn content() -> Vec<u8> {
    (0..1_000_000_u32).map(|n| (n >> 4) as u8).collect()
}

/// Returns how many files a command has moved, and how many were there already.
fn counts(said: &serde_json::Value) -> [u64; 2] {
    ["streams", "unchanged"].map(|key| said[key].as_u64().unwrap())
}

#[test]
fn a_directory_is_fetched_once_and_then_compared() {
    let fill = |path: &Path| {
        for n in 0..300 {
            let directory = path.join(format!("top/{}", n % 7));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(format!("{n}")), format!("{n}")).unwrap();
        }
        fs::create_dir(path.join("top/empty")).unwrap();
    };
    let (server, _offered) = serve(fill, &[]);
    let here = TempDir::new().unwrap();
    let out = here.path().join("made");
    let get = format!("get -r @/top -o {}", out.display());
    let said = json(&server.run(&format!("{get} --json")));
    assert_eq!(counts(&said), [300, 0]);
    assert_eq!(said["files"].as_array().unwrap().len(), 300);
    let least = said["rtt_ms"]["min"].as_f64().unwrap();
    assert!(least > 0.0, "the last file has a report");
    for n in 0..300 {
        let path = here.path().join(format!("made/top/{}/{n}", n % 7));
        assert_eq!(fs::read_to_string(path).unwrap(), n.to_string());
    }
    assert!(here.path().join("made/top/empty").is_dir());
    let again = server.run(&get);
    ended(&again, 0, "300 files were there already");
    assert!(again.stdout.is_empty());
    fs::remove_file(here.path().join("made/top/3/3")).unwrap();
    let said = json(&server.run(&format!("{get} --checksum --json")));
    assert_eq!(counts(&said), [1, 299]);

    let few = server.run(&format!("{get} --max-entries 100 --json"));
    failed(&few, "more than 100 entries");
}

/// Checks that a command failed with this reason in its object.
#[track_caller]
fn failed(output: &Output, reason: &str) {
    assert_eq!(output.status.code(), Some(1));
    let said = object(output)["error"].as_str().unwrap().to_owned();
    assert!(said.contains(reason), "{said}");
}

#[test]
fn a_file_gets_another_name_or_goes_to_the_standard_output() {
    let content = content();
    let (server, _offered) = serve(|path| fs::write(path.join("a"), &content).unwrap(), &[]);
    let here = TempDir::new().unwrap();
    let name = here.path().join("b");
    let name = name.to_str().unwrap();
    let got = server.run(&format!("get @/a -o {name} --quiet"));
    assert!(got.status.success() && got.stdout.is_empty() && got.stderr.is_empty());
    assert_eq!(fs::read(name).unwrap(), content);
    let out = server.run("get @/a -o -");
    assert!(out.status.success() && out.stdout == content);
    let none = server.run("get @/none -o -");
    assert_eq!((none.status.code(), none.stdout.len()), (Some(1), 0));
    for wrong in [
        &format!("get @/a @/a -o {name}")[..],
        "get @/a -o - --json",
        "get -r @/a -o -",
        "get @/a -o no/such/b",
        "get @/a --checksum",
        "get @/a --limit 10",
    ] {
        assert_eq!(server.run(wrong).status.code(), Some(2), "{wrong}");
    }
}

/// A device, a pipe or a link isn't replaced: the content is written into it. However, a link to a
/// file is replaced like a file.
#[test]
fn content_goes_into_what_is_no_file() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let content = content();
    let (server, _offered) = serve(|path| fs::write(path.join("a"), &content).unwrap(), &[]);
    let here = TempDir::new().unwrap();
    fs::create_dir(here.path().join("d")).unwrap();
    let pipes = ["pipe", "d/a"].map(|name| here.path().join(name));
    for pipe in &pipes {
        nix::unistd::mkfifo(pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    let link = here.path().join("link");
    symlink("pipe", &link).unwrap();
    let directory = here.path().join("d");
    for (output, pipe) in [
        (&pipes[0], &pipes[0]),
        (&link, &pipes[0]),
        (&directory, &pipes[1]),
    ] {
        let pipe_too = pipe.clone();
        let reading = std::thread::spawn(move || fs::read(pipe_too).unwrap());
        let got = json(&server.run(&format!("get @/a -o {} --json", output.display())));
        assert_eq!(got["files"][0]["bytes"], 1_000_000);
        assert!(reading.join().unwrap() == content);
        let kind = fs::symlink_metadata(pipe).unwrap().file_type();
        assert!(kind.is_fifo(), "{output:?}");
    }
    json(&server.run("get @/a -o /dev/null --json"));
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    let (file, link) = (here.path().join("file"), here.path().join("to-file"));
    fs::write(&file, "before").unwrap();
    symlink("file", &link).unwrap();
    json(&server.run(&format!("get @/a -o {} --force --json", link.display())));
    // A link to a file is replaced like a file, because its target may belong to somebody else.
    assert!(!link.is_symlink() && fs::read(&link).unwrap() == content);
    assert_eq!(fs::read(file).unwrap(), b"before");
    let out = server.run("get @/a -o /dev/stdout");
    assert!(out.status.success() && out.stdout == content);
}

#[test]
fn patterns_match_names_of_the_server() {
    let fill = |path: &Path| {
        fs::create_dir(path.join("d")).unwrap();
        for name in ["a.iso", "b.iso", "c.txt", "[x]", "[2020].mkv", "2.mkv"] {
            fs::write(path.join("d").join(name), name).unwrap();
        }
    };
    let (server, _offered) = serve(fill, &[]);
    let here = TempDir::new().unwrap();
    let out = here.path().display();
    let get = |line: &str| server.run(&format!("get {line} --json"));
    let said = json(&get(&format!("@/d/*.iso @/d/a.iso -o {out}")));
    assert_eq!(said["streams"], 2);
    assert_eq!(names(here.path()), ["a.iso", "b.iso"]);
    let none = get(&format!("@/d/*.png @/d/c.* -o {out}"));
    failed(&none, "no file of the server matches");
    assert!(here.path().join("c.txt").exists());
    // A file that has the pattern as its name is the only match.
    let said = json(&get(&format!("@/d/[2020].mkv -o {out}")));
    assert_eq!(said["streams"], 1);
    assert!(here.path().join("[2020].mkv").exists() && !here.path().join("2.mkv").exists());
    json(&get(&format!("@/d/[2020].mkv -o {out}/own")));
    let own = fs::read_to_string(here.path().join("own")).unwrap();
    assert_eq!(own, "[2020].mkv");
    let many = object(&get("@/d/*.iso -o none"));
    assert!(many["error"].as_str().unwrap().contains("make it first"));
    // A URL has no patterns.
    json(&get(&format!("https://@/d/%5Bx%5D -o {out}")));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a rate is one of real time")]
fn content_has_the_rate_that_is_asked_for() {
    let content = vec![7; 300_000];
    let fill = |path: &Path| fs::write(path.join("a"), &content).unwrap();
    let (server, offered) = serve(fill, &["--allow-put"]);
    let here = TempDir::new().unwrap();
    let out = here.path().display();
    for line in [
        format!("get @/a -o {out} --limit 300kB --json"),
        format!("put {out}/a @/b --limit 300kB/s --json"),
    ] {
        let begun = std::time::Instant::now();
        json(&server.run(&line));
        let took = begun.elapsed();
        assert!(took.as_millis() > 800, "{line}: {took:?}");
    }
    assert_eq!(fs::read(offered.path().join("b")).unwrap(), content);
}

#[test]
fn a_directory_is_stored_as_it_is() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let (server, offered) = serve(|_| (), &["--allow-put"]);
    let here = TempDir::new().unwrap();
    let top = here.path().join("top");
    fs::create_dir_all(top.join("sub/empty")).unwrap();
    for n in 0..50 {
        fs::write(top.join(format!("sub/{n}")), format!("{n}")).unwrap();
    }
    symlink("sub/1", top.join("link")).unwrap();
    symlink("../../out", top.join("out")).unwrap();
    let secret = top.join("sub/1");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 7);
    fs::File::open(&secret).unwrap().set_modified(old).unwrap();
    let sub = fs::File::open(top.join("sub")).unwrap();
    sub.set_modified(old).unwrap();
    let put = format!("put -r {} @ --json", top.display());
    let first = server.run(&put);
    let said = object(&first);
    // A link that leads out of the server's directory is refused.
    failed(&first, "top/out");
    failed(&first, "leads out");
    assert_eq!(said["streams"], 50);
    let there = offered.path().join("top");
    for n in 0..50 {
        let stored = fs::read_to_string(there.join(format!("sub/{n}"))).unwrap();
        assert_eq!(stored, n.to_string());
    }
    let link = fs::read_link(there.join("link")).unwrap();
    assert_eq!(link, Path::new("sub/1"));
    assert!(there.join("sub/empty").is_dir() && there.join("out").symlink_metadata().is_err());
    let stored = fs::metadata(there.join("sub/1")).unwrap();
    assert_eq!(stored.mode() & 0o777, 0o600);
    for name in ["sub/1", "sub"] {
        let stored = fs::metadata(there.join(name)).unwrap();
        assert_eq!(stored.modified().unwrap(), old, "{name}");
    }

    fs::remove_file(top.join("out")).unwrap();
    fs::write(top.join("sub/2"), "changed").unwrap();
    failed(&server.run(&put), "--force");
    let said = json(&server.run(&format!("{put} --force --checksum")));
    assert_eq!(counts(&said), [1, 50]);
    assert_eq!(fs::read_to_string(there.join("sub/2")).unwrap(), "changed");
}

#[test]
fn the_standard_input_is_stored() {
    use std::io::Write;
    let (server, offered) = serve(|_| (), &["--allow-put"]);
    let content = content();
    let arguments = [
        "put",
        "-",
        &server.at("piped"),
        "--json",
        "--pin",
        &server.pin,
    ];
    let mut command = pathmark(&arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = command.spawn().unwrap();
    client.stdin.take().unwrap().write_all(&content).unwrap();
    json(&client.wait_with_output().unwrap());
    assert_eq!(fs::read(offered.path().join("piped")).unwrap(), content);
    assert_eq!(server.run("put - @").status.code(), Some(2));
}
