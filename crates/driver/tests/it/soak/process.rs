//! Memory and descriptors of a process, read from `/proc` (Linux only).

/// Returns the resident memory in bytes.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.expect("a line").trim().trim_end_matches("kB").trim();
    kib.parse::<u64>().expect("a number") * 1024
}

/// Returns the number of open descriptors.
pub(crate) fn descriptors() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("Linux has it");
    all.count()
}

/// Returns how many datagrams the kernel has dropped because a socket of this process, which is
/// still open, was full.
pub(crate) fn datagrams_dropped() -> u64 {
    let links = std::fs::read_dir("/proc/self/fd").expect("Linux has it");
    let own: Vec<String> = links
        .filter_map(|link| std::fs::read_link(link.ok()?.path()).ok())
        .filter_map(|to| {
            let to = to.to_str()?;
            Some(to.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let sockets = std::fs::read_to_string("/proc/self/net/udp").expect("Linux has it");
    let drops = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let inode = columns.get(9)?;
        let is_own = own.iter().any(|own| own == inode);
        is_own
            .then(|| columns.last()?.parse::<u64>().ok())
            .flatten()
    };
    sockets.lines().skip(1).filter_map(drops).sum()
}
