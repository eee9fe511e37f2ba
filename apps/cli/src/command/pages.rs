//! Generates manual pages and completions from the command line's definition.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::{Shell, generate_to};

use super::{Cli, Outcome};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to write them; the directory is made
    directory: PathBuf,
}

/// Writes a page per command (`pathmark.1`, `pathmark-get.1`, …), and completions for bash, zsh
/// and fish.
pub(super) fn pages(args: &Args) -> Outcome {
    let directory = &args.directory;
    let written = write(directory);
    Ok(written.with_context(|| format!("cannot write to {}", directory.display()))?)
}

fn write(directory: &Path) -> std::io::Result<()> {
    // `help` needs no pages.
    let mut command = Cli::command().disable_help_subcommand(true);
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
        for completion in ["pathmark.bash", "_pathmark", "pathmark.fish"] {
            assert!(read(completion).contains("recursive"), "{completion}");
        }
    }
}
