/* The source `thread`: accounts, and how threads come and go. */
#ifndef PROFD_BPF_ABI_THREAD_H_
#define PROFD_BPF_ABI_THREAD_H_

#include "base.h"
#include "disk.h"
#include "duration.h"

/* Why a thread is not running. First match wins; docs/architecture-details.md has the table. */
enum profd_reason {
	PROFD_REASON_RUNQUEUE = 0, /* runnable, waiting for a CPU */
	PROFD_REASON_RECLAIM = 1,
	PROFD_REASON_FAULT = 2,
	PROFD_REASON_FSYNC = 3,
	PROFD_REASON_LOCK = 4,
	PROFD_REASON_DISK = 5,
	PROFD_REASON_POLL = 6,
	PROFD_REASON_NET = 7,
	PROFD_REASON_SLEEP = 8,
	PROFD_REASON_PIPE = 9,
	PROFD_REASON_CHILD = 10,
	PROFD_REASON_SIGNAL = 11,
	PROFD_REASON_OTHER = 12,
	PROFD_REASON_STOPPED = 13, /* by a signal, as SIGSTOP */
	PROFD_REASON_TRACED = 14, /* by a debugger */
	PROFD_REASON_FROZEN = 15, /* by the freezer of its cgroup */
	PROFD_REASON_COUNT = 16,
};

/* A power of two. */
#define PROFD_DURATION_REASONS 16

/* What a thread is doing, as of the last switch that was seen. */
enum profd_phase {
	PROFD_PHASE_ON_CPU = 0,
	PROFD_PHASE_RUNQUEUE = 1, /* preempted, or new and never run */
	PROFD_PHASE_BLOCKED = 2,
};

#define PROFD_COMM_LEN 16

/* Time and number of the waits of one reason. Signed in effect: where two clocks meet a single
 * wait may be a little negative.
 */
struct profd_reason_total {
	profd_u64 ns; /* settled waits; of RUNQUEUE what the kernel's run_delay does not hold */
	profd_u64 count; /* how often a thread went off for it */
};

/* Per-thread account: cumulative, written only as the thread leaves its CPU. Up to `since` its time
 * is exec_runtime on CPU, run_delay + reasons[RUNQUEUE].ns on the run queue, the rest by reason.
 */
struct profd_ledger {
	profd_u64 since; /* scheduler's clock: when it last left its CPU, or was armed */
	profd_u64 exec_runtime; /* the kernel's se.sum_exec_runtime up to `since` */
	profd_u64 run_delay; /* the kernel's sched_info.run_delay up to `since` */
	profd_u32 armed; /* the layer's epoch it is kept in; of another one it stands still */
	profd_u8 phase; /* enum profd_phase at `since` */
	profd_u8 reason; /* enum profd_reason of the wait that began then */
	profd_u16 pad;
	struct profd_reason_total reasons[PROFD_REASON_COUNT];
};

/* A drain's memory of a thread that was in a wait when it wrote of it: until it runs again, which
 * its switches tell, there is nothing else to write.
 */
struct profd_rest {
	profd_u64 switches; /* nvcsw + nivcsw */
	profd_u32 seq; /* of struct profd_thread */
	profd_u32 known; /* 0 = to be written in any case */
};

/* Whether the daemon knows a thread by its own number, and what became of its account. Only ever
 * changed by compare-and-swap: the end of a thread and a drain decide in one step who was first.
 */
enum profd_fate {
	PROFD_FATE_UNKNOWN = 0, /* nothing was told of it: its account will be folded */
	PROFD_FATE_KNOWN = 1, /* it will be told as a record of its own */
	PROFD_FATE_FOLDED = 2, /* it was added to the exited threads of its process */
	PROFD_FATE_TOLD = 3, /* its last record was handed over */
};

/* Value of the task-storage map `threads`. What the switch touches comes first. */
struct profd_thread {
	profd_u64 thread_id; /* unique for the life of the daemon, never 0 */
	profd_u32 target_id; /* 0 = not a target */
	profd_u32 seq; /* odd while sched_switch writes the ledger */
	struct profd_ledger ledger;
	profd_u64 begin; /* when the account was opened */
	profd_u64 armed_at; /* when the ledger was last armed */
	profd_u64 begin_clock; /* `begin` by the scheduler's clock */
	profd_u64 begin_exec; /* the kernel's books at `begin` */
	profd_u64 begin_delay;
	/* The tick's memory of the wait it saw last. */
	profd_u64 tick_switches; /* nvcsw + nivcsw at the last walk */
	profd_u64 tick_stack;
	profd_u8 tick_valid;
	profd_u8 tick_frames; /* kernel frames of the last walk; 0: not to be relied on */
	profd_u8 born; /* seen from its creation on, so the kernel's books began at 0 */
	profd_u8 clock; /* the daemon's own thread: its switches tell how two clocks lie */
	profd_u32 fate; /* enum profd_fate */
	struct profd_rest rest;
	/* Noted as the exit begins, while it is still there. */
	profd_u64 exit_at; /* 0: it has not begun */
	profd_s32 exit_pid, exit_tid; /* in the daemon's PID namespace */
	profd_s32 exit_process; /* the PID if the daemon knows the process, else 0 */
	profd_u32 pad2;
	char process[PROFD_COMM_LEN]; /* comm of the thread-group leader */
	/* What ticks saw of the present wait, for the program that sees it end. */
	profd_u64 wait_weight; /* ns; 0: nothing */
	profd_u32 wait_ticks;
	profd_u8 wait_reason; /* enum profd_reason */
	profd_u8 pad3[3];
	/* The same for the program that tells of long waits: as in struct profd_visit, and the hash
	 * of the stack of who ended the wait, 0: not known.
	 */
	profd_u64 tick_arg0;
	profd_s32 tick_sysno;
	/* 1: ticks find the thread where it was without a visit, from these sums of ticks on. */
	profd_u32 quiet;
	profd_u64 quiet_ns;
	profd_u32 quiet_ticks;
	profd_u32 slot; /* of `woken`, 0: none */
	profd_u64 wait_waker;
	struct profd_disk_end disk_ends[PROFD_DISK_ENDS];
	/* Waits that are over. */
	profd_u8 duration_places[PROFD_DURATION_REASONS]; /* by reason; 0: none, or the run queue */
	struct profd_durations durations[PROFD_DURATION_PLACES];
};

/* The kernel's own books, as read from the task. */
struct profd_books {
	profd_u64 exec_runtime; /* se.sum_exec_runtime, ns */
	profd_u64 run_delay; /* sched_info.run_delay, ns */
	profd_u64 last_arrival; /* sched_info, scheduler clock */
	profd_u64 last_queued; /* sched_info, scheduler clock; 0 = not queued */
	profd_u64 nvcsw, nivcsw;
	profd_u64 min_flt, maj_flt;
	profd_u64 read_bytes, write_bytes; /* block layer, bytes; 0 where not kept */
};

struct profd_thread_record {
	profd_u32 type; /* enum profd_record_type */
	profd_u32 target_id;
	profd_u64 now;
	profd_u64 clock; /* `now` by the scheduler's clock */
	profd_u64 thread_id;
	profd_u64 begin;
	profd_u64 armed_at; /* since when the ledger goes on; 0 = it stands still */
	profd_u64 begin_clock; /* `begin` by the scheduler's clock */
	profd_u64 begin_exec; /* the books at `begin` */
	profd_u64 begin_delay;
	profd_u64 start; /* the thread's, CLOCK_BOOTTIME; 0 = not known any more */
	profd_u64 process_start; /* its leader's */
	profd_s32 pid; /* in the daemon's PID namespace; 0 = not visible there */
	profd_s32 tid;
	profd_s32 kernel_tid; /* in the initial PID namespace; what profd_visit wants */
	profd_u32 at_rest; /* no drain need write of it while the present wait goes on */
	profd_u32 state; /* task->__state */
	profd_u16 on_cpu; /* task->on_cpu */
	profd_u16 born; /* as in struct profd_thread */
	char comm[PROFD_COMM_LEN];
	char process[PROFD_COMM_LEN]; /* comm of the thread-group leader */
	struct profd_ledger ledger;
	struct profd_books books;
	profd_u32 duration_drain; /* the present one, see struct profd_durations */
	profd_u32 durations_torn; /* the thread switched meanwhile, and they mean nothing */
	struct profd_durations durations[PROFD_DURATION_PLACES];
};

/* Threads that ended before anybody knew them are told of together: those of one process that the
 * daemon knows, or of all processes of that name that it does not know. Keys of `exited_even` and
 * `exited_odd`.
 */
struct profd_exited_key {
	profd_u32 target_id;
	profd_s32 pid; /* in the daemon's PID namespace; 0: of a process that is not known */
	char process[PROFD_COMM_LEN]; /* empty with a pid, and for what found no place */
};

/* Sums over their lives. What they were watched is on_cpu + unattributed + reasons. */
struct profd_exited {
	profd_u64 threads;
	char process[PROFD_COMM_LEN]; /* comm of the leader when the first one ended */
	profd_u64 on_cpu;
	profd_u64 unattributed; /* blocked while the per-switch layer was off */
	struct profd_reason_total reasons[PROFD_REASON_COUNT]; /* [RUNQUEUE] is the run queue */
	/* The kernel's own books. */
	profd_u64 exec_runtime, run_delay;
	profd_u64 nvcsw, nivcsw;
	profd_u64 min_flt, maj_flt;
	profd_u64 read_bytes, write_bytes;
};

/* Entries for each target of what finds no place among them; those beyond share the first. */
#define PROFD_EXITED_TARGETS 64

/* New threads, and execs of processes that the daemon does not know, are told of one by one: so
 * many at once, and after that so many a second. Of other threads drains tell once they are not
 * young any more.
 */
#define PROFD_NEWS_BURST 1024
#define PROFD_NEWS_A_SECOND 128
#define PROFD_YOUNG_NS 1000000000

struct profd_exec_record {
	profd_u32 type;
	profd_s32 pid;
	profd_u32 target_id; /* 0 = not a target yet */
	profd_u32 pad;
	char comm[PROFD_COMM_LEN];
};

PROFD_STATIC_ASSERT(sizeof(struct profd_ledger) == 288, "ledger size");
PROFD_STATIC_ASSERT(PROFD_REASON_COUNT <= PROFD_DURATION_REASONS, "each reason has a place");
PROFD_STATIC_ASSERT(sizeof(struct profd_thread) % 8 == 0, "thread size");
/* The kernel allocates powers of two, and needs 72 bytes itself. */
PROFD_STATIC_ASSERT(sizeof(struct profd_thread) <= 2048 - 80, "thread fits in 2 KiB");
PROFD_STATIC_ASSERT(sizeof(struct profd_exited_key) == 24, "exited key size");
PROFD_STATIC_ASSERT(sizeof(struct profd_exited) == 360, "exited size");

#endif /* PROFD_BPF_ABI_THREAD_H_ */
