//! What holds a node up, one at a time. Each has a function of its own, whose name a profile should show first.

use std::fs::File;
use std::hint;
use std::io::{Error, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::node::Node;
use crate::spawn;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// One lock, held for milliseconds, that eight threads want.
    HotMutex,
    /// A file is read, slowly, in an async task: its worker can run nothing else.
    BlockingInAsync,
    /// Blocks are made faster than written.
    FullChannel,
    /// All workers of a pool are in long jobs while others wait for short ones.
    RayonStarvation,
    /// Each transaction waits until it is on disk.
    FsyncOnHotPath,
    /// One lock, held for microseconds, that all threads take in turn.
    LockConvoy,
    /// All threads of a pool are woken for each item, and one gets it.
    ThunderingHerd,
    /// Threads that compute, more than there are CPUs.
    CpuHog,
    /// Answers of another node take tens of milliseconds.
    SlowPeer,
    /// The process may use a fifth of a CPU.
    Quota,
}

impl Fault {
    pub const ALL: [Fault; 11] = [
        Fault::None,
        Fault::HotMutex,
        Fault::BlockingInAsync,
        Fault::FullChannel,
        Fault::RayonStarvation,
        Fault::FsyncOnHotPath,
        Fault::LockConvoy,
        Fault::ThunderingHerd,
        Fault::CpuHog,
        Fault::SlowPeer,
        Fault::Quota,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Fault::None => "none",
            Fault::HotMutex => "hot-mutex",
            Fault::BlockingInAsync => "blocking-in-async",
            Fault::FullChannel => "full-channel",
            Fault::RayonStarvation => "rayon-starvation",
            Fault::FsyncOnHotPath => "fsync-on-hot-path",
            Fault::LockConvoy => "lock-convoy",
            Fault::ThunderingHerd => "thundering-herd",
            Fault::CpuHog => "cpu-hog",
            Fault::SlowPeer => "slow-peer",
            Fault::Quota => "quota",
        }
    }

    pub fn by_name(name: &str) -> Option<Fault> {
        Fault::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

/// Threads that compute, more than there are CPUs on the machine that runs the tests.
const HOGS: usize = 4;
/// Long jobs of the pool, as many as it has workers.
const SCANS: usize = 4;
const HERD_LOOKS: Duration = Duration::from_millis(100);

/// Waits without using a CPU, as for a device. Its callers keep their frames: it is not the last that they do.
fn pause(milliseconds: u64) -> Duration {
    let time = Duration::from_millis(milliseconds);
    thread::sleep(time);
    hint::black_box(time)
}

/// Uses a CPU.
fn spin(microseconds: u64) {
    let end = Instant::now() + Duration::from_micros(microseconds);
    while Instant::now() < end {
        hint::spin_loop();
    }
}

#[inline(never)]
fn cached_account(cache: &parking_lot::Mutex<u64>) {
    let mut reads = cache.lock();
    *reads += 1;
    pause(4);
}

/// Called by the server's tasks.
#[inline(never)]
pub fn read_header_file() -> Duration {
    pause(20) / 2
}

/// Called by persistence.
#[inline(never)]
pub fn write_slowly() -> Duration {
    pause(40) / 2
}

#[inline(never)]
fn announce_block(node: &Node) {
    let _ = node.blocks.send(0);
}

#[inline(never)]
fn scan_table() -> Duration {
    pause(50) / 2
}

#[inline(never)]
fn compute_root(node: &Node) -> u64 {
    node.storage.install(|| node.database.get(1)) + 1
}

#[inline(never)]
fn commit_transaction(file: &File) {
    let _ = file.write_all_at(&[1; 1 << 19], 0);
    let _ = file.sync_data();
    // Until the next one.
    pause(5);
}

#[inline(never)]
fn next_nonce(nonce: &Mutex<u64>) {
    let mut next = nonce.lock().expect("no thread panics");
    *next += 1;
    spin(100);
}

#[inline(never)]
fn execute_forever() {
    spin(1000);
}

/// Alone it would use an eighth of a CPU.
#[inline(never)]
fn execute_block() {
    spin(2000);
    pause(14);
}

#[inline(never)]
fn request_payload(stream: &mut TcpStream) -> Result<(), Error> {
    stream.write_all(&[1])?;
    stream.read_exact(&mut [0])
}

/// Items of which each wakes all that wait.
#[derive(Default)]
struct Herd {
    items: Mutex<u64>,
    more: Condvar,
}

impl Herd {
    #[inline(never)]
    fn await_item(&self) {
        let items = self.items.lock().expect("no thread panics");
        let (mut items, _) = self.more.wait_timeout(items, HERD_LOOKS).expect("no thread panics");
        *items = items.saturating_sub(1);
    }

    fn give(&self) {
        *self.items.lock().expect("no thread panics") += 1;
        self.more.notify_all();
    }
}

/// A thread of the RPC pool, or one for calls that block. What it does for a fault while that is planted; false: no
/// part in it.
struct Worker {
    node: &'static Node,
    herd: &'static Herd,
    transactions: File,
    peer: TcpStream,
    /// From 0 on, in its pool.
    number: usize,
}

impl Worker {
    #[inline(never)]
    fn serve(&mut self, fault: Fault) -> bool {
        static CACHE: parking_lot::Mutex<u64> = parking_lot::Mutex::new(0);
        static NONCE: Mutex<u64> = Mutex::new(0);
        match fault {
            Fault::HotMutex => cached_account(&CACHE),
            Fault::FullChannel => announce_block(self.node),
            Fault::RayonStarvation => {
                hint::black_box(compute_root(self.node));
            }
            Fault::FsyncOnHotPath => commit_transaction(&self.transactions),
            Fault::LockConvoy => next_nonce(&NONCE),
            Fault::CpuHog if self.number < HOGS => execute_forever(),
            Fault::SlowPeer => request_payload(&mut self.peer).expect("an answer"),
            Fault::Quota if self.number < HOGS => execute_block(),
            Fault::ThunderingHerd => {
                self.herd.give();
                pause(20);
            }
            _ => return false,
        }
        true
    }

    #[inline(never)]
    fn block(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::ThunderingHerd => self.herd.await_item(),
            Fault::RayonStarvation if self.number < SCANS => {
                self.node.storage.install(scan_table);
            }
            _ => return false,
        }
        true
    }

    fn work(mut self, faults: &Receiver<Fault>, part: fn(&mut Worker, Fault) -> bool) {
        for fault in faults {
            while self.node.fault() == fault && part(&mut self, fault) {}
        }
    }
}

/// Starts the threads that take part in faults. Each waits for a line of its own channel.
pub fn start_threads(node: &'static Node, peer: SocketAddr) -> Result<Vec<Sender<Fault>>, Error> {
    let herd: &'static Herd = Box::leak(Box::default());
    let mut senders = Vec::new();
    let mut start = |name: &str, threads, part: fn(&mut Worker, Fault) -> bool| {
        for number in 0..threads {
            let (sender, faults) = crossbeam_channel::unbounded();
            senders.push(sender);
            let worker = Worker {
                node,
                herd,
                transactions: File::create(node.folder.join(format!("{name}-{number}")))?,
                peer: TcpStream::connect(peer)?,
                number,
            };
            spawn(&format!("{name}-{number:02}"), move || worker.work(&faults, part));
        }
        Ok::<(), Error>(())
    };
    start("rpc", 8, Worker::serve)?;
    start("blocking", 12, Worker::block)?;
    Ok(senders)
}

/// Another node, which answers each byte after 30 ms.
pub async fn slow_peer() -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(byte) = stream.read_u8().await {
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    if stream.write_u8(byte).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    Ok(address)
}
