//! Threads with nothing to do, and two that hold each other up, as they are found in a node.

use std::sync::{mpsc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::{await_line, say_ready, spawn};

/// Longer than anybody watches.
const LONG: Duration = Duration::from_secs(1 << 20);

/// A worker of a pool: a flag that nobody sets.
#[inline(never)]
fn wait_until_cold(work: &(Mutex<bool>, Condvar)) {
    let mut there = work.0.lock().expect("no thread panics");
    while !*there {
        there = work.1.wait(there).expect("no thread panics");
    }
}

pub fn run() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("tokio-rt")
        .enable_all()
        .build()
        .map_err(|why| why.to_string())?;
    runtime.spawn(async { tokio::time::sleep(LONG).await });

    let work: &'static (Mutex<bool>, Condvar) = Box::leak(Box::default());
    for name in ["storage-00", "storage-01"] {
        spawn(name, move || wait_until_cold(work));
    }
    let (_blocks, engine) = crossbeam_channel::unbounded::<u64>();
    spawn("engine", move || {
        let _ = engine.recv();
    });
    let (_actions, persistence) = mpsc::channel::<u64>();
    spawn("persistence", move || {
        let _ = persistence.recv();
    });
    spawn("deferred-trie", || {
        let (lock, never) = (parking_lot::Mutex::new(()), parking_lot::Condvar::new());
        never.wait(&mut lock.lock());
    });

    // Not idle: one waits for a lock that the other has.
    static PAYLOAD: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let (taken, wait_for_it) = mpsc::channel();
    spawn("payload-service", move || {
        let _held = PAYLOAD.lock();
        taken.send(()).expect("channel");
        thread::sleep(LONG);
    });
    wait_for_it.recv().map_err(|why| why.to_string())?;
    spawn("payload-builder", || drop(PAYLOAD.lock()));

    spawn("stdin", || {
        while await_line() {}
        std::process::exit(0);
    });
    say_ready();
    runtime.block_on(std::future::pending::<()>());
    Ok(())
}
