//! Tests that need a process of their own.

use std::process::Command;

/// Names the test, in the environment of the process that is its own.
const OWN: &str = "PATHMARK_TEST_OF_THIS_PROCESS";

/// Runs `test` in a process of its own, which is this test program again with nothing but the test
/// `name`: its path in the program, for example `memory::connections_at_rest_are_small`.
///
/// The tests of a program share its process. A test that measures the memory of its process, counts
/// its descriptors or lowers one of its limits would disturb those that run beside it, and be
/// disturbed by them.
///
/// # Panics
///
/// As `test` does, or if the program has no test of that name.
pub fn own_process(name: &str, test: impl FnOnce()) {
    if std::env::var(OWN).is_ok_and(|own| own == name) {
        test();
        return;
    }
    let program = std::env::current_exe().expect("a test has a program");
    let output = Command::new(program)
        .args(["--exact", name, "--include-ignored", "--nocapture"])
        .env(OWN, name)
        .output()
        .expect("a test program can be started");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(
        output.status.success() && said.contains("1 passed"),
        "`{name}` failed in its own process"
    );
}
