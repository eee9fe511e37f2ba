//! What a process has: memory and descriptors. Linux only: read from `/proc`.

/// Bytes in memory.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.expect("a line").trim().trim_end_matches("kB").trim();
    kib.parse::<u64>().expect("a number") * 1024
}

/// Open descriptors.
pub(crate) fn descriptors() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("Linux has it");
    all.count()
}
