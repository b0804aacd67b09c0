//! The places that allocate, and the one that frees: functions of their own, whatever the compiler
//! would make of sixteen equal ones.

use std::hint::black_box;

use tikv_jemallocator::usable_size;

#[derive(Clone, Copy, Default)]
pub struct Amount {
    pub count: u64,
    pub requested: u64,
    pub usable: u64,
}

impl Amount {
    fn add(&mut self, requested: usize, usable: usize) {
        self.count += 1;
        self.requested += requested as u64;
        self.usable += usable as u64;
    }

    pub fn merge(&mut self, other: Amount) {
        self.count += other.count;
        self.requested += other.requested;
        self.usable += other.usable;
    }
}

#[derive(Clone, Copy, Default)]
pub struct Account {
    pub allocated: Amount,
    pub freed: Amount,
}

impl Account {
    pub fn merge(&mut self, other: Account) {
        self.allocated.merge(other.allocated);
        self.freed.merge(other.freed);
    }
}

/// What is aligned to more than the allocator does by itself.
#[repr(align(64))]
pub struct Line {
    _bytes: [u8; 64],
}

pub enum Memory {
    Bytes(Vec<u8>),
    Lines(Vec<Line>),
}

pub struct Block {
    pub site: usize,
    pub memory: Memory,
}

/// Of malloc, calloc, malloc and realloc, mallocx.
#[derive(Clone, Copy)]
pub enum Way {
    Plain,
    Zeroed,
    Grown,
    Aligned,
}

/// (requested, usable) bytes.
fn size_of<T>(memory: &Vec<T>) -> (usize, usize) {
    // SAFETY: the callers' vectors have a capacity, so this is where an allocation begins.
    (memory.capacity() * std::mem::size_of::<T>(), unsafe {
        usable_size(memory.as_ptr())
    })
}

#[inline(always)]
fn allocate(way: Way, size: usize, account: &mut Account) -> Memory {
    let memory = match way {
        Way::Plain => Memory::Bytes(Vec::with_capacity(size)),
        Way::Zeroed => Memory::Bytes(vec![0; size]),
        Way::Grown => {
            let mut bytes = Vec::with_capacity(size);
            let (requested, usable) = size_of(&bytes);
            account.allocated.add(requested, usable);
            account.freed.add(requested, usable);
            bytes.reserve_exact(2 * size);
            Memory::Bytes(bytes)
        }
        Way::Aligned => Memory::Lines(Vec::with_capacity(size.div_ceil(64))),
    };
    let (requested, usable) = memory.size();
    account.allocated.add(requested, usable);
    memory
}

impl Memory {
    fn size(&self) -> (usize, usize) {
        match self {
            Memory::Bytes(bytes) => size_of(bytes),
            Memory::Lines(lines) => size_of(lines),
        }
    }
}

pub type Site = fn(Way, usize, &mut Account) -> Memory;

macro_rules! sites {
    ($($name:ident $number:literal),+) => {
        $(
            #[inline(never)]
            fn $name(way: Way, size: usize, account: &mut Account) -> Memory {
                let memory = allocate(way, size, account);
                // What makes it unlike the others.
                let _ = black_box($number);
                memory
            }
        )+
        pub const SITES: &[(&str, Site)] = &[$((stringify!($name), $name as Site)),+];
    };
}

sites!(
    site_00 0, site_01 1, site_02 2, site_03 3, site_04 4, site_05 5, site_06 6, site_07 7,
    site_08 8, site_09 9, site_10 10, site_11 11, site_12 12, site_13 13, site_14 14, site_15 15
);

#[inline(never)]
pub fn free_site(block: Block, account: &mut Account) {
    let (requested, usable) = block.memory.size();
    account.freed.add(requested, usable);
    drop(block);
    // So that the call above is not the last thing, which would leave no frame.
    let _ = black_box(0);
}
