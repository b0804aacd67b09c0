// What the help of each command says below its options.
#ifndef PROFD_CLIENT_USAGE_NOTES_H_
#define PROFD_CLIENT_USAGE_NOTES_H_

namespace profctl {

inline constexpr char kExitStatus[] =
    "\n"
    "Exit status:\n"
    "  0  success\n"
    "  1  failure: profd cannot be reached or refuses, or the answer cannot be written\n"
    "  2  usage error\n"
    "  3  diff: a stack grew by more than --fail-over allows\n";

inline constexpr char kNotes[] =
    "Examples:\n"
    "  profctl fetch                          flame graph and summary of the last minute\n"
    "  profctl fetch --since 5min --thread '^tokio' --reason lock,disk\n"
    "  profctl fetch --from 14:00 --to 14:05\n"
    "  profctl fetch --format folded --idle | sort -t' ' -k2 -n | tail\n"
    "  profctl fetch --kind alloc             who allocated memory in the last minute\n"
    "  profctl fetch --kind rss               who touched the memory that is resident now\n"
    "  profctl fetch --kind mapped            who mapped memory (heap growth, large blocks)\n"
    "  profctl fetch -o wait.json             the complete answer as JSON\n"
    "  profctl symbolize wait.json --debug-file target/release/reth\n"
    "                                         names from an unstripped build on this machine\n"
    "  profctl diff 10min..5min 5min..now     what changed in the last five minutes\n"
    "  profctl why --thread '^rpc'            what these threads wait for, and what that waits "
    "for\n"
    "  profctl bottlenecks --target reth      what limits throughput, and by how much at most\n"
    "  profctl worst --since 10min            the longest single waits\n"
    "  profctl locks --since 10min            the most contended locks and who holds them up\n"
    "  profctl memory --since 10min           what memory consists of, and whether it grows\n"
    "  profctl stacks --target postgres       what every thread does now\n"
    "  profctl threads --since 10s            a row for each thread: CPU, run queue, waits, rates\n"
    "  profctl top                            the same and what every thread does now, refreshing\n"
    "  profctl status                         what profd watches, lacks, loses and costs\n";

inline constexpr char kTimes[] =
    "\n"
    "Times and durations:\n"
    "  DURATION  90s, 5min, 2h, 1h30m, 250ms, 1d\n"
    "  TIME      14:00, yesterday 14:00, '2026-01-31 14:00:05', 2026-01-31T14:00:05+01:00,\n"
    "            1769864700 (seconds since 1970), '5min ago', now. Times are local unless a zone\n"
    "            follows: Z, +01:00, Europe/Berlin. Every time that profctl prints is a TIME.\n";

inline constexpr char kDiffNotes[] =
    "A and B are each a file written by 'fetch --format json', or a window FROM..TO. FROM and TO\n"
    "are a TIME, or a DURATION before now. '5min' alone is a window that ends now.\n"
    "\n"
    "A stack changed if the difference is significant and at least 0.5 % of the total. The test\n"
    "is a z test on the standard errors, corrected for the number of stacks (Holm, 5 % overall).\n"
    "\n"
    "In the flame graph, red frames grew and blue ones shrank. The stronger the colour, the "
    "larger\n"
    "the change relative to A. Grey frames did not change significantly. Stacks that are only in "
    "A\n"
    "have no width; the subtitle has their sum, and '--width-of max' draws them.\n"
    "\n"
    "Examples:\n"
    "  profctl diff 10min..5min 5min..now     the last five minutes and the five before\n"
    "  profctl diff 10min..5min 5min -o diff.svg\n"
    "  profctl diff good.json 5min            a file against now\n"
    "  profctl diff --kind alloc --fail-over 10% before.json after.json\n";

inline constexpr char kSymbolizeNotes[] =
    "ANSWER is a file written by 'fetch --format json' on any machine, also before the debug file\n"
    "was there. Debug files are matched by build-id, or by equal code (.text and .eh_frame), "
    "which\n"
    "stripping does not change. /usr/lib/debug/.build-id is searched, too. Functions without a "
    "name\n"
    "get one, and so do inlined functions, files and lines. Idle waits are found anew.\n"
    "Servers are asked only with --debuginfod or DEBUGINFOD_URLS.\n"
    "\n"
    "Output is that of fetch: without -o and --format a summary and a flame graph.\n"
    "\n"
    "Examples:\n"
    "  profctl symbolize wait.json --debug-file target/release/reth\n"
    "  profctl symbolize wait.json --debug-dir ~/debug -o named.json\n"
    "  profctl fetch --debug-file target/release/reth     the same in one step\n";

inline constexpr char kWorstNotes[] =
    "Each wait with its begin, duration, thread, system call and first argument, stack, and who\n"
    "ended it, as far as this is known. Durations are exact while context switches are watched\n"
    "('switch' in profctl status); else they have bounds. A wait counts if it overlaps the "
    "window.\n"
    "Idle waits (poll, sleep, parked workers) are left out unless --idle is given.\n"
    "\n"
    "Examples:\n"
    "  profctl worst                          the longest waits of the last minute\n"
    "  profctl worst --since 1h --thread '^rpc' --reason lock,disk\n"
    "  profctl worst --from 14:00 --to 14:05 --limit 100 --format json | jq .longest\n";

inline constexpr char kLocksNotes[] =
    "Locks, the most contended first:\n"
    "  waiting      time that threads waited for it, ± one standard error\n"
    "  share        of all off-CPU time that is not idle\n"
    "  samples      ticks that saw a thread wait for it\n"
    "  lock         module:symbol+offset; heap and address; a file. 'lock of FUNCTION' if the\n"
    "               wait says only where the lock was wanted (parking_lot, absl, tokio, channels)\n"
    "  wanted by    the function of the program that waited longest\n"
    "  released by  who ended most of the waits: function (process/thread), or [timer]\n"
    "\n"
    "Condition variables, semaphores, joins and parked threads are no contention. They are folded\n"
    "away unless --idle is given; a line says how much time that was.\n"
    "\n"
    "Examples:\n"
    "  profctl locks                          the last minute\n"
    "  profctl locks --since 10min --target postgres --sort threads\n"
    "  profctl fetch --kind locks             the same as a flame graph\n"
    "  profctl locks --format json | jq '.locks[0].releasers'\n";

inline constexpr char kMemoryNotes[] =
    "Processes, largest RSS first:\n"
    "  now          RSS: resident memory; PSS: RSS with shared pages divided among processes\n"
    "  consists of  anonymous: heap and stacks; file: mapped files, which the kernel can drop\n"
    "               and read again; shmem: shared memory and tmpfs\n"
    "  cgroup       usage and the tightest limit; this is what the OOM killer looks at\n"
    "  growth       slope of the RSS (least squares): GROWS, steady or shrinks, and when it\n"
    "               would reach the limit\n"
    "  allocated    and freed: exact if the allocator is watched. The top allocators are below\n"
    "               the plot and in 'profctl fetch --kind alloc'\n"
    "  address space  private memory mapped and unmapped by libc calls\n"
    "\n"
    "Examples:\n"
    "  profctl memory                         the last minute\n"
    "  profctl memory --since 1h              is there a leak?\n"
    "  profctl memory --target reth --format json | jq '.processes[0].points[-1]'\n";

inline constexpr char kWhyNotes[] =
    "Who ended the waits, what those threads did meanwhile, who ended their waits, and so on, "
    "until\n"
    "something that is no wait for a thread: a disk, the network, a timer, a CPU, code that runs.\n"
    "Starts with the group of threads that waits most; idle waits do not count there.\n"
    "Threads whose names differ only in a trailing number are one group.\n"
    "\n"
    "It is an estimate, from sampled pairs of waiter and waker. It assumes that a waker does while "
    "it\n"
    "is waited for what it does in the window. --reason selects the first waits of the chains.\n"
    "\n"
    "Examples:\n"
    "  profctl why                            the threads that wait most, in the last minute\n"
    "  profctl why --thread '^rpc' --since 5min --reason lock\n"
    "  profctl why --format json | jq '.chains[0].ends[0]'\n";

inline constexpr char kBottlenecksNotes[] =
    "The longest wait is rarely the one that matters. Waits go on from waker to waker, in "
    "proportion to\n"
    "what each thread does. Threads that wait for each other and for nobody else form a knot: no\n"
    "throughput is gained outside of the knots. For each piece of work and each wait in a knot, "
    "the\n"
    "factor is what its removal would gain at most, with a 95 % interval: until the next group of\n"
    "threads has no time left. It is a bound, not a forecast: what is gained may be less.\n"
    "Threads whose names differ only in a trailing number are one group. Idle waits do not count.\n"
    "\n"
    "Examples:\n"
    "  profctl bottlenecks                    all processes, in the last minute\n"
    "  profctl bottlenecks --target reth --since 10min --top 3\n"
    "  profctl bottlenecks --format json | jq '.knots[0].bottlenecks[0].gain'\n";

inline constexpr char kStacksNotes[] =
    "What every thread does at this moment, without stopping any: on a CPU, waiting for a CPU, or\n"
    "waiting, for what and since when, with its stack. The longest wait comes first. Threads with "
    "the\n"
    "same stack are one entry. Idle threads (poll, sleep, parked workers) are folded into a "
    "table.\n"
    "\n"
    "Threads that run have no stack here: 'profctl fetch --kind cpu' has samples of them.\n"
    "\n"
    "Examples:\n"
    "  profctl stacks --target postgres       who waits for what\n"
    "  profctl stacks --thread '^tokio' --idle\n"
    "  profctl stacks --format json | jq '.threads[] | select(.reason == \"lock\")'\n";

inline constexpr char kThreadsNotes[] =
    "One row for each thread: what it did in the window, as shares of its wall time. Time on a "
    "CPU,\n"
    "on the run queue and blocked add up to the wall time; idle waits are part of the blocked "
    "time.\n"
    "Rates are per second of the window.\n"
    "\n"
    "Examples:\n"
    "  profctl threads --since 10s            the last ten seconds, as top shows them\n"
    "  profctl threads --sort blocked --by name\n"
    "  profctl threads --format json | jq '.threads[] | select(.exited | not)'\n";

inline constexpr char kTopNotes[] =
    "The threads of 'profctl threads' and 'profctl stacks' in one table: where the time of the "
    "last\n"
    "interval went, and what each thread does now. Enter shows the waits of a row and the stacks "
    "of\n"
    "its threads; ? lists all keys. In the terminal it stays until q; if profd goes away, it says "
    "so\n"
    "and connects again.\n"
    "\n"
    "With --batch, --rounds, --once or --format json, or if the output is not a terminal, it "
    "prints\n"
    "a table for each update, or with --format json a line.\n";

inline constexpr char kTopExamples[] =
    "\n"
    "Examples:\n"
    "  profctl top                            all targets\n"
    "  profctl top --target postgres --by name --sort blocked\n"
    "  profctl top --once --by stack          once, as text\n"
    "  profctl top --format json | jq -c '.rows[0].threads[0].now.reason'\n";

inline constexpr char kStatusNotes[] =
    "Examples:\n"
    "  profctl status                         a page to read\n"
    "  profctl status --format json | jq .missing\n";

inline constexpr char kCompletionNotes[] =
    "Examples:\n"
    "  source <(profctl completion bash)      this shell; in ~/.bashrc: every shell\n"
    "  profctl completion zsh >\"${fpath[1]}/_profctl\"\n"
    "  profctl completion fish >~/.config/fish/completions/profctl.fish\n";

}  // namespace profctl

#endif  // PROFD_CLIENT_USAGE_NOTES_H_
