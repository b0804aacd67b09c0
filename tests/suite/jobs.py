"""Jobs that depend on each other, run side by side, with the time that each took."""

import os
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

POLL_SECONDS = 0.05


@dataclass
class Job:
    name: str
    run: object                 # run(Context) -> list of Outcome; raises Failed
    after: tuple = ()           # names of jobs that must have ended well
    follows: tuple = ()         # names of jobs that must have ended, well or not
    cpus: float = 1             # how many CPUs it keeps busy
    nice: int = 0               # of its session: whose work can wait, and who cannot
    long: bool = False          # in --all alone
    about: str = ""


@dataclass
class Ran:
    job: Job
    outcomes: list = field(default_factory=list)
    error: str = ""
    began: float = 0            # s since the run began
    wall: float = 0
    cpu: float = 0

    @property
    def state(self):
        return "failed" if self.error or any(o.result == "failed" for o in self.outcomes) else "ok"


class Failed(Exception):
    """A job could not do its work."""


def share_cpus(pid, nice):
    """Weighs a process that leads a session, and all that it will start. Where the kernel shares CPUs between sessions
    (autogroup), the nice values of processes count within theirs alone. Without privilege only what yields does."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, nice)
        group = Path(f"/proc/{pid}/autogroup")
        if nice and group.exists():
            group.write_text(str(nice))
    except OSError:
        pass  # it ended, or may have no more weight than others


class Context:
    """What a job gets: where things are, and a way to run commands whose CPU time is counted."""

    def __init__(self, name, root, logs, facts, options, nice=0):
        self.name, self.root, self.facts, self.options, self.nice = name, root, facts, options, nice
        self.log_path = logs / f"{name}.log"
        self.logs = logs
        self.cpu = 0.0
        self._lock = threading.Lock()
        self.log_path.write_text("")

    def command(self, argv, *, timeout=3600, environment=None, check=True, directory=None):
        """Runs to the end with its output in the job's log. The exit code, or Failed with `check`."""
        with self.log_path.open("ab") as log:
            log.write(f"$ {' '.join(map(str, argv))}\n".encode())
            log.flush()
            child = subprocess.Popen(
                [str(word) for word in argv], cwd=directory or self.root, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **(environment or {})})
            share_cpus(child.pid, self.nice)
            code = self._wait(child, timeout)
        if code is None:
            raise Failed(f"{argv[0]} took longer than {timeout} s; its output is in {self.log_path}")
        if check and code != 0:
            raise Failed(f"{Path(str(argv[0])).name} ended with {code}:\n{self.tail()}")
        return code

    def _wait(self, child, timeout):
        deadline = time.monotonic() + timeout
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                with self._lock:
                    self.cpu += usage.ru_utime + usage.ru_stime
                child.returncode = os.waitstatus_to_exitcode(status)
                return child.returncode
            if time.monotonic() > deadline:
                os.killpg(child.pid, 9)
                os.wait4(child.pid, 0)
                return None
            time.sleep(POLL_SECONDS)

    def tail(self, lines=30):
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])


class Schedule:
    """Starts each job as soon as what it needs is there and CPUs are free."""

    def __init__(self, jobs, cpus, make_context, show):
        names = {job.name for job in jobs}
        self.jobs = jobs
        # A job that was not chosen is taken to be done.
        self.needs = {job.name: [name for name in job.after if name in names] for job in jobs}
        self.waits = {job.name: [name for name in job.follows if name in names] for job in jobs}
        self.cpus, self.make_context, self.show = cpus, make_context, show
        self.changed = threading.Condition()
        self.ran = {}
        self.free = cpus
        self.began = time.monotonic()

    def run(self):
        waiting, threads = list(self.jobs), []
        while waiting:
            with self.changed:
                job = self._next(waiting)
                while job is None:
                    self.changed.wait()
                    job = self._next(waiting)
                waiting.remove(job)
                broken = [name for name in self.needs[job.name] if self.ran[name].error]
                if broken:
                    self.ran[job.name] = Ran(job, error=f"{broken[0]} failed",
                                             began=time.monotonic() - self.began)
                    self.show(self.ran[job.name])
                    continue
                self.free -= job.cpus
            thread = threading.Thread(target=self._run, args=(job,))
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join()
        return [self.ran[job.name] for job in self.jobs]

    def _next(self, waiting):
        for job in waiting:
            ready = all(name in self.ran for name in self.needs[job.name] + self.waits[job.name])
            # One that wants more than there is runs when nothing else does.
            if ready and (job.cpus <= self.free or self.free >= self.cpus):
                return job
        return None

    def _run(self, job):
        ran = Ran(job, began=time.monotonic() - self.began)
        context = self.make_context(job)
        try:
            ran.outcomes = job.run(context) or []
        except Failed as error:
            ran.error = str(error)
        except Exception as error:  # pylint: disable=broad-except
            ran.error = f"{type(error).__name__}: {error}"
        ran.wall = time.monotonic() - self.began - ran.began
        ran.cpu = context.cpu
        with self.changed:
            self.ran[job.name] = ran
            self.free += job.cpus
            self.changed.notify_all()
        self.show(ran)
