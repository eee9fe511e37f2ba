//! The packaged units under a systemd of the test's own, as root. What is not here: machines.

mod system;

use std::process::Command;
use std::time::Duration;

use system::System;

const START: &str = "systemctl enable --now vcp-router";
/// Puts the configuration aside and adds a line that no router takes.
const SPOIL: &str = "cp /etc/vcp-router.toml /etc/vcp-router.toml.good; \
                     echo 'rate = 7' >> /etc/vcp-router.toml";
/// Takes that line away again.
const RESTORE: &str = "cp /etc/vcp-router.toml.good /etc/vcp-router.toml";
/// A datagram to the router itself is refused, which it takes the router to say.
const ANSWERED: &str = "exec 3<>/dev/udp/192.0.2.1/9; echo >&3; \
                        timeout 5 cat <&3 2>&1 | grep -q refused";

impl System {
    fn answers(&self) -> bool {
        self.asks(&format!("bash -c '{ANSWERED}'"))
    }
}

#[test]
fn the_unit_runs_without_rights_and_says_what_it_does() {
    let Some(system) = System::boot() else {
        return;
    };
    // Only root may open TUN interfaces: udev would have let everybody.
    system.says("chmod 600 /dev/net/tun");
    assert!(!system.asks(START));
    let why = "the user that runs the router may not open /dev/net/tun";
    assert!(system.journal().contains(why), "{}", system.journal());
    system.says("systemctl stop vcp-router; chmod 666 /dev/net/tun");
    // Started means ready: it answers at once.
    system.says(START);
    let shown = system.says("vcp-router show");
    assert!(shown.contains("wan"), "{shown}");
    assert_eq!(system.property("ActiveState"), "active");
    assert!(system.property("StatusText").contains("2 ports"));
    assert!(system.answers());

    // Its rights.
    let pid = system.main_pid();
    let status = system.says(&format!("cat /proc/{pid}/status"));
    for expected in [
        "Uid:\t901\t901\t901\t901",
        "Gid:\t901\t901\t901\t901",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(status.contains(expected), "{expected}: {status}");
    }

    // The operators' group may ask, others may not.
    let modes = "cd /run/vcp-router; stat -c '%U %G %a' . control.sock /var/lib/vcp-router";
    assert_eq!(
        system.says(modes),
        "vcp-router vcp-router 750\nvcp-router vcp-router 660\nvcp-router vcp-router 750"
    );
    let show = |user: u32| {
        let who = format!("setpriv --reuid {user} --regid {user} --init-groups");
        system.asks(&format!("{who} vcp-router show"))
    };
    assert!(show(902), "an operator is refused");
    assert!(!show(903), "another user gets the state");

    // Reloads, and their results.
    let status = |text: &str| system.property("StatusText").contains(text);
    system.says("sed -i 's/^rate = \"10Mbit\"/rate = \"11Mbit\"/' /etc/vcp-router.toml");
    system.says("systemctl reload vcp-router");
    system.until("reloaded", |_| status("reloaded, generation 2"));
    assert!(system.says("vcp-router show --json").contains("11000000"));
    system.says(SPOIL);
    assert!(!system.asks("systemctl reload vcp-router"), "a bad file");
    assert!(status("generation 2") && system.main_pid() == pid);
    assert_eq!(system.property("ActiveState"), "active");
    system.says(&format!("{RESTORE}; systemctl reload vcp-router"));
    system.until("reloaded again", |_| status("reloaded, generation 3"));
    assert_eq!(system.main_pid(), pid);
    assert_eq!(system.property("NRestarts"), "0");

    // Stopped, the interfaces stay; disabled, nothing does.
    system.says("systemctl stop vcp-router");
    assert_eq!(system.property("Result"), "success");
    assert!(system.asks("ip link show vcp0"));
    system.says("systemctl disable --now vcp-router vcp-router-setup");
    assert!(!system.asks("ip link show vcp0"), "still there");
    assert_eq!(system.says("ip route show table all proto 118"), "");
}

#[test]
fn the_unit_comes_back() {
    let Some(system) = System::boot() else {
        return;
    };
    system.says(START);
    let first = system.main_pid();

    // After a crash.
    system.says(&format!("kill -KILL {first}"));
    let (second, took) = system.until_another(first);
    println!("killed: active again after {took:?}");
    assert!(system.answers());

    // After an interface has been deleted: set-up makes it again, as root.
    system.says("ip link delete vcp0");
    let (third, took) = system.until_another(second);
    println!("interface deleted: active again after {took:?}");
    assert!(system.answers());

    // However often it cannot start, it does once it can.
    system.says(SPOIL);
    system.says(&format!("kill -KILL {third}"));
    let restarts = |system: &System| system.property("NRestarts").parse::<u32>().unwrap();
    // systemd gives up after 5 in 10 s unless the unit sets another limit.
    system.until("eight attempts", |system| restarts(system) >= 8);
    system.says(RESTORE);
    let (fourth, took) = system.until_another(third);
    println!("configuration mended: active again after {took:?}");
    assert!(system.answers());

    // A process that hangs is found by the watchdog.
    let before = restarts(&system);
    system.says(&format!("kill -STOP {fourth}"));
    let (_, took) = system.until_another(fourth);
    println!("stopped: active again after {took:?}");
    // `WatchdogSec=10`, less what had passed since the last sign of life.
    assert!(took > Duration::from_secs(4), "{took:?}");
    assert!(system.journal().contains("Watchdog timeout"));
    assert_eq!(restarts(&system), before + 1);
    assert!(system.answers());
}

/// A rule that another program removes is made again: the router, which has no right to, asks the
/// unit that has it. After the end nothing is.
#[test]
fn the_unit_repairs_steering() {
    let Some(system) = System::boot() else {
        return;
    };
    system.says("ip link add lan0 type veth peer name peer0");
    let steer = "printf '[[steer]]\\nfrom = \"lan0\"\\nport = \"lan\"\\n' >> /etc/vcp-router.toml";
    system.says(&format!("{steer}; {START}"));
    let rule = "ip rule show iif lan0 | grep -q 11801";
    assert!(system.asks(rule));
    system.says("ip rule delete iif lan0");
    let took = system.until("a rule again", |system| system.asks(rule));
    println!("a deleted rule is there again after {took:?}");
    assert!(system.journal().contains("steering of port lan is missing"));
    let ok = "vcp-router show --metrics | grep -q 'steering_ok{port=\"lan\"} 1'";
    system.until("shown as mended", |system| system.asks(ok));
    system.says("systemctl disable --now vcp-router vcp-router-setup");
    assert!(!system.asks(rule), "made again after the end");
    assert_eq!(system.property("Result"), "success");
}

/// systemd finds nothing wrong with the units, where it is installed.
#[test]
fn the_units_hold_together() {
    let units = [
        "vcp-router.service",
        "vcp-router-setup.service",
        "vcp-router-repair.service",
        "vcp-router-repair.path",
    ];
    let dir = tempfile::tempdir().unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    for unit in units {
        let text = std::fs::read_to_string(format!("packaging/{unit}")).unwrap();
        let program = env!("CARGO_BIN_EXE_vcp-router");
        let text = text.replace("/usr/bin/vcp-router", program);
        std::fs::write(dir.path().join(unit), text).unwrap();
        verify.arg(dir.path().join(unit));
    }
    match verify.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            // Keys of systemd 254 that older ones pass over.
            let newer = |line: &&str| {
                line.contains("'RestartSteps'") || line.contains("'RestartMaxDelaySec'")
            };
            let faults: Vec<_> = said.lines().filter(|line| !newer(line)).collect();
            assert!(output.status.success() && faults.is_empty(), "{said}");
        }
        Err(error) => {
            let ci = std::env::var_os("CI").is_some();
            assert!(!ci, "systemd-analyze cannot be run: {error}");
            eprintln!("systemd-analyze cannot be run ({error}): the units are not verified");
        }
    }
}
