//! What jemalloc says of itself.

use std::ffi::{CStr, CString};
use std::{mem, ptr};

use tikv_jemalloc_sys::mallctl;

/// Bytes that the current thread allocated and freed so far.
#[derive(Clone, Copy, Default)]
pub struct Counters {
    pub allocated: u64,
    pub freed: u64,
}

impl Counters {
    pub fn read() -> Counters {
        Counters {
            allocated: counter(c"thread.allocated"),
            freed: counter(c"thread.deallocated"),
        }
    }
}

fn counter(name: &CStr) -> u64 {
    let mut value: u64 = 0;
    let mut size = mem::size_of::<u64>();
    // SAFETY: both names stand for a uint64_t that is only read.
    let error = unsafe {
        mallctl(
            name.as_ptr(),
            ptr::from_mut(&mut value).cast(),
            &mut size,
            ptr::null_mut(),
            0,
        )
    };
    assert_eq!(error, 0, "mallctl {name:?}");
    value
}

/// Writes a heap profile. Needs `prof:true` in `_RJEM_MALLOC_CONF`.
pub fn dump(path: &str) -> Result<(), String> {
    let path = CString::new(path).map_err(|why| why.to_string())?;
    let mut name = path.as_ptr();
    // SAFETY: prof.dump takes a const char*, which lives until it returns.
    let error = unsafe {
        mallctl(
            c"prof.dump".as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::from_mut(&mut name).cast(),
            mem::size_of_val(&name),
        )
    };
    match error {
        0 => Ok(()),
        _ => Err(format!(
            "prof.dump: {}",
            std::io::Error::from_raw_os_error(error)
        )),
    }
}
