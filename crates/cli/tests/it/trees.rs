//! Directories, names of fetched files, standard input and output, and rate limits.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::{Offered, names};
use crate::common::{Server, json, no_control_characters, object, pathmark};

/// Starts a server of a directory that the test fills first.
fn serve(fill: impl FnOnce(&Path), more: &[&str]) -> (Server, Offered) {
    let offered = Offered::new();
    fill(offered.path());
    let server = Server::of_files(&offered, "127.0.0.1:0", more);
    (server, offered)
}

/// Returns how many files were transferred, and how many were there already.
fn counts(said: &Value) -> [u64; 2] {
    ["streams", "unchanged"].map(|key| said[key].as_u64().unwrap())
}

/// Checks that a command failed, and that its object says so with these words.
#[track_caller]
fn failed(output: &Output, words: &str) {
    assert_eq!(output.status.code(), Some(1));
    let error = object(output)["error"].as_str().unwrap().to_owned();
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_directory_is_fetched_once_and_then_compared() {
    let (server, _offered) = serve(
        |path| {
            for n in 0..300 {
                let directory = path.join(format!("top/{}", n % 7));
                fs::create_dir_all(&directory).unwrap();
                fs::write(directory.join(format!("{n}")), format!("{n}")).unwrap();
            }
            fs::create_dir(path.join("top/empty")).unwrap();
        },
        &[],
    );
    let here = TempDir::new().unwrap();
    let said = json(&server.run(&here, "get -r @/top -o made --json"));
    assert_eq!(counts(&said), [300, 0]);
    assert_eq!(said["files"].as_array().unwrap().len(), 300);
    assert!(
        said["rtt_ms"]["min"].as_f64().unwrap() > 0.0,
        "the last file has a report"
    );
    for n in 0..300 {
        let path = here.path().join(format!("made/top/{}/{n}", n % 7));
        assert_eq!(fs::read_to_string(path).unwrap(), n.to_string());
    }
    assert!(here.path().join("made/top/empty").is_dir());
    let again = server.run(&here, "get -r @/top -o made");
    assert!(again.status.success() && again.stdout.is_empty());
    assert!(String::from_utf8_lossy(&again.stderr).contains("300 files were there already"));
    fs::remove_file(here.path().join("made/top/3/3")).unwrap();
    let checked = server.run(&here, "get -r @/top -o made --checksum --json");
    assert_eq!(counts(&json(&checked)), [1, 299]);
    let few = server.run(&here, "get -r @/top -o made --max-entries 100 --json");
    failed(&few, "more than 100 entries");
}

#[test]
fn a_file_gets_another_name_or_goes_to_the_standard_output() {
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n >> 4) as u8).collect();
    let (server, _offered) = serve(|path| fs::write(path.join("a"), &content).unwrap(), &[]);
    let here = TempDir::new().unwrap();
    let got = server.run(&here, "get @/a -o b --quiet");
    assert!(got.status.success() && got.stdout.is_empty() && got.stderr.is_empty());
    assert_eq!(fs::read(here.path().join("b")).unwrap(), content);
    let out = server.run(&here, "get @/a -o -");
    assert!(out.status.success() && out.stdout == content);
    let none = server.run(&here, "get @/none -o -");
    assert_eq!((none.status.code(), none.stdout.len()), (Some(1), 0));
    for wrong in [
        "@/a @/a -o b",
        "@/a -o - --json",
        "-r @/a -o -",
        "@/a -o no/such/b",
        "@/a --checksum",
        "@/a --limit 10",
    ] {
        let output = server.run(&here, &format!("get {wrong}"));
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
}

/// A device, a pipe or a link isn't replaced: the content is written into it. However, a link to a
/// file is replaced like a file.
#[test]
fn content_goes_into_what_is_no_file() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n >> 4) as u8).collect();
    let (server, _offered) = serve(|path| fs::write(path.join("a"), &content).unwrap(), &[]);
    let here = TempDir::new().unwrap();
    fs::create_dir(here.path().join("d")).unwrap();
    let pipes = ["pipe", "d/a"].map(|name| here.path().join(name));
    for pipe in &pipes {
        nix::unistd::mkfifo(pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    symlink("pipe", here.path().join("link")).unwrap();
    for (output, pipe) in [("pipe", &pipes[0]), ("link", &pipes[0]), ("d", &pipes[1])] {
        let reading = {
            let pipe = pipe.clone();
            std::thread::spawn(move || fs::read(pipe).unwrap())
        };
        let got = json(&server.run(&here, &format!("get @/a -o {output} --json")));
        assert_eq!(got["files"][0]["bytes"], 1_000_000);
        assert!(reading.join().unwrap() == content);
        let kind = fs::symlink_metadata(pipe).unwrap().file_type();
        assert!(kind.is_fifo(), "{output}");
    }
    json(&server.run(&here, "get @/a -o /dev/null --json"));
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    let (file, link) = (here.path().join("file"), here.path().join("to-file"));
    fs::write(&file, "before").unwrap();
    symlink("file", &link).unwrap();
    json(&server.run(&here, "get @/a -o to-file --json"));
    // A link to a file is replaced like a file, because its target may belong to somebody else.
    assert!(!link.is_symlink() && fs::read(&link).unwrap() == content);
    assert_eq!(fs::read(file).unwrap(), b"before");
    let out = server.run(&here, "get @/a -o /dev/stdout");
    assert!(out.status.success() && out.stdout == content);
}

#[test]
fn patterns_match_names_of_the_server() {
    let (server, _offered) = serve(
        |path| {
            fs::create_dir(path.join("d")).unwrap();
            for name in ["a.iso", "b.iso", "c.txt", "[x]", "[2020].mkv", "2.mkv"] {
                fs::write(path.join("d").join(name), name).unwrap();
            }
        },
        &[],
    );
    let here = TempDir::new().unwrap();
    let said = json(&server.run(&here, "get @/d/*.iso @/d/a.iso --json"));
    assert_eq!(said["streams"], 2);
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 2);
    let none = server.run(&here, "get @/d/*.png @/d/c.* --json");
    failed(&none, "no file of the server matches");
    assert!(here.path().join("c.txt").exists());
    // A file that has the pattern as its name is the only match.
    let said = json(&server.run(&here, "get @/d/[2020].mkv --json"));
    assert_eq!(said["streams"], 1);
    assert!(here.path().join("[2020].mkv").exists() && !here.path().join("2.mkv").exists());
    json(&server.run(&here, "get @/d/[2020].mkv -o own --json"));
    let own = fs::read_to_string(here.path().join("own")).unwrap();
    assert_eq!(own, "[2020].mkv");
    let many = server.run(&here, "get @/d/*.iso -o none --json");
    failed(&many, "make it first");
    // A URL has no patterns.
    json(&server.run(&here, "get https://@/d/%5Bx%5D --json"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a rate is one of real time")]
fn content_has_the_rate_that_is_asked_for() {
    let content = vec![7; 300_000];
    let (server, offered) = serve(
        |path| fs::write(path.join("a"), &content).unwrap(),
        &["--allow-put"],
    );
    let here = TempDir::new().unwrap();
    for line in ["get @/a --limit 300kB", "put a @/b --limit 300kB/s"] {
        let begun = std::time::Instant::now();
        json(&server.run(&here, &format!("{line} --json")));
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
    fs::File::open(top.join("sub"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    let first = server.run(&here, "put -r top @ --json");
    let said = object(&first);
    // A link that leads out of the server's directory is refused.
    assert_eq!(first.status.code(), Some(1));
    let error = said["error"].as_str().unwrap();
    assert!(
        error.contains("top/out") && error.contains("leads out"),
        "{error}"
    );
    assert_eq!(said["streams"], 50);
    let there = offered.path().join("top");
    for n in 0..50 {
        let stored = fs::read_to_string(there.join(format!("sub/{n}"))).unwrap();
        assert_eq!(stored, n.to_string());
    }
    assert_eq!(
        fs::read_link(there.join("link")).unwrap(),
        Path::new("sub/1")
    );
    assert!(there.join("sub/empty").is_dir() && there.join("out").symlink_metadata().is_err());
    let stored = fs::metadata(there.join("sub/1")).unwrap();
    assert_eq!(
        (stored.mode() & 0o777, stored.modified().unwrap()),
        (0o600, old)
    );
    assert_eq!(
        fs::metadata(there.join("sub")).unwrap().modified().unwrap(),
        old
    );

    fs::remove_file(top.join("out")).unwrap();
    fs::write(top.join("sub/2"), "changed").unwrap();
    failed(&server.run(&here, "put -r top @ --json"), "--force");
    let forced = server.run(&here, "put -r top @ --force --checksum --json");
    assert_eq!(counts(&json(&forced)), [1, 50]);
    assert_eq!(fs::read_to_string(there.join("sub/2")).unwrap(), "changed");
}

#[test]
fn the_standard_input_is_stored() {
    use std::io::Write;
    let (server, offered) = serve(|_| (), &["--allow-put"]);
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n >> 4) as u8).collect();
    let target = format!("{}/piped", server.address);
    let arguments = ["put", "-", &target, "--json", "--pin", &server.pin];
    let mut command = pathmark(&arguments);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped());
    let mut client = command.spawn().unwrap();
    client.stdin.take().unwrap().write_all(&content).unwrap();
    json(&client.wait_with_output().unwrap());
    assert_eq!(fs::read(offered.path().join("piped")).unwrap(), content);
    let unnamed = server.run(&offered, "put - @");
    assert_eq!(unnamed.status.code(), Some(2));
}

#[test]
fn a_directory_is_listed() {
    let (server, offered) = serve(
        |path| {
            fs::write(path.join("f"), [7; 8_000]).unwrap();
            fs::create_dir(path.join("sub")).unwrap();
            std::os::unix::fs::symlink("f", path.join("to\u{1b}f")).unwrap();
            fs::write(path.join("sub/x y"), b"x").unwrap();
        },
        &[],
    );
    let here = TempDir::new().unwrap();
    let output = server.run(&here, "ls @");
    no_control_characters(&output.stdout);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines[0].starts_with("-rw") && lines[0].ends_with(" f"),
        "{text}"
    );
    assert!(lines[0].contains(" 8000 "), "{text}");
    assert!(
        lines[1].starts_with('d') && lines[1].ends_with(" sub/"),
        "{text}"
    );
    assert!(lines[2].ends_with("to\\u{1b}f -> f"), "{text}");
    for line in ["ls @/sub --json", "ls @/sub/ --json"] {
        let said = json(&server.run(&here, line));
        let entry = &said["entries"][0];
        assert_eq!((&entry["name"], &entry["size"]), (&"x y".into(), &1.into()));
        assert_eq!(
            (&entry["kind"], &entry["target"]),
            (&"file".into(), &().into())
        );
    }
    // Without `--allow-put`, nothing is stored.
    for line in ["put f @/new --json", "put f @/f --force --json"] {
        failed(&server.run(&offered, line), "--allow-put");
    }
    // The name as encoded in URLs.
    json(&server.run(&here, "get https://@/sub/x%20y --json"));
    assert_eq!(names(here.path()), ["x y"]);
}
