//! How much memory there is for long work, to be known before it begins.

use std::path::Path;

/// Bytes that this process can still take: what the machine has left, or the control group it runs in, whichever is
/// less. None where the system does not say.
pub(crate) fn available() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok();
    let machine = read("/proc/meminfo").and_then(|text| of_machine(&text));
    let limit = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<u64>().ok());
    let used =
        read("/sys/fs/cgroup/memory.current").and_then(|text| text.trim().parse::<u64>().ok());
    let group = limit.zip(used).map(|(limit, used)| limit.saturating_sub(used));
    machine.into_iter().chain(group).min()
}

/// `MemAvailable` of `/proc/meminfo`, which is in KiB.
fn of_machine(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_that_is_left_is_read_as_the_system_writes_it() {
        let text =
            "MemTotal:       16384 kB\nMemFree: 5 kB\nMemAvailable:    8192 kB\nBuffers: 1 kB\n";
        assert_eq!(of_machine(text), Some(8192 * 1024));
        assert_eq!(of_machine("MemTotal: 16384 kB\n"), None);
        assert_eq!(of_machine("MemAvailable: many kB\n"), None);
    }
}
