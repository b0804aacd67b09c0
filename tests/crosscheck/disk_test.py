#!/usr/bin/env python3
"""Disk requests and file syncs, beside fio's own report and /proc/diskstats of the same run.

usage: disk_test.py BUILD, as root. Prints what each said, as a table for docs/accuracy.md. Exit status 77: skipped, for lack
of a fact of the machine.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

# pylint: disable=wrong-import-position
from tests.crosscheck import peer
from tests.harness.checks import wrap
from tests.harness.daemon import Daemon

SECTOR = 512
MIB = 1 << 20
JOB_SECONDS = 120
START_SECONDS = 4
SIZE = 32 * MIB
# fio's times have what its system call adds, and waits for a CPU; profd's are those of the request or call alone. So
# profd's mean lies between fio's mean and so much of fio's shortest.
LEAST_OF_FIO = 0.5
# A file of 32 MiB lies in a few pieces. What reaches into the next one is two requests; and a thread may write some blocks
# of the file system's own.
SEQUENTIAL = 0.95
MOST_MORE = 8
BLOCK = 4096

JOBS = {
    "random reads of 4 KiB": ["--rw=randread", "--bs=4k", "--direct=1", "--numjobs=2", "--io_size=8m"],
    "sequential reads of 64 KiB": ["--rw=read", "--bs=64k", "--direct=1"],
    "random reads, 16 at a time": ["--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio", "--iodepth=16", "--io_size=16m"],
    "sequential writes of 16 KiB": ["--rw=write", "--bs=16k", "--direct=1"],
    "writes of 4 KiB, each with fdatasync": ["--rw=write", "--bs=4k", "--fdatasync=1", "--io_size=2m"],
}


def requests_of(path):
    """Reads and writes that the device of a file has completed, and their bytes."""
    number = os.stat(path).st_dev
    for line in Path("/proc/diskstats").read_text().splitlines():
        words = line.split()
        if (int(words[0]), int(words[1])) == (os.major(number), os.minor(number)):
            return {"read": (int(words[3]), int(words[5]) * SECTOR), "write": (int(words[7]), int(words[9]) * SECTOR)}
    raise AssertionError(f"{path}: no such device in /proc/diskstats")


def run_job(place, options, folder):
    """What fio reports, what profd does, and what /proc/diskstats counted meanwhile."""
    data, report = folder / "data", folder / "report.json"
    daemon = Daemon(place, ["--budget", "off"], ["fio"])
    fio = place.target(["fio", "--name=job", f"--filename={data}", f"--size={SIZE}", "--thread", "--group_reporting",
                        "--ioengine=psync", "--norandommap", "--randrepeat=1", f"--startdelay={START_SECONDS}",
                        "--percentile_list=50:99", "--output-format=json", f"--output={report}", *options], {})
    try:
        before = requests_of(data)
        if fio.end(JOB_SECONDS) != 0:
            raise AssertionError(f"fio failed\n{fio.said()}")
        after = requests_of(data)
        answers = {kind: wrap(daemon.json("fetch", "--kind", kind, "-o", "-")["trailer"]) for kind in ("disk", "fsync")}
        answers["losses"] = sum(loss.count for loss in answers["disk"].losses if loss.cause == "disk_request_lost")
    finally:
        fio.kill()
        daemon.stop()
        daemon.kill()
    counted = {way: tuple(b - a for a, b in zip(before[way], after[way])) for way in before}
    return json.loads(report.read_text())["jobs"][0], answers, counted


def check_requests(name, options, job, answers, counted):
    way = "write" if "write" in options[0] else "read"
    fio, lost = job[way], answers["losses"]
    disks = [disk for disk in answers["disk"].disks if disk.operation == way]
    assert len(disks) == 1, disks
    disk, flight = disks[0], answers["disk"].flights[0]
    mean = (disk.queue_ns + disk.service_ns) / disk.requests
    share = disk.sequential_requests / disk.requests
    print(f"| {name} | {fio['total_ios']} | {disk.requests} | {counted[way][0]} | {fio['lat_ns']['mean'] / 1e3:.0f} | "
          f"{mean / 1e3:.0f} | {100 * share:.1f} % | {flight.mean:.2f} | {flight.most} |")
    assert fio["total_ios"] - lost <= disk.requests <= fio["total_ios"] + MOST_MORE, (fio["total_ios"], disk.requests, lost)
    assert fio["io_bytes"] - lost * 64 * 1024 <= disk.bytes <= fio["io_bytes"] + MOST_MORE * BLOCK, (fio["io_bytes"], disk.bytes)
    assert disk.requests <= counted[way][0] and disk.bytes <= counted[way][1], (disk, counted)
    assert 0 < mean <= fio["lat_ns"]["mean"], (fio["lat_ns"], mean)
    # Of several at a time fio takes the results together, some time later.
    if "--ioengine=libaio" not in options:
        assert LEAST_OF_FIO * fio["lat_ns"]["min"] <= mean, (fio["lat_ns"], mean)
    assert share >= SEQUENTIAL if options[0] in ("--rw=read", "--rw=write") else share <= 1 - SEQUENTIAL, share
    deepest = max(int(option.partition("=")[2]) for option in [*options, "--iodepth=1"]
                  if option.startswith(("--iodepth", "--numjobs")))
    assert deepest / 2 <= flight.most <= deepest + lost, flight
    assert 0 < flight.mean <= deepest + lost, flight


def check_syncs(name, job, answers):
    fio = job["sync"]
    syncs = [sync for sync in answers["fsync"].syncs if sync.call == "fdatasync"]
    assert len(syncs) == 1 and syncs[0].file.endswith("/data"), answers["fsync"].syncs
    sync = syncs[0]
    calls = fio["lat_ns"]["N"]  # fio's total_ios of syncs is 0
    mean, p99 = sync.total_ns / sync.calls, fio["lat_ns"]["percentile"]["99.000000"]
    print(f"| {name} | {calls} | {sync.calls} | | {fio['lat_ns']['mean'] / 1e3:.0f} | {mean / 1e3:.0f} | "
          f"p99: fio {p99 / 1e3:.0f}, profd below {sync.p99_ns / 1e3:.0f} | | |")
    assert sync.calls == calls, (sync.calls, calls)
    assert LEAST_OF_FIO * fio["lat_ns"]["min"] <= mean <= fio["lat_ns"]["mean"], (fio["lat_ns"], mean)
    p50 = fio["lat_ns"]["percentile"]["50.000000"]
    assert LEAST_OF_FIO * p50 <= sync.p50_ns, (p50, sync.p50_ns)


def test(place):
    folder = Path(tempfile.mkdtemp(prefix="profd-crosscheck.", dir="/var/tmp"))
    try:
        with open(folder / "data", "wb") as data:
            for _ in range(SIZE // MIB):
                data.write(os.urandom(MIB))
            data.flush()
            os.fsync(data.fileno())
        print("| job | fio | profd | diskstats | fio, us | profd, us | sequential | in flight | at most |\n"
              "|---|--:|--:|--:|--:|--:|--:|--:|--:|")
        for name, options in JOBS.items():
            job, answers, counted = run_job(place, options, folder)
            if "--fdatasync=1" in options:
                check_syncs(name, job, answers)
            else:
                check_requests(name, options, job, answers, counted)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(peer.main(test, "disk_requests"))
