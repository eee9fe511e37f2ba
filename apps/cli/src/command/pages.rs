//! Generates manual pages and completions from the command line's definition, and suggests commands
//! for unknown ones.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser as _};
use clap_complete::{Shell, generate, generate_to};
use pathmark_link::keys::nearest;

use super::{Cli, Failure, Outcome, output};

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// The command, such as `get` or `perf client`; by default pathmark itself
    command: Vec<String>,
}

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to write them; the directory is made
    directory: PathBuf,
}

/// Prints a manual page.
pub(super) fn man(args: &ManArgs) -> Outcome {
    let mut all = described();
    all.build();
    let mut found = &all;
    for name in &args.command {
        let inner = found.find_subcommand(name);
        found = inner.ok_or_else(|| Failure::usage(anyhow!("there is no command `{name}`")))?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(found.clone()).render(&mut page)?;
    Ok(output::text(format_args!(
        "{}",
        String::from_utf8_lossy(&page)
    ))?)
}

/// Prints the completions for a shell.
pub(super) fn completions(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    generate(args.shell, &mut described(), "pathmark", &mut script);
    Ok(output::text(format_args!(
        "{}",
        String::from_utf8_lossy(&script)
    ))?)
}

/// Parses the arguments of this process. For an unknown command, the error has the nearest one.
pub(super) fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|mut error| {
        let given = match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(given)) if error.kind() == ErrorKind::InvalidSubcommand => {
                given.clone()
            }
            _ => error.exit(),
        };
        let all = described();
        let names = all.get_subcommands().map(clap::Command::get_name);
        if error.get(ContextKind::SuggestedSubcommand).is_none()
            && let Some(name) = nearest(&given, names)
        {
            let suggested = ContextValue::Strings(vec![name.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, suggested);
        }
        error.exit()
    })
}

/// Returns the commands without `help`, which needs no pages.
fn described() -> clap::Command {
    Cli::command().disable_help_subcommand(true)
}

/// Writes a page per command (`pathmark.1`, `pathmark-get.1`, …), and completions for bash, zsh
/// and fish.
pub(super) fn pages(args: &Args) -> Outcome {
    let directory = &args.directory;
    let written = write(directory);
    Ok(written.with_context(|| format!("cannot write to {}", directory.display()))?)
}

fn write(directory: &Path) -> std::io::Result<()> {
    let mut command = described();
    fs::create_dir_all(directory)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command, "pathmark", directory)?;
    }
    clap_mangen::generate_to(command, directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page() {
        let here = tempfile::tempdir().unwrap();
        write(&here.path().join("made")).unwrap();
        let read = |name: &str| fs::read_to_string(here.path().join("made").join(name)).unwrap();
        for command in ["get", "put", "serve", "ls", "perf-client", "emulate"] {
            let page = read(&format!("pathmark-{command}.1"));
            assert!(page.contains(".TH pathmark-"), "{command}");
        }
        assert!(read("pathmark-get.1").contains("recursive"));
        let described = described();
        let names = described.get_subcommands().map(clap::Command::get_name);
        let names: Vec<_> = names.collect();
        for (given, meant) in [
            ("gte", Some("get")),
            ("sreve", Some("serve")),
            ("waterfall", None),
        ] {
            assert_eq!(nearest(given, names.iter().copied()), meant);
        }
        for completion in ["pathmark.bash", "_pathmark", "pathmark.fish"] {
            assert!(read(completion).contains("recursive"), "{completion}");
        }
    }
}
