//! A small node: an RPC server of tokio with clients, rayon pools, an engine that makes a block every 20 ms from a
//! mapped B-tree and has it written, and threads that wait for work; 55 threads in all. Nothing holds it up, until a
//! fault is planted.
//!
//!   standin node FOLDER FAULT...
//!
//! Says "ready PID". For each line on stdin the next fault is planted, for SECONDS. Then it is removed, and the
//! fault's name is printed. Ends after the last one, at one more line.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::btree::BTree;
use crate::faults::{self, Fault};
use crate::quota::Quota;
use crate::{await_line, say_ready, spawn};

const SECONDS: Duration = Duration::from_millis(2500);
const BLOCK: Duration = Duration::from_millis(20);
const REQUEST: Duration = Duration::from_millis(10);
const KEYS: u64 = 200_000;
const CLIENTS: usize = 3;

/// What threads share.
pub struct Node {
    pub database: BTree,
    pub folder: PathBuf,
    fault: AtomicUsize,
    pub blocks: Sender<u64>,
    pub storage: rayon::ThreadPool,
}

impl Node {
    /// The fault that is planted.
    pub fn fault(&self) -> Fault {
        Fault::ALL[self.fault.load(Ordering::Relaxed)]
    }

    fn plant(&self, fault: Fault) {
        let number = Fault::ALL.iter().position(|f| *f == fault);
        self.fault.store(number.expect("it is listed"), Ordering::Relaxed);
    }
}

fn pool(name: &'static str, threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(move |number| format!("{name}-{number:02}"))
        .build()
        .expect("threads")
}

#[inline(never)]
async fn answer(node: &Node, mut stream: TcpStream) -> Option<()> {
    loop {
        let key = stream.read_u64().await.ok()?;
        if node.fault() == Fault::BlockingInAsync {
            faults::read_header_file();
        }
        stream.write_u64(node.database.get(key)).await.ok()?;
    }
}

async fn ask(port: u16) -> Option<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    for key in 0.. {
        stream.write_u64(key * 7919).await.ok()?;
        stream.read_u64().await.ok()?;
        tokio::time::sleep(REQUEST).await;
    }
    None
}

/// A block: look-ups by the pool, a root, and its way to persistence.
#[inline(never)]
fn make_blocks(node: &Node) {
    for number in 0u64.. {
        thread::sleep(BLOCK);
        let root = node.storage.install(|| {
            let (left, right) = rayon::join(
                || (0..64).fold(number, |sum, key| sum ^ node.database.get(sum + key)),
                || (64..128).fold(number, |sum, key| sum ^ node.database.get(sum + key)),
            );
            left ^ right
        });
        let _ = node.blocks.send(root);
    }
}

#[inline(never)]
fn persist(node: &Node, blocks: &Receiver<u64>) {
    for root in blocks {
        if node.fault() == Fault::FullChannel {
            faults::write_slowly();
        }
        let file = node.folder.join("blocks");
        let _ = std::fs::write(file, root.to_ne_bytes());
    }
}

/// Threads that get no work while nothing is planted.
#[inline(never)]
fn await_work(work: &Receiver<u64>) {
    let _ = work.recv();
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let (folder, names) = arguments.split_first().ok_or("node needs a folder")?;
    let planned = names
        .iter()
        .map(|name| Fault::by_name(name).ok_or_else(|| format!("unknown fault {name}")))
        .collect::<Result<Vec<Fault>, String>>()?;
    // Others may run in the same folder: a map of a file that is truncated ends its process.
    let folder = PathBuf::from(folder).join(format!("node-{}", std::process::id()));
    std::fs::create_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let database =
        BTree::create(&folder.join("mdbx.dat"), KEYS).map_err(|why| format!("mdbx.dat: {why}"))?;
    let (blocks, to_persist) = crossbeam_channel::bounded(4);
    let node: &'static Node = Box::leak(Box::new(Node {
        database,
        folder,
        fault: AtomicUsize::new(0),
        blocks,
        storage: pool("storage", 4),
    }));

    let server = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .thread_name("tokio-rt")
        .enable_all()
        .build()
        .map_err(|why| why.to_string())?;
    let listener = server
        .block_on(TcpListener::bind(("127.0.0.1", 0)))
        .map_err(|why| why.to_string())?;
    let port = listener.local_addr().map_err(|why| why.to_string())?.port();
    server.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(node, stream));
        }
    });
    let clients = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("rpc-client")
        .enable_all()
        .build()
        .map_err(|why| why.to_string())?;
    for _ in 0..CLIENTS {
        clients.spawn(ask(port));
    }
    let peer = clients
        .block_on(faults::slow_peer())
        .map_err(|why| why.to_string())?;

    spawn("engine", || make_blocks(node));
    spawn("persistence", move || persist(node, &to_persist));
    let pools = [pool("cpu", 4), pool("prewarm", 4), pool("rayon", 4)];
    let (work, nothing) = crossbeam_channel::unbounded();
    for name in [
        "payload-builder",
        "payload-service",
        "deferred-trie",
        "hash-post-state",
        "receipt-root",
        "tx-iterator",
        "mdbx-rs-txn-mgr",
        "mdbx-rs-read-tx",
        "tracing-appende",
        "sparse-trie",
        "rocksdb:low",
    ] {
        let nothing = nothing.clone();
        spawn(name, move || await_work(&nothing));
    }
    let workers = faults::start_threads(node, peer).map_err(|why| why.to_string())?;

    let quota = planned
        .contains(&Fault::Quota)
        .then(Quota::enter)
        .transpose()
        .map_err(|why| format!("a cgroup for its quota: {why}"))?;

    say_ready();
    for fault in planned {
        if !await_line() {
            return Ok(());
        }
        if let Some(quota) = &quota {
            let limit = (fault == Fault::Quota).then_some(20_000);
            quota.set(limit).map_err(|why| why.to_string())?;
        }
        node.plant(fault);
        for worker in &workers {
            let _ = worker.send(fault);
        }
        thread::sleep(SECONDS);
        node.plant(Fault::None);
        println!("{}", fault.name());
    }
    while await_line() {}
    drop((quota, work, pools, server, clients));
    std::process::exit(0);
}
