"""The programs whose speed is measured with and without a tool watching.

Two kinds. A *lasting* workload is one server under one client that both run from the first segment
to the last; a segment is cut out of it by reading the program's own count of work done at its ends.
Nothing is restarted between a traced and an untraced segment, so caches, memory layout, placement
and connections are the same ones. A *finite* workload is a command that is run once a segment,
held at a gate until the tool has attached.

Every workload is a context manager, and inside it offers
  prepare()         the pids that a tool is to watch in the next segment
  measure(seconds)  (performance over about that long, in `unit`,
                     CPU seconds that the watched processes used for each unit of work)

Some can be started under a tool (can_launch). Then `launcher` is that tool, program() the path of
what it is to watch, restart() starts it anew, and finish() ends it and gives what it printed.
"""

import bisect
import ctypes.util
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

from profdbench import process
from profdbench.process import Failed, Unavailable

MIB = 1024 * 1024


class Workload:
    """What the runner and the tools need to know of a workload."""

    name = ""
    about = ""
    unit = ""
    higher_is_better = True
    comm = None  # set where the work is in several processes that share a name
    setup_seconds = 5
    finite = False
    can_count_spans = False
    # After a tool was paused or resumed, until that has reached the workload; and how many times as
    # long and as few as others' its bursts are.
    settle_after_pause = 0.012
    burst_scale = 1
    # Where a segment is a whole run of a program: how many traced ones make a pair of a row that has
    # an aim, and how long one takes, about.
    runs_in_pair = 0
    run_seconds = 0
    can_launch = False
    launcher = None
    restart_seconds = 0  # of restart() and finish(), for the plan

    def __init__(self, directory):
        self.directory = os.path.join(directory, self.name)
        os.mkdir(self.directory)
        os.chmod(self.directory, 0o755)

    def __enter__(self):
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def open(self):
        """Starts what measure() needs; Unavailable when it cannot run here."""

    def prepare(self):
        raise NotImplementedError

    def measure(self, seconds):
        raise NotImplementedError

    def instant(self):
        """Now, in seconds of a clock that counts() knows."""
        return time.time()

    def counts(self, spans):
        """Work done in each of some spans of the past, given by two instants, ascending and apart.
        Only where can_count_spans is set."""
        raise NotImplementedError

    def program(self):
        raise NotImplementedError

    def restart(self):
        raise NotImplementedError

    def finish(self):
        raise NotImplementedError

    def launch(self, argv, **kwargs):
        """Starts a program, under the launcher if there is one."""
        if self.launcher:
            argv = self.launcher.command(argv)
            kwargs["env"] = {**os.environ, **self.launcher.environment}
        return process.spawn(argv, **kwargs)

    def close(self):
        """Ends everything; also after an open() that failed half-way."""

    def path(self, name):
        return os.path.join(self.directory, name)


def descendants(pid):
    """A process and its descendants, parents first."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = process.read_text(f"/proc/{entry}/stat")
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry))
    found = [pid]
    for one in found:
        found.extend(children.get(one, ()))
    return found


class CpuMeter:
    """What the scheduler gave to all threads of some processes since this was made."""

    def __init__(self, pids):
        self.pids = pids
        self.before = self._read()

    def _read(self):
        """Nanoseconds by thread; one that ends meanwhile is left out."""
        found = {}
        for pid in self.pids:
            try:
                threads = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue
            for thread in threads:
                try:
                    text = process.read_text(f"/proc/{pid}/task/{thread}/schedstat")
                    found[thread] = int(text.split()[0])
                except OSError:
                    pass
        return found

    def seconds(self):
        return sum(now - self.before.get(thread, 0) for thread, now in self._read().items()) / 1e9


def postgres_bin():
    """The folder of the newest PostgreSQL that is installed with its server."""
    base = "/usr/lib/postgresql"
    versions = [version for version in (os.listdir(base) if os.path.isdir(base) else [])
                if version.isdigit() and all(
                    os.access(os.path.join(base, version, "bin", program), os.X_OK)
                    for program in ("initdb", "pg_ctl", "pgbench"))]
    if not versions:
        raise Unavailable("PostgreSQL is not installed")
    return os.path.join(base, max(versions, key=int), "bin")


class Pgbench(Workload):
    """pgbench -S against a cluster of its own, on a Unix socket.

    The count is that of lines in pgbench's log, into which it writes a quarter of its transactions.
    pg_stat_database would not do: a backend reports there once a second, when it suits it.
    """

    name = "pgbench"
    about = "pgbench -S -c 8, scale 10, in memory"
    unit = "tps"
    comm = "postgres"
    setup_seconds = 12
    client_options = ["-S"]
    server_options = ["fsync=off"]
    logged = 0.25
    can_count_spans = True

    def open(self):
        self.running, self.client, self.seen = False, None, 0
        self.bin = postgres_bin()
        shutil.chown(self.directory, "postgres", "postgres")
        self.data = self.path("data")
        self.connection = ["-h", self.directory, "-U", "postgres"]
        self._as_postgres("initdb", "-A", "trust", "-E", "UTF8", "--locale=C", "-D", self.data)
        settings = ["listen_addresses=''", "shared_buffers=512MB", "autovacuum=off",
                    "max_connections=50", "checkpoint_timeout=1d", "max_wal_size=16GB",
                    *self.server_options]
        options = f"-k {self.directory} " + " ".join(f"-c {setting}" for setting in settings)
        self._as_postgres("pg_ctl", "-D", self.data, "-w", "-o", options,
                          "-l", self.path("log"), "start")
        self.running = True
        self.server = int(process.read_text(os.path.join(self.data, "postmaster.pid")).split()[0])
        self._client("pgbench", "-i", "-q", "-s", "10", "postgres")
        for command in ("vacuum analyze", "checkpoint"):
            self._client("psql", "-d", "postgres", "-c", command)
        self.said = self.path("pgbench")
        with open(self.said, "wb") as output:
            self.client = process.spawn(
                [os.path.join(self.bin, "pgbench"), *self.connection, "-n", "-c", "8",
                 *self.client_options, "-T", "1000000", "-l", f"--log-prefix={self.path('log')}",
                 f"--sampling-rate={self.logged}", "postgres"],
                stdout=output, stderr=subprocess.STDOUT)
        self.log, self.offset = f"{self.path('log')}.{self.client.pid}", 0
        deadline = time.monotonic() + 30
        while not os.path.exists(self.log):
            if self.client.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"pgbench did not start:\n{process.read_text(self.said)}")
            time.sleep(0.05)
        self.measure(3)

    def _as_postgres(self, program, *arguments):
        process.output_of(["runuser", "-u", "postgres", "--", os.path.join(self.bin, program),
                           *arguments], cwd="/")

    def _client(self, program, *arguments):
        process.output_of([os.path.join(self.bin, program), *self.connection, *arguments])

    def prepare(self):
        return descendants(self.server)

    def _read_log(self):
        """What was written to the log since the last call."""
        size = os.path.getsize(self.log)
        with open(self.log, "rb") as log:
            log.seek(self.offset)
            text = log.read(size - self.offset)
        process.punch_hole(self.log, size)
        self.offset = size
        return text

    def _count(self):
        """(time, transactions since the last call)."""
        now = time.monotonic()
        return now, self._read_log().count(b"\n") / self.logged

    def counts(self, spans):
        ends = []
        for line in self._read_log().splitlines():
            # client, number, latency, script, second and microsecond at which it ended
            fields = line.split()
            if len(fields) == 6:
                ends.append(int(fields[4]) + int(fields[5]) / 1e6)
        ends.sort()
        return [(bisect.bisect_left(ends, end) - bisect.bisect_left(ends, begin)) / self.logged
                for begin, end in spans]

    def measure(self, seconds):
        cpu = CpuMeter(self.prepare())
        begin, _ = self._count()
        time.sleep(seconds)
        end, done = self._count()
        cpu = cpu.seconds()
        if self.client.poll() is not None:
            raise Failed(f"pgbench ended:\n{process.read_text(self.said)[-2000:]}")
        if done <= 0:
            raise Failed("pgbench got no transaction done in a segment")
        return done / (end - begin), cpu / done

    def close(self):
        process.stop(getattr(self, "client", None), signal.SIGKILL)
        if getattr(self, "running", False):
            self._as_postgres("pg_ctl", "-D", self.data, "-w", "-m", "immediate", "stop")
            self.running = False


class PgbenchWrite(Pgbench):
    """The TPC-B-like transaction, with commits that wait for the disk."""

    name = "pgbench-write"
    about = "pgbench (TPC-B) -c 8, scale 10, fsync on"
    client_options = []
    server_options = []


class Redis(Workload):
    """SET, 16 in a pipeline. The server is asked how many commands it processed."""

    name = "redis"
    about = "redis-benchmark -t set -P 16, 50 connections"
    unit = "op/s"
    setup_seconds = 4
    can_count_spans = True
    settle_after_pause = 0.15
    burst_scale = 4
    can_launch = True
    restart_seconds = 5

    def open(self):
        self.server = self.client = self.connection = self.pid = None
        self.counted = {}  # commands, by instant
        for program in ("redis-server", "redis-benchmark"):
            if not shutil.which(program):
                raise Unavailable(f"{program} is not installed")
        address = self.path("socket")
        with open(self.path("log"), "wb") as output:
            self.server = self.launch(
                ["redis-server", "--port", "0", "--unixsocket", address, "--save", "",
                 "--appendonly", "no", "--dir", self.directory], stdout=output, stderr=output)
        deadline = time.monotonic() + 20
        while self.connection is None:
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.settimeout(30)
                connection.connect(address)
                self.connection = connection
            except OSError:
                connection.close()
                if self.server.poll() is not None or time.monotonic() > deadline:
                    raise Failed("redis-server did not start:\n" +
                                 process.read_text(self.path("log"))) from None
                time.sleep(0.05)
        # Not that of a tool that started it.
        self.pid = self._ask("server", "process_id")[1]
        self.client = process.spawn(
            ["redis-benchmark", "-s", address, "-t", "set", "-P", "16", "-n", "2000000000", "-l",
             "-q"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.measure(3)

    def prepare(self):
        return [self.pid]

    def _ask(self, section, key):
        """(time, number): the time is the middle of the question, which takes milliseconds."""
        before = time.monotonic()
        self.connection.sendall(f"INFO {section}\r\n".encode())
        answer = b""
        while f"{key}:".encode() not in answer or not answer.endswith(b"\r\n"):
            part = self.connection.recv(65536)
            if not part:
                raise Failed("redis-server closed the connection")
            answer += part
        number = re.search(rf"{key}:(\d+)".encode(), answer).group(1)
        return (before + time.monotonic()) / 2, int(number)

    def _count(self):
        return self._ask("stats", "total_commands_processed")

    def instant(self):
        now, commands = self._count()
        self.counted[now] = commands
        return now

    def counts(self, spans):
        done = [self.counted[end] - self.counted[begin] for begin, end in spans]
        self.counted.clear()
        return done

    def measure(self, seconds):
        cpu = CpuMeter(self.prepare())
        begin, first = self._count()
        time.sleep(seconds)
        end, last = self._count()
        cpu = cpu.seconds()
        if self.client.poll() is not None:
            raise Failed("redis-benchmark ended by itself")
        return (last - first) / (end - begin), cpu / (last - first)

    def close(self):
        process.stop(getattr(self, "client", None), signal.SIGKILL)
        if getattr(self, "connection", None):
            self.connection.close()
        server = getattr(self, "server", None)
        if server and server.poll() is None and self.pid and self.pid != server.pid:
            # A tool that started it ends after it, with what it recorded.
            try:
                os.kill(self.pid, signal.SIGTERM)
                server.wait(60)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        process.stop(server)
        self.client = self.connection = self.server = None

    def program(self):
        return shutil.which("redis-server")

    def restart(self):
        self.close()
        self.open()

    def finish(self):
        self.close()
        return process.read_text(self.path("log"))


class Fio(Workload):
    """Random reads of 4 KiB; the process's own I/O counters say how many."""

    name = "fio"
    about = "fio 4k random read, psync, 4 threads"
    unit = "read/s"
    setup_seconds = 8
    file_mib = 512
    jobs = 4

    def open(self):
        self.client = None
        if not shutil.which("fio"):
            raise Unavailable("fio is not installed")
        data = self.path("data")
        block = os.urandom(MIB)
        with open(data, "wb") as file:
            for _ in range(self.file_mib):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.close(os.open(data, os.O_RDONLY | os.O_DIRECT))
            access = ["--direct=1"]
        except OSError:
            # Without O_DIRECT, what was read is dropped again so that reads reach the device.
            access = ["--direct=0", "--invalidate=1", "--fadvise_hint=random"]
            self.about += ", buffered"
        with open(self.path("log"), "wb") as output:
            self.client = process.spawn(
                ["fio", "--name=read", f"--filename={data}", f"--size={self.file_mib}m",
                 "--rw=randread", "--bs=4k", "--ioengine=psync", "--thread",
                 f"--numjobs={self.jobs}", "--time_based", "--runtime=1000000", "--norandommap",
                 "--randrepeat=1", "--group_reporting", *access], stdout=output,
                stderr=output, cwd=self.directory)
        deadline = time.monotonic() + 20
        while len(os.listdir(f"/proc/{self.client.pid}/task")) <= self.jobs:
            if self.client.poll() is not None or time.monotonic() > deadline:
                raise Failed("fio did not start:\n" + process.read_text(self.path("log")))
            time.sleep(0.05)
        self.measure(3)

    def prepare(self):
        return [self.client.pid]

    def _count(self):
        text = process.read_text(f"/proc/{self.client.pid}/io")
        return time.monotonic(), int(re.search(r"^rchar: (\d+)", text, re.MULTILINE).group(1))

    def measure(self, seconds):
        if self.client.poll() is not None:
            raise Failed("fio ended:\n" + process.read_text(self.path("log")))
        cpu = CpuMeter(self.prepare())
        begin, first = self._count()
        time.sleep(seconds)
        end, last = self._count()
        cpu = cpu.seconds()
        reads = (last - first) / 4096
        if reads <= 0:
            raise Failed("fio read nothing in a segment")
        return reads / (end - begin), cpu / reads

    def close(self):
        process.stop(getattr(self, "client", None), signal.SIGKILL)


def children_cpu():
    """CPU seconds of all children that ended and were waited for, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Finite(Workload):
    """A command that is run once a segment: as long as asked for if its work can be set."""

    finite = True

    def open(self):
        self.process, self.printed = None, ""
        self.check()
        self.amount_per_second = self.calibrate()

    def check(self):
        if not shutil.which("perf"):
            raise Unavailable("perf is not installed")

    def command(self, amount):
        """The command that does `amount` of work."""
        raise NotImplementedError

    def parse(self, text, seconds, amount):
        """The performance, from what the command printed and how long it took."""
        raise NotImplementedError

    first_amount = 1
    environment = {}  # of the command, beside ours

    def calibrate(self):
        self.run(self.first_amount)
        began = time.monotonic()
        self.run(self.first_amount)
        return self.first_amount / (time.monotonic() - began)

    def prepare(self):
        """A shell that becomes the command as it is told how much to do."""
        self.abandon()
        environment = {**self.environment, **(self.launcher.environment if self.launcher else {})}
        self.process = process.spawn(
            ["sh", "-c", 'read -r line && eval "exec $line"'], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.directory,
            env={**os.environ, **environment})
        return [self.process.pid]

    def run(self, amount):
        if self.process is None:
            self.prepare()
        command = self.command(amount)
        if self.launcher:
            command = self.launcher.command(command)
        cpu, began = children_cpu(), time.monotonic()
        try:
            text, _ = self.process.communicate(" ".join(command) + "\n", timeout=600)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not end within ten minutes") from None
        seconds = time.monotonic() - began
        code, self.process, self.printed = self.process.returncode, None, text
        if code != 0:
            raise Failed(f"{self.name} failed:\n{text.strip()}")
        return self.parse(text, seconds, amount), (children_cpu() - cpu) / amount

    def measure(self, seconds):
        return self.run(max(1, round(self.amount_per_second * seconds)))

    def abandon(self):
        process.stop(self.process, signal.SIGKILL)
        self.process = None

    def close(self):
        if getattr(self, "process", None):
            self.abandon()

    def restart(self):
        """Every segment is a run of its own."""

    def finish(self):
        return self.printed


class Pipe(Finite):
    """Two processes that do nothing but wake each other: the dearest case for a context switch.

    On one CPU: on two it measures how fast an idle CPU wakes, and any tool that keeps it awake
    wins.
    """

    name = "pipe"
    about = "perf bench sched pipe, on one CPU"
    unit = "op/s"
    comm = "sched-pipe"
    first_amount = 100_000

    def command(self, amount):
        return ["taskset", "-c", "0", "perf", "bench", "sched", "pipe", "-l", str(amount)]

    def parse(self, text, seconds, amount):
        match = re.search(r"([0-9.]+) usecs/op", text)
        if not match:
            raise Failed(f"perf bench printed no usecs/op:\n{text}")
        return 1e6 / float(match.group(1))


class Messaging(Finite):
    """Many senders and receivers: groups of 20 each, over socket pairs."""

    name = "messaging"
    about = "perf bench sched messaging -g 5 (200 processes)"
    unit = "loop/s"
    comm = "sched-messaging"
    first_amount = 400
    groups = 5

    def command(self, amount):
        return ["perf", "bench", "sched", "messaging", "-g", str(self.groups), "-l", str(amount)]

    def parse(self, text, seconds, amount):
        match = re.search(r"Total time: ([0-9.]+)", text)
        if not match or float(match.group(1)) <= 0:
            raise Failed(f"perf bench printed no total time:\n{text}")
        return amount / float(match.group(1))


class Rustc(Finite):
    """The compiler at work on a generated library: mostly on CPU, a few threads, many page faults.

    One compilation is one segment, whatever length was asked for; its size is chosen so that it
    takes about as long as the untraced segments of the other rows.
    """

    name = "rustc"
    about = "rustc -O of a generated library, wall time"
    unit = "s"
    higher_is_better = False
    setup_seconds = 12
    can_launch = True
    runs_in_pair = 4
    run_seconds = 3

    def check(self):
        compiler = shutil.which("rustc")
        if not compiler:
            raise Unavailable("rustc is not installed")
        # rustup's rustc is a wrapper; what it starts is what is to be measured.
        sysroot = process.output_of([compiler, "--print", "sysroot"]).strip()
        real = os.path.join(sysroot, "bin", "rustc")
        self.compiler = real if os.access(real, os.X_OK) else compiler

    def calibrate(self):
        modules = 20
        self._write(modules)
        self.run(1)
        took, _ = self.run(1)
        self._write(max(4, round(modules * self.run_seconds / took)))
        self.run(1)
        return 0  # run() ignores the amount

    def program(self):
        return self.compiler

    def _write(self, modules):
        with open(self.path("lib.rs"), "w", encoding="utf-8") as file:
            file.write(rust_source(modules))

    def command(self, amount):
        return [self.compiler, "--edition", "2021", "--crate-type", "rlib", "-O", "lib.rs", "-o",
                "lib.rlib"]

    def parse(self, text, seconds, amount):
        return seconds


class SystemRustc(Rustc):
    """The distribution's compiler on a jemalloc that can profile: what rustup's compiler allocates
    goes by a malloc of its own, which heaptrack does not see, and its jemalloc is built without
    profiling."""

    name = "rustc-system"
    about = "the distribution's rustc -O, with its jemalloc preloaded, wall time"
    compiler = "/usr/bin/rustc"

    def check(self):
        if not os.access(self.compiler, os.X_OK):
            raise Unavailable(f"{self.compiler} is not installed")
        allocator = ctypes.util.find_library("jemalloc")
        if not allocator:
            raise Unavailable("libjemalloc is not installed")
        self.environment = {"LD_PRELOAD": allocator}


def rust_source(modules):
    """A library that gives each phase of the compiler something to do, the same every time."""
    parts = ["#![allow(dead_code)]\nuse std::collections::{BTreeMap, HashMap};\n"]
    for number in range(modules):
        parts.append(f"""
pub mod part{number} {{
    use super::*;
    #[derive(Clone, Debug, PartialEq, PartialOrd, Default)]
    pub struct Row {{ pub id: u64, pub name: String, pub weights: Vec<f64>, pub tag: Option<i32> }}
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Kind {{ Small(u8), Medium(u32), Large {{ low: u64, high: u64 }} }}
    pub trait Visit<T> {{ fn visit(&mut self, item: &T) -> Result<usize, String>; }}
    pub struct Total {{ sum: f64, seen: HashMap<Kind, Vec<Row>> }}
    impl Visit<Row> for Total {{
        fn visit(&mut self, item: &Row) -> Result<usize, String> {{
            let kind = match item.id % {3 + number % 5} {{
                0 => Kind::Small(item.id as u8),
                1 => Kind::Medium(item.id as u32),
                _ => Kind::Large {{ low: item.id, high: item.id.rotate_left({number % 63}) }},
            }};
            let heavy = item.weights.iter().map(|w| w * {number}.5).filter(|w| *w > 1.0);
            self.sum += heavy.sum::<f64>();
            self.seen.entry(kind).or_default().push(item.clone());
            if self.sum.is_nan() {{ return Err(format!("{{}} of {{:?}}", item.name, kind)); }}
            Ok(self.seen.len())
        }}
    }}
    pub fn sorted<T: Ord + Clone, K: Ord + Clone>(items: &[(K, T)]) -> BTreeMap<K, Vec<T>> {{
        let mut groups: BTreeMap<K, Vec<T>> = BTreeMap::new();
        for (key, value) in items {{ groups.entry(key.clone()).or_default().push(value.clone()); }}
        for values in groups.values_mut() {{ values.sort(); values.dedup(); }}
        groups
    }}
    pub fn run(rows: &[Row]) -> Result<String, String> {{
        let mut total = Total {{ sum: 0.0, seen: HashMap::new() }};
        let mut steps = Vec::new();
        for row in rows {{ steps.push((row.id ^ {number}, total.visit(row)?)); }}
        let groups = sorted(&steps);
        let names = sorted(&rows.iter().map(|r| (r.tag, r.name.clone())).collect::<Vec<_>>());
        let mut text: Vec<String> = groups.iter().map(|(k, v)| format!("{{k}}={{v:?}}")).collect();
        text.extend(names.into_iter().map(|(k, v)| format!("{{k:?}}: {{}}", v.join("+"))));
        text.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        Ok(text.join(","))
    }}
}}
""")
    return "".join(parts)


WORKLOADS = {workload.name: workload for workload in (
    Pgbench, PgbenchWrite, Redis, Pipe, Messaging, Fio, Rustc, SystemRustc)}
