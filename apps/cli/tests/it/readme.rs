//! The README's commands, as they stand.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::common::stderr;

/// Returns the commands of the block that begins with the offered directory, without comments.
fn commands(readme: &str) -> Vec<&str> {
    let blocks = readme.split("```sh\n").skip(1);
    let mut blocks = blocks.filter_map(|block| block.split("```").next());
    let block = blocks.find(|block| block.starts_with("mkdir -p data"));
    let lines = block.unwrap().lines();
    lines
        .map(|line| line.split(" #").next().unwrap().trim())
        .collect()
}

/// Servers go on in the background. The files that the commands name exist.
#[test]
fn the_commands_of_the_readme_run_as_they_stand() {
    let commands = commands(include_str!("../../../../README.md"));
    assert!(commands.len() >= 9, "{commands:?}");
    let here = TempDir::new().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_pathmark")).parent().unwrap();
    let mut script = format!(
        "set -e\nexport PATH={}:$PATH XDG_STATE_HOME=$PWD/state\nip link set lo up\n\
         echo 127.0.0.1 host >hosts\nmount --bind hosts /etc/hosts\necho text >notes.txt\n",
        program.display()
    );
    for (place, command) in commands.iter().enumerate() {
        let is_server = ["serve", "proxy", "tunnel"]
            .iter()
            .any(|name| command.starts_with(&format!("pathmark {name} ")));
        if command.starts_with("pathmark explain") {
            script += "pathmark get host:4433/big.iso --force --json >report.json\n";
        }
        script += &if is_server {
            format!("{command} >said{place} &\nuntil [ -s said{place} ]; do sleep 0.05; done\n")
        } else {
            format!("{command}\n")
        };
        if command.starts_with("mkdir") {
            script += "head -c 300000 /dev/urandom >data/big.iso\n";
        }
    }
    script += "cmp big.iso data/big.iso\ncmp notes.txt data/notes.txt\nkill $(jobs -p)\n";
    let mut shell = Command::new("unshare");
    shell.args([
        "-rmn",
        "--pid",
        "--fork",
        "--kill-child",
        "bash",
        "-c",
        &script,
    ]);
    let output = shell.current_dir(here.path()).output().unwrap();
    assert!(output.status.success(), "{script}{}", stderr(&output));
}
