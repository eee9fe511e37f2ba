//! Manual pages and completions, generated from the description of the command line.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::{Shell, generate_to};

/// The example configuration, which explains every key.
const EXAMPLE: &str = include_str!("../../packaging/vcp-router.toml");

/// Writes one page per command (`vcp-router.1`, `vcp-router-setup.1`, …), one for the
/// configuration (`vcp-router.toml.5`), and completions for bash, zsh and fish.
///
/// # Errors
/// Returns any I/O error from writing.
pub(super) fn write(directory: &Path, command: Command) -> io::Result<()> {
    // `help` does not need a separate page.
    let mut command = command.disable_help_subcommand(true);
    fs::create_dir_all(directory)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command, "vcp-router", directory)?;
    }
    fs::write(directory.join("vcp-router.toml.5"), configuration())?;
    clap_mangen::generate_to(command, directory)
}

/// The configuration's page (roff, man(7)).
fn configuration() -> String {
    let mut page = concat!(
        ".TH vcp-router.toml 5 \"\" \"vcp-router ",
        env!("CARGO_PKG_VERSION"),
        "\"\n.SH NAME\nvcp\\-router.toml \\- configuration of vcp\\-router\n",
        ".SH SYNOPSIS\n/etc/vcp\\-router.toml\n",
        ".SH DESCRIPTION\nThe file is in TOML (https://toml.io). ",
        "The example below has every key with its meaning.\n",
        "\\fBvcp\\-router check \\-\\-config\\fR \\fIFILE\\fR names each mistake in a file; ",
        "\\fBsystemctl reload vcp\\-router\\fR puts a changed file in force.\n",
        ".SH EXAMPLE\n.nf\n",
    )
    .to_owned();
    for line in EXAMPLE.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        // At the start of a line, a dot or an apostrophe would be a request.
        page += if line.starts_with(['.', '\'']) {
            "\\&"
        } else {
            ""
        };
        page += &line;
        page.push('\n');
    }
    page +=
        ".fi\n.SH SEE ALSO\nvcp\\-router(1), vcp\\-router\\-check(1), vcp\\-router\\-setup(1)\n";
    page
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// The example has every key (see `config::tests`), so the page must have them too.
    #[test]
    fn the_page_of_the_configuration_has_every_key() {
        let page = configuration().replace("\\-", "-").replace("\\e", "\\");
        let lines: Vec<_> = page.lines().collect();
        let mut keys = 0;
        for line in EXAMPLE.lines() {
            assert!(lines.contains(&line), "{line}");
            let key = line.trim_start_matches("# ").split(" = ").next();
            keys += usize::from(key.is_some_and(|key| key.len() < line.len()));
        }
        assert!(keys > 40, "{keys}");
        assert!(page.starts_with(".TH vcp-router.toml 5 "));
    }

    /// The documentation should explain exactly the alerts in the package.
    #[test]
    fn the_page_on_operation_has_each_alert() {
        let rules = include_str!("../../packaging/alerts.yml");
        let page = include_str!("../../../../docs/router/operation.md");
        let alerts: Vec<&str> = (rules.lines())
            .filter_map(|line| line.trim().strip_prefix("- alert: "))
            .collect();
        for alert in &alerts {
            assert!(page.contains(&format!("| `{alert}` |")), "{alert}");
        }
        assert_eq!(page.matches("| `VcpRouter").count(), alerts.len());
    }

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
        assert!(read("vcp-router.toml.5").contains(".SH EXAMPLE"));
        for none in ["vcp-router-pages.1", "vcp-router-help.1"] {
            assert!(!directory.path().join(none).exists(), "{none}");
        }
    }
}
