//! Allocates and frees in known amounts at known places, in two phases, as tests/targets/alloc.cc:
//! waits for a line on stdin before each, then prints its account as a line of JSON and ends when
//! stdin is closed.
//!
//!   --threads 1      threads of a pool, storage-00 ...
//!   --tokio 0        tasks on as many workers of tokio, tokio-rt
//!   --count 1000     allocations of each of them
//!   --size 1000      bytes of each; one in eight grows to twice that (realloc), one is aligned to
//!                    64, one is zeroed
//!   --sites 1        up to 16: each allocation is made in site_00, site_01 ...
//!   --skew 0         1: the first site has the most of them, the last the fewest
//!   --free-share 0   percent that are freed again, in free_site; half of them by another thread,
//!                    persistence, to which they go through a channel
//!   --dump PREFIX    jemalloc's own profile, to PREFIX.0 before and PREFIX.1 after the first phase
//!
//! Nothing else in the counted threads allocates during the phases, but for some hundred bytes of
//! the channel where it is full.

use std::fmt::Write;
use std::sync::{Barrier, OnceLock};
use std::thread;

use crossbeam_channel::{Receiver, Sender};

use crate::jemalloc::{self, Counters};
use crate::sites::{free_site, Account, Amount, Block, Way, SITES};
use crate::{await_line, say_ready, spawn};

pub struct Options {
    threads: usize,
    tokio: usize,
    count: usize,
    size: usize,
    sites: usize,
    skew: usize,
    free_share: usize,
    dump: Option<String>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options {
            threads: 1,
            tokio: 0,
            count: 1000,
            size: 1000,
            sites: 1,
            skew: 0,
            free_share: 0,
            dump: None,
        };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("{} needs a value", pair[0]));
            };
            let (number, range) = match name.as_str() {
                "--threads" => (&mut options.threads, 1..=256),
                "--tokio" => (&mut options.tokio, 0..=64),
                "--count" => (&mut options.count, 1..=1 << 32),
                "--size" => (&mut options.size, 1..=1 << 30),
                "--sites" => (&mut options.sites, 1..=SITES.len()),
                "--skew" => (&mut options.skew, 0..=1),
                "--free-share" => (&mut options.free_share, 0..=100),
                "--dump" => {
                    options.dump = Some(value.clone());
                    continue;
                }
                _ => return Err(format!("unknown option {name}")),
            };
            *number = value
                .parse()
                .ok()
                .filter(|number| range.contains(number))
                .ok_or_else(|| format!("{name} {value} is out of range"))?;
        }
        Ok(options)
    }
}

struct Report {
    name: String,
    tid: i32,
    sites: Vec<Account>,
    before: Counters,
    after: Counters,
}

impl Report {
    /// Of the current thread; the last that it allocates before it is counted.
    fn begin(sites: usize) -> Report {
        let sites = vec![Account::default(); sites];
        let name = thread::current().name().unwrap_or_default().to_string();
        // SAFETY: it has no preconditions.
        let tid = unsafe { libc::gettid() };
        Report {
            name,
            tid,
            sites,
            before: Counters::read(),
            after: Counters::default(),
        }
    }

    fn total(&self) -> Account {
        let mut total = Account::default();
        self.sites.iter().for_each(|site| total.merge(*site));
        total
    }
}

struct Shared {
    options: Options,
    barrier: Barrier,
    reports: Vec<OnceLock<Report>>,
}

impl Shared {
    fn meet(&self) {
        self.barrier.wait();
    }

    fn publish(&self, index: usize, mut report: Report) {
        report.after = Counters::read();
        assert!(
            self.reports[index].set(report).is_ok(),
            "two threads of one number"
        );
        self.meet();
    }
}

/// The finaliser of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// What a thread's i-th allocation is goes by this: without a pattern, since an allocator that
/// pauses every so many bytes would fall into step with one.
fn hash_of(thread: usize, i: usize) -> u64 {
    mix(((thread as u64 + 1) << 40) + i as u64)
}

fn site_of(options: &Options, thread: usize, i: usize) -> usize {
    let hash = hash_of(thread, i) as usize;
    let site = (hash & 0xffff) % options.sites;
    match options.skew {
        0 => site,
        _ => site.min((hash >> 16 & 0xffff) % options.sites),
    }
}

fn way_of(thread: usize, i: usize) -> Way {
    match hash_of(thread, i) >> 48 & 7 {
        0 => Way::Zeroed,
        1 => Way::Grown,
        2 => Way::Aligned,
        _ => Way::Plain,
    }
}

#[inline(never)]
fn allocate_all(
    options: &Options,
    thread: usize,
    blocks: &mut Vec<Option<Block>>,
    sites: &mut [Account],
) {
    for i in 0..options.count {
        let site = site_of(options, thread, i);
        let memory = SITES[site].1(way_of(thread, i), options.size, &mut sites[site]);
        blocks.push(Some(Block { site, memory }));
    }
}

#[inline(never)]
fn free_share(
    options: &Options,
    blocks: &mut [Option<Block>],
    sites: &mut [Account],
    others: &Sender<Block>,
) {
    for (i, slot) in blocks.iter_mut().enumerate() {
        if i * 61 % 100 >= options.free_share {
            continue;
        }
        let block = slot.take().expect("freed twice");
        if mix(i as u64) & 1 == 0 {
            others.send(block).expect("channel");
        } else {
            let site = block.site;
            free_site(block, &mut sites[site]);
        }
    }
}

/// All of a thread's part; what it still holds then is kept for good.
fn work(shared: &Shared, thread: usize, others: Sender<Block>) {
    let options = &shared.options;
    let mut blocks = Vec::with_capacity(options.count);
    let mut report = Report::begin(options.sites);
    shared.meet(); // all are there
    shared.meet(); // the first line was read
    allocate_all(options, thread, &mut blocks, &mut report.sites);
    shared.meet();
    shared.meet(); // the second line was read
    free_share(options, &mut blocks, &mut report.sites, &others);
    drop(others);
    shared.publish(thread, report);
    std::mem::forget(blocks);
}

fn persist(shared: &Shared, index: usize, blocks: Receiver<Block>) {
    let mut report = Report::begin(shared.options.sites);
    for _ in 0..4 {
        shared.meet(); // as in work()
    }
    for block in blocks {
        let site = block.site;
        free_site(block, &mut report.sites[site]);
    }
    shared.publish(index, report);
}

/// Holds a thread that is counted until the process ends.
fn stay() -> ! {
    loop {
        thread::park();
    }
}

pub fn run(options: Options) -> Result<(), String> {
    let workers = options.threads + options.tokio;
    let shared: &'static Shared = Box::leak(Box::new(Shared {
        barrier: Barrier::new(workers + 2),
        reports: (0..=workers).map(|_| OnceLock::new()).collect(),
        options,
    }));
    let options = &shared.options;
    let (others, blocks) = crossbeam_channel::bounded(1024);
    for index in 0..options.threads {
        let others = others.clone();
        spawn(&format!("storage-{index:02}"), move || {
            work(shared, index, others);
            stay();
        });
    }
    if options.tokio > 0 {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.tokio)
            .thread_name("tokio-rt")
            .enable_all()
            .build()
            .map_err(|why| why.to_string())?;
        for index in options.threads..workers {
            let others = others.clone();
            // Blocks its worker at the barrier, so that each task has one to itself.
            runtime.spawn(async move { work(shared, index, others) });
        }
        // Its workers stay until the process ends.
        std::mem::forget(runtime);
    }
    drop(others);
    spawn("persistence", move || {
        persist(shared, workers, blocks);
        stay();
    });

    shared.meet();
    for phase in 0..2 {
        if let Some(prefix) = &options.dump {
            jemalloc::dump(&format!("{prefix}.{phase}"))?;
        }
        say_ready();
        if !await_line() {
            std::process::exit(0);
        }
        shared.meet();
        shared.meet(); // the phase is over
    }
    println!("{}", account(shared));
    while await_line() {}
    std::process::exit(0);
}

fn amount(amount: Amount) -> String {
    let Amount {
        count,
        requested,
        usable,
    } = amount;
    format!(r#"{{"count":{count},"requested":{requested},"usable":{usable}}}"#)
}

fn amounts(account: Account) -> String {
    format!(
        r#""allocated":{},"freed":{}"#,
        amount(account.allocated),
        amount(account.freed)
    )
}

fn account(shared: &Shared) -> String {
    let mut sites = vec![Account::default(); shared.options.sites];
    let mut total = Account::default();
    let mut threads = String::new();
    for report in shared
        .reports
        .iter()
        .map(|report| report.get().expect("a report"))
    {
        for (sum, site) in sites.iter_mut().zip(&report.sites) {
            sum.merge(*site);
        }
        total.merge(report.total());
        let comma = if threads.is_empty() { "" } else { "," };
        write!(
            threads,
            r#"{comma}{{"name":"{}","tid":{},{},"counted":{{"allocated":{},"freed":{}}}}}"#,
            report.name,
            report.tid,
            amounts(report.total()),
            report.after.allocated - report.before.allocated,
            report.after.freed - report.before.freed,
        )
        .expect("memory");
    }
    let sites: Vec<String> = sites
        .iter()
        .zip(SITES)
        .map(|(site, (name, _))| format!(r#"{{"name":"{name}",{}}}"#, amounts(*site)))
        .collect();
    format!(
        r#"{{"pid":{},"allocator":"jemalloc","threads":[{threads}],"sites":[{}],"total":{{{}}}}}"#,
        std::process::id(),
        sites.join(","),
        amounts(total),
    )
}
