//! Compares the memory for packets with the limits that the system sets for this process.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tun::sys;

/// Where control groups are mounted (cgroups(7), version 2).
const GROUPS: &str = "/sys/fs/cgroup";

/// The lowest of the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ceiling {
    bytes: u64,
    set_by: SetBy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SetBy {
    /// `memory.max` of this control group or one of its ancestors.
    Group(PathBuf),
    /// RLIMIT_AS (setrlimit(2)).
    AddressSpace,
}

impl fmt::Display for SetBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(file) => write!(f, "{} (systemd: MemoryMax=)", file.display()),
            Self::AddressSpace => f.write_str("the limit of address space (ulimit -v)"),
        }
    }
}

/// Returns a warning if `memory` bytes of packets exceed this process's limits.
pub(super) fn too_little(memory: u64) -> Option<String> {
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.and_then(|text| group_ceiling(Path::new(GROUPS), &text));
    let space = sys::address_space().map(|bytes| Ceiling {
        bytes,
        set_by: SetBy::AddressSpace,
    });
    let least = group.into_iter().chain(space).min_by_key(|all| all.bytes)?;
    exceeded(memory, &least)
}

fn exceeded(memory: u64, least: &Ceiling) -> Option<String> {
    let Ceiling { bytes, set_by } = least;
    (memory > *bytes).then(|| {
        let what_then = match set_by {
            SetBy::Group(_) => "the kernel ends the router when packets need more",
            SetBy::AddressSpace => "packets that need more are dropped",
        };
        format!(
            "memory: packets may take {memory} bytes, but {set_by} leaves {bytes}: {what_then}; \
             lower `memory` or raise that limit"
        )
    })
}

/// Returns the lowest `memory.max` between the control group in `text` (proc(5),
/// /proc/PID/cgroup) and the root of version 2, which is at `mount`.
fn group_ceiling(mount: &Path, text: &str) -> Option<Ceiling> {
    let group = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let path = mount.join(group);
    let levels = path
        .ancestors()
        .take_while(|level| level.starts_with(mount));
    let limits = levels.filter_map(|level| {
        let file = level.join("memory.max");
        // "max" means that there is no limit.
        let bytes = fs::read_to_string(&file).ok()?.trim().parse().ok()?;
        Some(Ceiling {
            bytes,
            set_by: SetBy::Group(file),
        })
    });
    limits.min_by_key(|ceiling| ceiling.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let text = "1:name=systemd:/other\n0::/a/b\n";
        assert_eq!(group_ceiling(dir.path(), text), None);
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(group_ceiling(dir.path(), text), None);
        fs::write(dir.path().join("a/memory.max"), "1000\n").unwrap();
        fs::write(dir.path().join("memory.max"), "2000\n").unwrap();
        let least = group_ceiling(dir.path(), text).unwrap();
        assert_eq!(least.bytes, 1000);
        assert_eq!(exceeded(1000, &least), None);
        let warning = exceeded(1001, &least).unwrap();
        let file = dir.path().join("a/memory.max");
        assert!(warning.contains(file.to_str().unwrap()), "{warning}");
        assert!(warning.contains("lower `memory`"), "{warning}");
        // Version 1, and none.
        assert_eq!(group_ceiling(dir.path(), "3:memory:/a\n"), None);
        assert_eq!(group_ceiling(dir.path(), ""), None);
    }
}
