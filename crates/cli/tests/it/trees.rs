//! Directories, names of fetched files, standard input and output, and rate limits.

use std::fs;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::{Server, json, object, pathmark};

/// Starts a server of a directory that the test fills first.
fn serve(fill: impl FnOnce(&Path), more: &[&str]) -> (Server, Offered) {
    let offered = Offered::new();
    fill(offered.path());
    let path = offered.path().to_str().unwrap().to_owned();
    let server = Server::start(&[&["serve", "--dir", &path], more].concat());
    (server, offered)
}

fn run(server: &Server, arguments: &[&str]) -> Output {
    let pin = ["--pin", &server.pin];
    pathmark(&[arguments, &pin].concat()).output().unwrap()
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
    let out = here.path().join("made");
    let out = out.to_str().unwrap();
    let target = format!("{}/top", server.address);
    let said = json(&run(&server, &["get", "-r", &target, "-o", out, "--json"]));
    assert_eq!(
        (said["streams"].as_u64(), said["unchanged"].as_u64()),
        (Some(300), Some(0))
    );
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
    let again = run(&server, &["get", "-r", &target, "-o", out]);
    assert!(again.status.success() && again.stdout.is_empty());
    assert!(String::from_utf8_lossy(&again.stderr).contains("300 files were there already"));
    fs::remove_file(here.path().join("made/top/3/3")).unwrap();
    let more = ["--checksum", "--json"];
    let checked = run(
        &server,
        &[&["get", "-r", &target, "-o", out][..], &more].concat(),
    );
    let said = json(&checked);
    assert_eq!(
        (said["streams"].as_u64(), said["unchanged"].as_u64()),
        (Some(1), Some(299))
    );

    let few = run(
        &server,
        &[
            "get",
            "-r",
            &target,
            "-o",
            out,
            "--max-entries",
            "100",
            "--json",
        ],
    );
    assert_eq!(few.status.code(), Some(1));
    assert!(
        object(&few)["error"]
            .as_str()
            .unwrap()
            .contains("more than 100 entries")
    );
}

#[test]
fn a_file_gets_another_name_or_goes_to_the_standard_output() {
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n >> 4) as u8).collect();
    let (server, _offered) = serve(|path| fs::write(path.join("a"), &content).unwrap(), &[]);
    let here = TempDir::new().unwrap();
    let source = format!("{}/a", server.address);
    let name = here.path().join("b");
    let name = name.to_str().unwrap();
    let got = run(&server, &["get", &source, "-o", name, "--quiet"]);
    assert!(got.status.success() && got.stdout.is_empty() && got.stderr.is_empty());
    assert_eq!(fs::read(name).unwrap(), content);
    let out = run(&server, &["get", &source, "-o", "-"]);
    assert!(out.status.success() && out.stdout == content);
    let none = run(
        &server,
        &["get", &format!("{}/none", server.address), "-o", "-"],
    );
    assert_eq!((none.status.code(), none.stdout.len()), (Some(1), 0));
    for wrong in [
        &["get", &source, &source, "-o", name][..],
        &["get", &source, "-o", "-", "--json"],
        &["get", "-r", &source, "-o", "-"],
        &["get", &source, "-o", "no/such/b"],
        &["get", &source, "--checksum"],
        &["get", &source, "--limit", "10"],
    ] {
        assert_eq!(run(&server, wrong).status.code(), Some(2), "{wrong:?}");
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
    let source = format!("{}/a", server.address);
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
        let reading = {
            let pipe = pipe.clone();
            std::thread::spawn(move || fs::read(pipe).unwrap())
        };
        let get = ["get", &source, "-o", output.to_str().unwrap(), "--json"];
        let got = json(&run(&server, &get));
        assert_eq!(got["files"][0]["bytes"], 1_000_000);
        assert!(reading.join().unwrap() == content);
        let kind = fs::symlink_metadata(pipe).unwrap().file_type();
        assert!(kind.is_fifo(), "{output:?}");
    }
    json(&run(
        &server,
        &["get", &source, "-o", "/dev/null", "--json"],
    ));
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    let (file, link) = (here.path().join("file"), here.path().join("to-file"));
    fs::write(&file, "before").unwrap();
    symlink("file", &link).unwrap();
    let get = ["get", &source, "-o", link.to_str().unwrap(), "--json"];
    json(&run(&server, &get));
    // A link to a file is replaced like a file, because its target may belong to somebody else.
    assert!(!link.is_symlink() && fs::read(&link).unwrap() == content);
    assert_eq!(fs::read(file).unwrap(), b"before");
    let out = run(&server, &["get", &source, "-o", "/dev/stdout"]);
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
    let out = here.path().to_str().unwrap();
    let at = |name: &str| format!("{}/d/{name}", server.address);
    let (all, one) = (at("*.iso"), at("a.iso"));
    let said = json(&run(&server, &["get", &all, &one, "-o", out, "--json"]));
    assert_eq!(said["streams"], 2);
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 2);
    let none = run(
        &server,
        &["get", &at("*.png"), &at("c.*"), "-o", out, "--json"],
    );
    assert_eq!(none.status.code(), Some(1));
    assert!(
        object(&none)["error"]
            .as_str()
            .unwrap()
            .contains("no file of the server matches")
    );
    assert!(here.path().join("c.txt").exists());
    // A file that has the pattern as its name is the only match.
    let said = json(&run(
        &server,
        &["get", &at("[2020].mkv"), "-o", out, "--json"],
    ));
    assert_eq!(said["streams"], 1);
    assert!(here.path().join("[2020].mkv").exists() && !here.path().join("2.mkv").exists());
    let own = here.path().join("own");
    let own = own.to_str().unwrap();
    json(&run(
        &server,
        &["get", &at("[2020].mkv"), "-o", own, "--json"],
    ));
    assert_eq!(fs::read_to_string(own).unwrap(), "[2020].mkv");
    let many = run(&server, &["get", &at("*.iso"), "-o", "none", "--json"]);
    assert!(
        object(&many)["error"]
            .as_str()
            .unwrap()
            .contains("make it first")
    );
    // A URL has no patterns.
    let url = format!("https://{}/d/%5Bx%5D", server.address);
    json(&run(&server, &["get", &url, "-o", out, "--json"]));
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
    let out = here.path().to_str().unwrap();
    let source = format!("{}/a", server.address);
    let begun = std::time::Instant::now();
    json(&run(
        &server,
        &["get", &source, "-o", out, "--limit", "300kB", "--json"],
    ));
    assert!(begun.elapsed().as_millis() > 800, "{:?}", begun.elapsed());
    let local = here.path().join("a");
    let begun = std::time::Instant::now();
    let put = [
        "put",
        local.to_str().unwrap(),
        &format!("{}/b", server.address),
    ];
    json(&run(
        &server,
        &[&put[..], &["--limit", "300kB/s", "--json"]].concat(),
    ));
    assert!(begun.elapsed().as_millis() > 800, "{:?}", begun.elapsed());
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
    let put = ["put", "-r", top.to_str().unwrap(), &server.address];
    let first = run(&server, &[&put[..], &["--json"]].concat());
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
    let kept = run(&server, &[&put[..], &["--json"]].concat());
    assert_eq!(kept.status.code(), Some(1));
    assert!(object(&kept)["error"].as_str().unwrap().contains("--force"));
    let said = json(&run(
        &server,
        &[&put[..], &["--force", "--checksum", "--json"]].concat(),
    ));
    assert_eq!(
        (said["streams"].as_u64(), said["unchanged"].as_u64()),
        (Some(1), Some(50))
    );
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
    let unnamed = run(&server, &["put", "-", &server.address]);
    assert_eq!(unnamed.status.code(), Some(2));
}
