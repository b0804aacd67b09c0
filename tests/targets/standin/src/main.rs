//! A stand-in for op-reth: built from crates that op-reth is built from, with threads that have the
//! names, the allocator and the ways to wait of a node's, in amounts that are known.
//!
//!   standin alloc [--OPTION VALUE]...   allocates and frees (alloc.rs)
//!   standin idle                        waits in every way until stdin is closed (idle.rs)
//!   standin node FOLDER FAULT...        a small node that is held up in one way after another (node.rs)
//!
//! Each says "ready PID" once all of its threads are there.

mod alloc;
mod btree;
mod faults;
mod idle;
mod jemalloc;
mod node;
mod quota;
mod sites;

use std::io::Write;
use std::process::ExitCode;
use std::thread;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let outcome = match mode.as_str() {
        "alloc" => alloc::Options::parse(&rest).and_then(alloc::run),
        "idle" if rest.is_empty() => idle::run(),
        "node" => node::run(&rest),
        _ => Err("usage: standin alloc [--OPTION VALUE]... | idle | node FOLDER FAULT...".to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("standin: {why}");
            ExitCode::from(2)
        }
    }
}

/// Starts a thread that ends with the process.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    thread::Builder::new()
        .name(name.to_string())
        .spawn(body)
        .expect("thread");
}

fn say_ready() {
    println!("ready {}", std::process::id());
    std::io::stdout().flush().expect("stdout");
}

/// False at the end of stdin. Waits in poll, as the main thread of a node does: that is idle, and reading a pipe is not.
fn await_line() -> bool {
    let mut orders = libc::pollfd {
        fd: libc::STDIN_FILENO,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut byte = [0u8];
    loop {
        let read = unsafe {
            libc::poll(&mut orders, 1, -1);
            libc::read(libc::STDIN_FILENO, byte.as_mut_ptr().cast(), 1)
        };
        if read != 1 || byte[0] == b'\n' {
            return read == 1;
        }
    }
}
