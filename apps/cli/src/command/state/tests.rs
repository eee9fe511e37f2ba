use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn user() -> u32 {
    geteuid().as_raw()
}

fn state(home: &TempDir) -> State {
    let mut warnings = Vec::new();
    let state = State::open(home.path(), user(), &mut warnings).unwrap();
    assert_eq!(warnings, [""; 0]);
    state
}

/// Adds a token and returns the warnings.
fn add(state: &State, token: &[u8]) -> Vec<String> {
    let mut warnings = Vec::new();
    let add = |now, tokens: &mut Tokens| tokens.add(now, "a:1", HERE, token);
    state.update(&mut warnings, add).unwrap();
    warnings
}

/// Removes a token, without any warning.
fn take(state: &State) -> Option<Vec<u8>> {
    let mut warnings = Vec::new();
    let taken = state.update(&mut warnings, |now, tokens| tokens.take(now, "a:1", HERE));
    assert_eq!(warnings, [""; 0]);
    taken.unwrap()
}

#[test]
fn it_is_kept_for_this_user_alone() {
    let home = TempDir::new().unwrap();
    assert_eq!(add(&state(&home), b"token"), [""; 0]);
    let mode = |name: &str| {
        let metadata = fs::metadata(home.path().join("pathmark").join(name));
        metadata.unwrap().permissions().mode() & 0o777
    };
    let modes = ["", "servers.json", "servers.lock"].map(mode);
    assert_eq!(modes, [0o700, 0o600, 0o600]);
    assert_eq!(take(&state(&home)).unwrap(), b"token");
    assert_eq!(take(&state(&home)), None);
}

/// Each fault results in one warning and loses the content, and the next run finds a valid file.
#[test]
fn what_cannot_be_used_is_replaced_after_one_warning() {
    type Spoil = fn(&Path);
    let replace: [(&str, Spoil); 7] = [
        ("not what", |path| fs::write(path, "{\"form\":1,").unwrap()),
        ("longer", |path| {
            File::create(path).unwrap().set_len(1 << 40).unwrap();
        }),
        ("no plain file", |path| symlink("/dev/zero", path).unwrap()),
        ("no plain file", |path| {
            symlink("servers.lock", path).unwrap();
        }),
        ("no plain file", |path| {
            let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
            nix::unistd::mkfifo(path, mode).unwrap();
        }),
        ("no plain file", |path| {
            drop(std::os::unix::net::UnixListener::bind(path).unwrap());
        }),
        ("not what", |path| fs::write(path, [0xff; 1000]).unwrap()),
    ];
    for (why, spoil) in replace {
        let home = TempDir::new().unwrap();
        let state = state(&home);
        add(&state, b"former");
        let path = home.path().join("pathmark/servers.json");
        fs::remove_file(&path).unwrap();
        spoil(&path);
        let warnings = add(&state, b"token");
        let is_named = matches!(&warnings[..], [one] if one.contains(why));
        assert!(is_named, "{why}: {warnings:?}");
        assert_eq!(take(&state).unwrap(), b"token");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
}

#[test]
fn nothing_of_another_users_is_used() {
    let home = TempDir::new().unwrap();
    let ours = state(&home);
    add(&ours, b"token");
    let theirs = State {
        user: user() + 1,
        ..ours.clone()
    };
    let warnings = add(&theirs, b"theirs");
    assert!(warnings[0].contains("another user"), "{warnings:?}");
    let mut warnings = Vec::new();
    assert!(State::open(home.path(), user() + 1, &mut warnings).is_none());
    assert!(warnings[0].contains("other users"), "{warnings:?}");
    let shared = fs::Permissions::from_mode(0o770);
    fs::set_permissions(&ours.directory, shared).unwrap();
    let mut warnings = Vec::new();
    assert!(State::open(home.path(), user(), &mut warnings).is_none());
    assert!(warnings[0].contains("other users"), "{warnings:?}");
}

/// Anything in place of the directory is reported and not changed.
#[test]
fn a_path_that_is_not_a_directory_is_reported() {
    type Spoil = fn(&Path);
    let places: [(&str, Spoil); 4] = [
        ("symbolic link", |path| {
            symlink(path.parent().unwrap(), path).unwrap();
        }),
        ("symbolic link", |path| symlink("nowhere", path).unwrap()),
        ("symbolic link", |path| symlink(path, path).unwrap()),
        ("no directory", |path| fs::write(path, "mine").unwrap()),
    ];
    for (why, spoil) in places {
        let home = TempDir::new().unwrap();
        let path = home.path().join("pathmark");
        spoil(&path);
        let before = fs::symlink_metadata(&path).unwrap();
        let mut warnings = Vec::new();
        assert!(State::open(home.path(), user(), &mut warnings).is_none());
        assert!(
            matches!(&warnings[..], [one] if one.contains(why) && one.contains("pathmark")),
            "{why}: {warnings:?}"
        );
        let after = fs::symlink_metadata(&path).unwrap();
        assert_eq!((after.ino(), after.len()), (before.ino(), before.len()));
        let left: Vec<_> = fs::read_dir(home.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

#[test]
fn a_user_without_a_place_for_it_hears_nothing_of_it() {
    let mut warnings = Vec::new();
    assert!(State::open(Path::new("/dev/null"), user(), &mut warnings).is_none());
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn a_lock_that_stays_is_not_waited_for() {
    let home = TempDir::new().unwrap();
    let state = state(&home);
    let lock = state.lock("servers.lock").unwrap();
    let held = state.update(&mut Vec::new(), |_, _| panic!("it is locked"));
    assert!(matches!(held, Err(StateError::Locked(_))));
    drop(lock);
    add(&state, b"token");
}

/// Whatever a process that is killed while writing leaves, the next one continues with the
/// former file.
#[test]
fn a_process_killed_while_it_writes_leaves_the_former_file() {
    let home = TempDir::new().unwrap();
    let state = state(&home);
    add(&state, b"token");
    let new = home.path().join("pathmark/servers.new");
    fs::write(&new, "{\"form\":1,\"tok").unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(take(&state).unwrap(), b"token");
    assert!(!new.exists());
    let file = home.path().join("pathmark/servers.json");
    assert_eq!(fs::metadata(file).unwrap().mode() & 0o777, 0o600);
}

/// With several threads, each token is returned once and none is lost.
#[test]
fn many_at_once_lose_nothing_and_use_nothing_twice() {
    let home = TempDir::new().unwrap();
    let mut taken = std::thread::scope(|scope| {
        let one = |n: u8| {
            let state = state(&home);
            let server = format!("a:{n}");
            move || {
                let mut taken = Vec::new();
                for round in 0..20 {
                    let change = |change: &mut dyn FnMut(Duration, &mut Tokens)| {
                        // On a busy machine, others may hold the lock for longer than the time
                        // limit.
                        loop {
                            match state.update(&mut Vec::new(), |now, tokens| change(now, tokens)) {
                                Err(StateError::Locked(_)) => {}
                                other => return other.unwrap(),
                            }
                        }
                    };
                    change(&mut |now, tokens| tokens.add(now, &server, HERE, &[n, round]));
                    change(&mut |now, tokens| taken.extend(tokens.take(now, &server, HERE)));
                }
                taken
            }
        };
        let runs: Vec<_> = (0..4).map(|n| scope.spawn(one(n))).collect();
        let taken = runs.into_iter().flat_map(|run| run.join().unwrap());
        taken.collect::<Vec<_>>()
    });
    taken.sort();
    let expected = (0..4).flat_map(|n| (0..20).map(move |round| vec![n, round]));
    assert!(expected.eq(taken.iter().cloned()), "{taken:?}");
}
