//! How much memory a process holds.

use rustix::process::Pid;

/// Private bytes in memory: resident pages but those of files and shared memory, as a container's limit counts them.
pub(super) fn private_bytes(pid: Pid) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_pid())).ok()?;
    let mut pages = statm.split(' ').skip(1).map(|field| field.trim().parse::<u64>());
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_counts() {
        let own = rustix::process::getpid();
        let before = private_bytes(own).unwrap();
        let held = vec![1u8; 32 << 20];
        let after = private_bytes(own).unwrap();
        assert!(after >= before + (24 << 20), "{before} {after} {}", held.len());
        assert_eq!(private_bytes(Pid::from_raw(i32::MAX).unwrap()), None);
    }
}
