//! A Markdown table of the interop runner's cases, with this library in either role.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::cases::{self, Stacks};

/// Time limit for each case, the same as the runner's.
const PATIENCE: Duration = Duration::from_secs(60);

const FAILED: &str = "failed";

/// Runs the cases that the program's arguments name, or all cases, with both pairs of `roles` at
/// the same time, skipping those that can't be run according to `can`. Prints a table with `titles`
/// as its columns, and the cases that are not run with the reasons. The program fails if any case
/// fails.
pub(crate) async fn print(
    titles: [&str; 2],
    roles: [Stacks; 2],
    can: impl Fn(&str, Stacks) -> bool,
    not_run: &[(&str, &str)],
) -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let unknown = wanted
        .iter()
        .find(|name| !cases::NAMES.contains(&name.as_str()));
    if let Some(name) = unknown {
        let names = cases::NAMES.join(" ");
        eprintln!("{name}: no such case\nusage: [CASE…], of {names}");
        return ExitCode::from(2);
    }
    println!("| case | {} |\n|---|---|---|", titles.join(" | "));
    let mut all_passed = true;
    for name in cases::NAMES {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let [first, second] = roles.map(|stacks| cell(name, stacks, can(name, stacks)));
        let (first, second) = tokio::join!(first, second);
        println!("| {name} | {first} | {second} |");
        all_passed &= ![first, second].contains(&FAILED.to_owned());
    }
    println!("\n| not run | why |\n|---|---|");
    for (name, why) in not_run {
        println!("| {name} | {why} |");
    }
    if all_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns the table's entry for a case.
async fn cell(name: &'static str, stacks: Stacks, can: bool) -> String {
    if !can {
        return "not run".to_owned();
    }
    let passed = passes(name, stacks).await;
    passed.map_or_else(
        || FAILED.to_owned(),
        |took| format!("{:.1} s", took.as_secs_f64()),
    )
}

/// Returns how long the case took, or `None` if it failed, after printing the failure.
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
async fn passes(name: &'static str, stacks: Stacks) -> Option<Duration> {
    let began = Instant::now();
    let task = tokio::spawn(tokio::time::timeout(PATIENCE, cases::run(name, stacks)));
    matches!(task.await, Ok(Ok(()))).then(|| began.elapsed())
}
