//! A B-tree in a file that is mapped, read-only and shared, as a node's database is: a look-up is page faults and
//! memory reads, no system call.

use std::fs::File;
use std::io::{Error, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::slice;

const PAGE: usize = 4096;
/// Keys of a page, each with a value; for inner pages the value is the number of the child. The first word of a
/// page is how many there are.
const FANOUT: usize = (PAGE - 8) / 16;

pub struct BTree {
    words: &'static [u64],
    root: usize,
    keys: u64,
}

impl BTree {
    /// A tree of the keys 0, 1 ... `keys`-1, in a new file. The value of a key is its square.
    pub fn create(path: &Path, keys: u64) -> Result<BTree, Error> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        let mut level: Vec<(u64, u64)> = (0..keys).map(|key| (key, key.wrapping_mul(key))).collect();
        let mut pages = 0;
        // Leaves first, the root last.
        loop {
            let mut parents = Vec::new();
            for page in level.chunks(FANOUT) {
                let mut words = vec![page.len() as u64];
                words.extend(page.iter().flat_map(|&(key, value)| [key, value]));
                words.resize(PAGE / 8, 0);
                parents.push((page[0].0, pages));
                pages += 1;
                let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
                file.write_all(&bytes)?;
            }
            if parents.len() <= 1 {
                break;
            }
            level = parents;
        }
        let length = pages as usize * PAGE;
        // SAFETY: a new mapping of a whole file that nobody truncates.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        // SAFETY: it is mapped for good, aligned to pages, and as long as that.
        let words = unsafe { slice::from_raw_parts(start.cast::<u64>(), length / 8) };
        let root = pages as usize - 1;
        Ok(BTree { words, root, keys })
    }

    /// Any number stands for a key.
    #[inline(never)]
    pub fn get(&self, number: u64) -> u64 {
        let key = number % self.keys;
        let mut page = self.root;
        loop {
            let words = &self.words[page * PAGE / 8..][..PAGE / 8];
            let entries = &words[1..][..2 * words[0] as usize];
            // The last one that is not above the key; the first key of a page is its least.
            let (mut low, mut high) = (0, words[0] as usize);
            while high - low > 1 {
                let middle = (low + high) / 2;
                if entries[2 * middle] <= key {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            let value = entries[2 * low + 1];
            // Leaves come first in the file.
            if page < (self.keys as usize).div_ceil(FANOUT) {
                return value;
            }
            page = value as usize;
        }
    }
}
