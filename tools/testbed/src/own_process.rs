//! Tests that need their own process.

use std::process::Command;

/// Names the test in the environment of the process that runs it.
const OWN: &str = "PATHMARK_TEST_OF_THIS_PROCESS";

/// Runs `test` in its own process, by starting this test program again for the single test `name`,
/// which is its path in the program, for example `memory::connections_at_rest_are_small`.
///
/// The tests of a program share its process. A test that measures the memory of its process, counts
/// its descriptors or lowers one of its limits would disturb other tests, and would be disturbed by
/// them.
///
/// # Panics
///
/// If `test` panics, or if the program has no test with this name.
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
