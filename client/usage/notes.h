// What the help of each command says below its options.
#ifndef PROFD_CLIENT_USAGE_NOTES_H_
#define PROFD_CLIENT_USAGE_NOTES_H_

namespace profctl {

inline constexpr char kExitStatus[] =
    R"(
Exit status:
  0  success
  1  failure: profd cannot be reached or refuses, or the answer cannot be written
  2  usage error
  3  diff: a stack grew by more than --fail-over allows
)";

inline constexpr char kNotes[] =
    R"(Examples:
  profctl fetch                          flame graph and summary of the last minute
  profctl fetch --since 5min --thread '^tokio' --reason lock,disk
  profctl fetch --from 14:00 --to 14:05
  profctl fetch --format text            the summary alone, as in a script or a container
  profctl fetch --format folded --idle | sort -t' ' -k2 -n | tail
  profctl fetch --kind alloc             who allocated memory in the last minute
  profctl fetch --kind rss               who touched the memory that is resident now
  profctl fetch --kind mapped            who mapped memory (heap growth, large blocks)
  profctl fetch -o wait.json             the complete answer as JSON
  profctl symbolize wait.json --debug-file target/release/reth
                                         names from an unstripped build on this machine
  profctl diff 10min..5min 5min..now     what changed in the last five minutes
  profctl why --thread '^rpc'            what these threads wait for, and what that waits for
  profctl bottlenecks --target reth      what limits throughput, and by how much at most
  profctl worst --since 10min            the longest single waits
  profctl locks --since 10min            the most contended locks and who released them
  profctl memory --since 10min           what memory consists of, and whether it grows
  profctl stacks --target postgres       what every thread does now
  profctl threads --since 10s            a row for each thread: CPU, run queue, waits, rates
  profctl top                            the same and what every thread does now, refreshing
  profctl status                         what profd watches, lacks, loses and costs
)";

inline constexpr char kTimes[] =
    R"(
Times and durations:
  DURATION  90s, 5min, 2h, 1h30m, 250ms, 1d
  TIME      14:00, yesterday 14:00, '2026-01-31 14:00:05', 2026-01-31T14:00:05+01:00,
            1769864700 (seconds since 1970), '5min ago', now. Times are local unless a zone
            follows: Z, +01:00, Europe/Berlin. Every time that profctl prints is a TIME.
)";

inline constexpr char kDiffNotes[] =
    R"(A and B are each a file written by 'fetch --format json', or a window FROM..TO. FROM and TO
are a TIME, or a DURATION before now. '5min' alone is a window that ends now.

A stack changed if the difference is significant and at least 0.5 % of the total. The test
is a z test on the standard errors, corrected for the number of stacks (Holm, 5 % overall).

In the flame graph, red frames grew and blue ones shrank. The stronger the colour, the larger
the change relative to A. Grey frames did not change significantly. Stacks that are only in A
have no width; the subtitle has their sum, and '--width-of max' draws them.

Examples:
  profctl diff 10min..5min 5min..now     the last five minutes and the five before
  profctl diff 10min..5min 5min..now -o diff.svg
  profctl diff good.json 5min            a file against now
  profctl diff --kind alloc --fail-over 10% before.json after.json
)";

inline constexpr char kSymbolizeNotes[] =
    R"(ANSWER is a file written by 'fetch --format json' on any machine, even before the debug file
existed. Debug files are matched by build-id, or by equal code (.text and .eh_frame), which
stripping does not change. /usr/lib/debug/.build-id is searched, too. Functions without a name
get one, and so do inlined functions, files and lines. Idle waits are found again.
Servers are asked only with --debuginfod or DEBUGINFOD_URLS.

Output is that of fetch: without -o and --format a summary and a flame graph.

Examples:
  profctl symbolize wait.json --debug-file target/release/reth
  profctl symbolize wait.json --debug-dir ~/debug -o named.json
  profctl fetch --debug-file target/release/reth     the same in one step
)";

inline constexpr char kWorstNotes[] =
    R"(Each wait with its begin, duration, thread, system call and first argument, stack, and who
ended it, as far as this is known. Durations are exact while context switches are watched
('switch' in profctl status); else they have bounds. A wait counts if it overlaps the window.
Idle waits (poll, sleep, parked workers) are left out unless --idle is given.

Examples:
  profctl worst                          the longest waits of the last minute
  profctl worst --since 1h --thread '^rpc' --reason lock,disk
  profctl worst --from 14:00 --to 14:05 --limit 100 --format json | jq .longest
)";

inline constexpr char kLocksNotes[] =
    R"(Locks, the most contended first:
  waiting      time that threads waited for it, ± one standard error
  share        of all off-CPU time that is not idle
  samples      ticks that saw a thread wait for it
  lock         module:symbol+offset; heap and address; a file. 'lock of FUNCTION' if the
               wait says only where the lock was wanted (parking_lot, absl, tokio, channels)
  wanted by    the function of the program that waited longest
  released by  who ended most of the waits: function (process/thread), or [timer]

Condition variables, semaphores, joins and parked threads are not contention. They are folded
away unless --idle is given; a line says how much time that was.

Examples:
  profctl locks                          the last minute
  profctl locks --since 10min --target postgres --sort threads
  profctl fetch --kind locks             the same as a flame graph
  profctl locks --format json | jq '.locks[0].releasers'
)";

inline constexpr char kMemoryNotes[] =
    R"(Processes, largest RSS first:
  now          RSS: resident memory; PSS: RSS with shared pages divided among processes
  consists of  anonymous: heap and stacks; file: mapped files, which the kernel can drop
               and read again; shmem: shared memory and tmpfs
  cgroup       usage and the tightest limit; this is what the OOM killer looks at
  growth       slope of the RSS (least squares): GROWS, steady or shrinks, and when it
               would reach the limit
  allocated    and freed: exact if the allocator is watched. The top allocators are below
               the plot and in 'profctl fetch --kind alloc'
  address space  private memory mapped and unmapped by libc calls

Examples:
  profctl memory                         the last minute
  profctl memory --since 1h              is there a leak?
  profctl memory --target reth --format json | jq '.processes[0].points[-1]'
)";

inline constexpr char kWhyNotes[] =
    R"(Who ended the waits, what those threads did meanwhile, who ended their waits, and so on, until
something other than a thread: a disk, the network, a timer, a CPU, code that runs.
Starts with the group of threads that waits most; idle waits do not count there.
Threads whose names differ only in a trailing number are one group.

Scheduling delay is time without a CPU: of these threads, and inherited from those that they wait
for, by the number of wakers in between. 'profctl fetch --kind runqueue' shows who had the CPU.

It is an estimate, from sampled pairs of waiter and waker. It assumes that a waker does the
same while others wait for it as in the rest of the window. --reason selects the first waits of the chains.

Examples:
  profctl why                            the threads that wait most, in the last minute
  profctl why --thread '^rpc' --since 5min --reason lock
  profctl why --format json | jq '.chains[0].ends[0]'
)";

inline constexpr char kBottlenecksNotes[] =
    R"(The longest wait is rarely the one that matters. Waits go on from waker to waker, in proportion to
what each thread does. Threads that wait for each other and for nobody else form a knot;
speeding up anything outside the knots gains nothing. For each piece of work and each wait in a
knot, the factor is an upper bound of the gain in throughput from removing it, with a 95 %
interval: at that point the next group of threads has no time left. The real gain may be smaller.
Threads whose names differ only in a trailing number are one group. Idle waits do not count.

Examples:
  profctl bottlenecks                    all processes, in the last minute
  profctl bottlenecks --target reth --since 10min --top 3
  profctl bottlenecks --format json | jq '.knots[0].bottlenecks[0].gain'
)";

inline constexpr char kStacksNotes[] =
    R"(What every thread does at this moment, without stopping any: on a CPU, waiting for a CPU, or
waiting, for what and since when, with its stack. The longest wait comes first. Threads with the
same stack are one entry. Idle threads (poll, sleep, parked workers) are folded into a table.

Threads that run have no stack here: 'profctl fetch --kind cpu' has samples of them.

Examples:
  profctl stacks --target postgres       who waits for what
  profctl stacks --thread '^tokio' --idle
  profctl stacks --format json | jq '.threads[] | select(.reason == "lock")'
)";

inline constexpr char kThreadsNotes[] =
    R"(One row for each thread: what it did in the window, as shares of its wall time. Time on a CPU,
on the run queue and blocked add up to the wall time; idle waits are part of the blocked time.
Rates are per second of the window.

Examples:
  profctl threads --since 10s            the last ten seconds, as top shows them
  profctl threads --sort blocked --by name
  profctl threads --format json | jq '.threads[] | select(.exited | not)'
)";

inline constexpr char kTopNotes[] =
    R"(The threads of 'profctl threads' and 'profctl stacks' in one table: where the time of the last
interval went, and what each thread does now. Enter shows the waits of a row and the stacks of
its threads; ? lists all keys. In a terminal it runs until you press q. If profd goes away,
it says so and reconnects.

With --batch, --rounds, --once or --format json, or if the output is not a terminal, it prints
a table for each update, or with --format json a line.
)";

inline constexpr char kTopExamples[] =
    R"(
Examples:
  profctl top                            all targets
  profctl top --target postgres --by name --sort blocked
  profctl top --once --by stack          once, as text
  profctl top --format json | jq -c '.rows[0].threads[0].now.reason'
)";

inline constexpr char kStatusNotes[] =
    R"(Examples:
  profctl status                         a page to read
  profctl status --format json | jq .missing
  profctl status --names                 also how functions got their names
)";

inline constexpr char kCompletionNotes[] =
    R"(Examples:
  source <(profctl completion bash)      this shell; in ~/.bashrc: every shell
  profctl completion zsh >"${fpath[1]}/_profctl"
  profctl completion fish >~/.config/fish/completions/profctl.fish
)";

}  // namespace profctl

#endif  // PROFD_CLIENT_USAGE_NOTES_H_
