"""The programs whose speed is measured with and without a tool watching."""

from profdbench.workloads.fio import Fio
from profdbench.workloads.futex import Futex
from profdbench.workloads.postgres import Pgbench, PgbenchWrite
from profdbench.workloads.redis import Redis
from profdbench.workloads.runs import Messaging, Pipe, Rustc, SystemRustc

WORKLOADS = {workload.name: workload for workload in (
    Pgbench, PgbenchWrite, Redis, Pipe, Messaging, Futex, Fio, Rustc, SystemRustc)}
