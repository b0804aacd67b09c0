//! A cgroup for this process alone, whose use of CPUs can be limited. Needs root and the controller "cpu", of
//! version 1 or 2.

use std::fs;
use std::io::Error;
use std::path::{Path, PathBuf};

const PERIOD_US: u32 = 100_000;
const VERSION_1: &str = "/sys/fs/cgroup/cpu";
const VERSION_2: &str = "/sys/fs/cgroup";

pub struct Quota {
    folder: PathBuf,
    first: bool,
}

impl Quota {
    /// Moves this process into a new cgroup, without a limit.
    pub fn enter() -> Result<Quota, Error> {
        let first = Path::new(VERSION_1).join("cpu.cfs_period_us").exists();
        let above = Path::new(if first { VERSION_1 } else { VERSION_2 });
        if !first {
            fs::write(above.join("cgroup.subtree_control"), "+cpu")?;
        }
        let folder = above.join(format!("standin-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let quota = Quota { folder, first };
        fs::write(
            quota.folder.join("cgroup.procs"),
            std::process::id().to_string(),
        )?;
        Ok(quota)
    }

    /// Microseconds of CPU time in a period of 100 ms; none: no limit.
    pub fn set(&self, limit: Option<u32>) -> Result<(), Error> {
        if self.first {
            let text = limit.map_or("-1".to_string(), |us| us.to_string());
            return fs::write(self.folder.join("cpu.cfs_quota_us"), text);
        }
        let text = limit.map_or("max".to_string(), |us| us.to_string());
        fs::write(self.folder.join("cpu.max"), format!("{text} {PERIOD_US}"))
    }
}

impl Drop for Quota {
    /// Leaves and removes the cgroup. What cannot be removed does no harm.
    fn drop(&mut self) {
        let above = self.folder.parent().unwrap_or(Path::new(VERSION_2));
        let _ = fs::write(above.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&self.folder);
    }
}
