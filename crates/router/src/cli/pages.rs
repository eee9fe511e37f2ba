//! Manual pages and completions, made from the command line's own description.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::{Shell, generate_to};

/// Writes a page per command (`vcp-router.1`, `vcp-router-setup.1`, …) and completions for bash,
/// zsh and fish.
///
/// # Errors
/// Those of writing.
pub(super) fn write(directory: &Path, command: Command) -> io::Result<()> {
    // `help` needs no pages of its own.
    let mut command = command.disable_help_subcommand(true);
    fs::create_dir_all(directory)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command, "vcp-router", directory)?;
    }
    clap_mangen::generate_to(command, directory)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn each_command_has_a_page_and_is_completed() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), super::super::Arguments::command()).unwrap();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert!(read("vcp-router-setup.1").contains("dry\\-run"));
        let completions = ["vcp-router.bash", "_vcp-router", "vcp-router.fish"].map(read);
        for command in ["run", "check", "setup", "teardown", "show", "capacity"] {
            assert!(read(&format!("vcp-router-{command}.1")).contains(".SH SYNOPSIS"));
            assert!(read("vcp-router.1").contains(&format!("vcp\\-router\\-{command}(1)")));
            assert!(completions.iter().all(|text| text.contains(command)));
        }
        for none in ["vcp-router-pages.1", "vcp-router-help.1"] {
            assert!(!directory.path().join(none).exists(), "{none}");
        }
    }
}
