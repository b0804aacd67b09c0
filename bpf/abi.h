/* The contract between the kernel programs and the daemon. Compiled on both sides.
 * All times are CLOCK_MONOTONIC nanoseconds unless a field says otherwise. The scheduler's clock is
 * what rq->clock and sched_info are in; it is a distance away, `clock_distance`.
 * Enums only grow at the end; any other change bumps PROFD_ABI_VERSION.
 */
#ifndef PROFD_BPF_ABI_H_
#define PROFD_BPF_ABI_H_

#ifdef __bpf__
typedef unsigned char profd_u8;
typedef unsigned short profd_u16;
typedef unsigned int profd_u32;
typedef unsigned long long profd_u64;
typedef int profd_s32;
#else
#include <stdint.h>
typedef uint8_t profd_u8;
typedef uint16_t profd_u16;
typedef uint32_t profd_u32;
typedef uint64_t profd_u64;
typedef int32_t profd_s32;
#endif

#define PROFD_ABI_VERSION 4

/* Why a thread is not running. First match wins; docs/architecture.md has the table. */
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
	PROFD_REASON_COUNT = 13,
};

/* What a thread is doing, as of the last switch that was seen. */
enum profd_phase {
	PROFD_PHASE_ON_CPU = 0,
	PROFD_PHASE_RUNQUEUE = 1, /* preempted, or new and never run */
	PROFD_PHASE_BLOCKED = 2,
};

/* How a walk of a user stack ended. Only COMPLETE ends at a proven root. */
enum profd_walk {
	PROFD_WALK_COMPLETE = 0,
	PROFD_WALK_TOO_DEEP = 1, /* more than PROFD_MAX_USER_FRAMES frames */
	PROFD_WALK_NO_RULE = 2, /* no unwind rule for the address and no usable frame pointer */
	PROFD_WALK_RULES_PENDING = 3, /* the module was seen for the first time; rules follow */
	PROFD_WALK_UNREADABLE = 4, /* stack memory could not be read */
	PROFD_WALK_NO_PROGRESS = 5, /* the next frame would not lie above this one */
	PROFD_WALK_UNSUPPORTED = 6, /* a rule of a kind the walker does not know */
	PROFD_WALK_MAP_BUSY = 7, /* the memory map was locked by the target */
	PROFD_WALK_NOT_MAPPED = 8, /* the address lies in no mapping */
	PROFD_WALK_NO_USER = 9, /* the thread has no user registers */
	PROFD_WALK_TORN = 10, /* the thread ran during the walk; the stack was thrown away */
	PROFD_WALK_LOST = 11, /* the stack could not be handed over (ring full) */
	PROFD_WALK_COUNT = 12,
};

/* Ways to lose something. Per-CPU counters in the map `losses`, indexed by this. */
enum profd_loss {
	PROFD_LOSS_COUNTERS_FULL = 0, /* sample not counted: counter map full */
	PROFD_LOSS_COUNTERS_FULL_NS = 1, /* and its weight, ns */
	PROFD_LOSS_RING_FULL_STACK = 2,
	PROFD_LOSS_RING_FULL_EXIT = 3, /* final ledger of an exited thread not handed over */
	PROFD_LOSS_RING_FULL_EVENT = 4,
	PROFD_LOSS_THREAD_STORAGE = 5, /* a thread could not be marked */
	PROFD_LOSS_SWITCH_UNSEEN = 6, /* counted but not reported; found by the daemon */
	PROFD_LOSS_TORN_WALK = 7,
	PROFD_LOSS_TORN_LEDGER = 8, /* a thread kept switching while its ledger was read */
	PROFD_LOSS_KNOWN_FULL = 9, /* map of known stacks full; stacks are sent again */
	PROFD_LOSS_MODULES_FULL = 10, /* frames in a module that the table has no place for */
	PROFD_LOSS_HEAP_FULL = 11, /* heap event not counted: counter map full */
	PROFD_LOSS_HEAP_FULL_BYTES = 12, /* and its weight, bytes */
	PROFD_LOSS_HEAP_BUSY = 13, /* heap event without a stack: no memory free for the walk */
	PROFD_LOSS_HEAP_STORAGE = 14, /* heap event of a thread whose totals found no place */
	PROFD_LOSS_FAULT_BUSY =
		15, /* page of the sample without a record: no memory for the walk */
	PROFD_LOSS_LIVE_BORN = 16, /* sampled object that came to life and is not counted */
	PROFD_LOSS_LIVE_GONE = 17, /* sampled object that is gone and still counted */
	PROFD_LOSS_MAP_LOST = 18, /* mapping call not counted */
	PROFD_LOSS_MAP_BUSY = 19, /* mapping call on memory that was taken for anonymous */
	PROFD_LOSS_MALLOC_FULL = 20, /* call in a burst that is not counted, or without its stack */
	PROFD_LOSS_COUNT = 21,
};

#define PROFD_MAX_KERNEL_FRAMES 64
#define PROFD_MAX_USER_FRAMES 192
#define PROFD_MAX_FRAMES (PROFD_MAX_KERNEL_FRAMES + PROFD_MAX_USER_FRAMES)
#define PROFD_MAX_MODULES 4096
#define PROFD_COMM_LEN 16

/* A frame is 64 bits: a kernel address (top 16 bits all ones), or module id << 48 | file offset.
 * Module 0: the low bits are a bare address that lies in no file. Return addresses are stored
 * as they are, not minus one; the innermost user frame is the exact program counter.
 */
#define PROFD_FRAME_MODULE_SHIFT 48
#define PROFD_FRAME_OFFSET_MASK 0xffffffffffffULL
#define PROFD_FRAME_KERNEL_MODULE 0xffffU

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
	profd_u8 born; /* seen from its creation on, so the kernel's books began at 0 */
	profd_u8 clock; /* the daemon's own thread: its switches tell how two clocks lie */
	profd_u8 pad[5];
	struct profd_rest rest;
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

enum profd_record_type {
	PROFD_RECORD_THREAD = 1, /* drain of the ledger (seq file) */
	PROFD_RECORD_EXITING = 2, /* thread began to exit; struct profd_thread_record */
	PROFD_RECORD_DEAD = 3, /* its last switch; struct profd_thread_record */
	PROFD_RECORD_STACK = 4, /* struct profd_stack_record */
	PROFD_RECORD_EXEC = 5, /* struct profd_exec_record */
	PROFD_RECORD_MODULE = 6, /* struct profd_module_record */
	PROFD_RECORD_BORN = 7, /* struct profd_born_record */
	PROFD_RECORD_HEAP = 8, /* struct profd_heap_record */
	PROFD_RECORD_WATCHED = 9, /* struct profd_watched_record */
	PROFD_RECORD_PAGE = 10, /* struct profd_page_record */
	PROFD_RECORD_LIVE_HEAP = 11, /* struct profd_live_heap_record */
	PROFD_RECORD_TOLD = 12, /* struct profd_told_record */
	PROFD_RECORD_LAST = PROFD_RECORD_TOLD,
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
};

struct profd_stack_record {
	profd_u32 type;
	profd_u8 walk; /* enum profd_walk */
	profd_u8 frame_pointers; /* number of frames found by frame pointer, saturating */
	profd_u16 kernel_frames;
	profd_u16 user_frames;
	profd_u16 pad[3];
	profd_u64 hash;
	profd_u64
		frames[PROFD_MAX_FRAMES]; /* kernel, innermost first, then user, innermost first */
};
#define PROFD_STACK_HEADER_SIZE 24

struct profd_exec_record {
	profd_u32 type;
	profd_s32 pid;
	profd_u32 target_id; /* 0 = not a target yet */
	profd_u32 pad;
	char comm[PROFD_COMM_LEN];
};

/* A new thread of a target, to be visited from the next tick on. */
struct profd_born_record {
	profd_u32 type;
	profd_s32 kernel_tid;
	profd_u64 thread_id;
};

/* A file as the kernel tells it apart: what a vma's inode says. */
struct profd_module_key {
	profd_u64 ino;
	profd_u32 dev; /* kernel encoding: major << 20 | minor */
	profd_u32 generation;
};

enum profd_module_state {
	PROFD_MODULE_PENDING = 0, /* asked for; no rules yet */
	PROFD_MODULE_READY = 1,
	PROFD_MODULE_NO_RULES = 2, /* file has no usable .eh_frame */
};

struct profd_module {
	profd_u32 module_id; /* 1 ... PROFD_MAX_MODULES - 1 */
	profd_u32 state; /* enum profd_module_state */
	profd_u32 rows;
	profd_u32 announced; /* 0: the daemon wants to be told again */
	profd_u32 watched; /* the daemon wants to know which processes map it */
	profd_u32 pad;
};

/* A process of a target that maps a watched module (task_vma). */
struct profd_watched_record {
	profd_u32 type;
	profd_s32 pid;
	profd_u32 module_id;
	profd_u32 pad;
};

/* An executable mapping whose module is not known yet, or every one of a process (task_vma). */
struct profd_module_record {
	profd_u32 type;
	profd_s32 pid;
	struct profd_module_key key;
	profd_u64 start, end; /* addresses of the mapping */
	profd_u64 file_offset; /* bytes, of `start` */
};

/* One unwind rule: valid from `offset` (file offset) up to the next row's. 8 bytes. */
struct profd_rule {
	profd_u32 offset;
	profd_u32 rule; /* PROFD_RULE_* packed */
};

/* rule = kind:4 | CFA offset / 8: signed 20 (frames of up to 4 MiB) | saved rbp's offset from
 * CFA / 8: signed 8. rbp field 0 means rbp is unchanged. The return address is always at CFA - 8.
 */
#define PROFD_RULE_CFA_BITS 20
#define PROFD_RULE_RBP_BITS 8
enum profd_rule_kind {
	PROFD_RULE_NONE = 0, /* no function here: nothing is known */
	PROFD_RULE_RSP = 1, /* CFA = rsp + offset */
	PROFD_RULE_RBP = 2, /* CFA = rbp + offset */
	PROFD_RULE_PLT = 3, /* CFA = rsp + 8 + ((rip & 15) >= 11) * 8 */
	PROFD_RULE_END = 4, /* return address undefined: the root of a stack */
	PROFD_RULE_SIGNAL = 5, /* x86-64 signal frame: registers from the ucontext at rsp */
	PROFD_RULE_UNSUPPORTED = 6,
	PROFD_RULE_DEREF_RBP = 7, /* CFA = *(rbp + offset); rbp = *(rbp) (realigned stack) */
};
#define PROFD_RULE_PACK(kind, cfa_words, rbp_words)                                                \
	((profd_u32)(kind) | (((profd_u32)(cfa_words) & 0xfffff) << 4) |                           \
	 (((profd_u32)(rbp_words) & 0xff) << 24))
#define PROFD_RULE_KIND(r) ((r) & 0xf)
#define PROFD_RULE_CFA(r) ((long long)((profd_s32)((r) << 8) >> 12) * 8)
#define PROFD_RULE_RBP_OFFSET(r) ((long long)((profd_s32)(r) >> 24) * 8)

/* What a sample is of. */
enum profd_kind {
	PROFD_KIND_WAIT = 0, /* time not running; weights are ns */
	PROFD_KIND_ALLOC = 1, /* memory allocated; weights are bytes */
	PROFD_KIND_FREE = 2, /* memory freed; weights are bytes */
	PROFD_KIND_INUSE = 3, /* memory in use: bytes of live objects */
	PROFD_KIND_RESIDENT = 4, /* memory resident, by who touched it first */
	PROFD_KIND_MAPPED = 5, /* private anonymous memory mapped; weights are bytes */
	PROFD_KIND_UNMAPPED = 6, /* the same, unmapped */
	PROFD_KIND_RETURNED = 7, /* its pages given back, the addresses kept (madvise) */
	PROFD_KIND_COUNT = 8,
};

/* A page of the sample was touched first. */
struct profd_page_record {
	profd_u32 type;
	profd_s32 pid; /* in the daemon's PID namespace */
	profd_u64 process_id; /* thread id of the process's leader; 0: not known */
	profd_u64 thread_id;
	profd_u64 address;
	profd_u64 stack; /* hash of a stack record */
	profd_u64 size; /* bytes that it stands for */
};

/* Key and value of the counters. One counter per (thread, kind, reason, syscall, argument, stack).
 */
struct profd_sample_key {
	profd_u64 thread_id;
	profd_u64 stack; /* hash of a stack record */
	profd_u64 arg0; /* first argument of the syscall, 0 without one; of mapping calls: of how
			 * many one is counted */
	profd_s32 sysno; /* -1 = not in a syscall */
	profd_u8 reason; /* enum profd_reason; of waits only */
	profd_u8 kind; /* enum profd_kind */
	profd_u8 pad[2];
};

struct profd_sample_value {
	profd_u64 weight; /* ns: sum of the tick intervals in force; bytes: what the events stand
			     for */
	profd_u64 count; /* number of ticks or events */
};

/* A total that an allocator keeps of a thread, in that thread's memory: bytes allocated, or bytes
 * freed, since the thread began. Every so many bytes the allocator pauses for an event; `total` is
 * the counter as of the last event that was seen. All that is counted is cumulative.
 */
struct profd_heap_counter {
	profd_u64 address; /* of what it was at the last event: its identity; 0 = no event yet */
	profd_u64 current; /* address of the counter itself; while not known, as above */
	profd_u64 base; /* the counter as of the event before the first that was seen */
	profd_u64 total;
	profd_u64 seen; /* bytes that the events which were seen stand for */
	profd_u64 unseen; /* bytes of events that nobody saw: what lies between two that were */
	profd_u64 late; /* of these bytes, those told of by a slow path, after their event */
	profd_u32 events; /* seen */
	profd_u32 gaps;
	profd_u16 kind; /* enum profd_kind */
	profd_u16 round; /* of probes, at the last event: between two rounds some were missing; 0:
			    not known */
	profd_u32 module_id; /* that holds the allocator */
};
/* Two of an allocator; a process may hold two allocators. */
#define PROFD_HEAP_COUNTERS 4

/* The totals of a thread. */
struct profd_heap {
	struct profd_heap_counter counters[PROFD_HEAP_COUNTERS];
};

/* The totals of a thread at a drain, and when it exits. `total` is what the allocator's counter
 * says at present, or where it cannot be read, said at the last event.
 */
struct profd_heap_record {
	profd_u32 type;
	profd_u32 exiting;
	profd_u64 thread_id;
	profd_u32 none_ended; /* no thread of its process has, so far */
	profd_u32 unread; /* it may have allocated or freed more, that no counter here knows */
	struct profd_heap heap;
};

/* An object that jemalloc sampled came to life, or is gone. Which one it was is not told of all
 * versions; but of objects of one context and one size any may stand for any other.
 */
struct profd_live_heap_record {
	profd_u32 type;
	profd_u32 module_id; /* that holds the allocator */
	profd_u64 time;
	profd_u64 thread_id;
	profd_u64 context; /* jemalloc's, of the thread and the stack that allocated the object */
	profd_u64 stack; /* hash; 0: the object is gone */
	profd_u64 size; /* bytes, usable */
	profd_u64 born; /* of one that is gone, by jemalloc's clock, ns; 0: not known */
	profd_s32 pid; /* in the daemon's PID namespace */
	profd_u32 pad;
};

/* Where a probe of the live heap stands: at the first instruction of jemalloc's ... */
enum profd_live_place {
	PROFD_LIVE_BORN_5_2 = 1, /* prof_malloc_sample_object(tsdn, ptr, usize, tctx) */
	PROFD_LIVE_GONE_5_2 = 2, /* prof_free_sampled_object(tsd, ptr, usize, tctx) */
	PROFD_LIVE_BORN_5_3 = 3, /* prof_malloc_sample_object(tsd, ptr, size, usize, tctx) */
	PROFD_LIVE_GONE_5_3 = 4, /* prof_free_sampled_object(tsd, [ptr,] usize, info) */
};

/* A probe's cookie: place:7 | stepped:1 << 7 | module id:16 << 8. Stepped, of any probe: the kernel
 * does not emulate the instruction there but lets the thread carry it out elsewhere, which takes
 * longer.
 */
#define PROFD_LIVE_COOKIE(place, stepped, module)                                                  \
	((profd_u64)(place) | (profd_u64)(stepped) << 7 | (profd_u64)(module) << 8)
#define PROFD_LIVE_PLACE(cookie) ((profd_u32)(cookie) & 0x7f)
#define PROFD_LIVE_STEPPED(cookie) ((profd_u32)((cookie) >> 7) & 1)
#define PROFD_LIVE_MODULE(cookie) ((profd_u32)((cookie) >> 8) & 0xffff)

/* Memory of walks in the threads' own context: so many at a time on each CPU. */
#define PROFD_OWN_WALKS_PER_CPU 2
#define PROFD_MAX_OWN_WALKS 1024

/* Where a probe stands. */
enum profd_heap_place {
	/* In jemalloc's te_event_trigger(tsd, ctx), where its arguments are still in their
	   registers. */
	PROFD_HEAP_JEMALLOC_EVENT = 1,
	/* In a copy of it, at the store of the new count as that of the last event; or after it,
	 * where a register holds what the count grew by since that.
	 */
	PROFD_HEAP_JEMALLOC_INLINED_ALLOC = 2,
	PROFD_HEAP_JEMALLOC_INLINED_FREE = 3,
	/* In a function of the allocator's slow path, whose first argument, in its register, is the
	 * thread's data (tsd): it tells of events in code that was not found, after them.
	 */
	PROFD_HEAP_JEMALLOC_SLOW_ALLOC = 4,
	PROFD_HEAP_JEMALLOC_SLOW_FREE = 5,
};

/* A probe's cookie: place:3 | value register:5 | module id:16 | thread register:5 | number:3 << 29
 * | growth register:5 << 32 | stepped:1 << 37 | number:2 << 38 | field:24 << 40. Registers by their
 * place in struct pt_regs; field: of the last event's count, in the thread's data; number: of the
 * place in its module, its low bits first.
 */
#define PROFD_HEAP_COOKIE(place, stepped, module)                                                  \
	((profd_u64)(place) | (profd_u64)(module) << 8 | (profd_u64)(stepped) << 37)
#define PROFD_HEAP_SLOW_COOKIE(place, stepped, module, field)                                      \
	(PROFD_HEAP_COOKIE(place, stepped, module) | (profd_u64)(field) << 40)
/* `growth`: PROFD_NO_REGISTER where the old count is in memory still. */
#define PROFD_HEAP_INLINED_COOKIE(place, stepped, module, value, growth, thread, field)            \
	(PROFD_HEAP_SLOW_COOKIE(place, stepped, module, field) | (profd_u64)(value) << 3 |         \
	 (profd_u64)(thread) << 24 | (profd_u64)(growth) << 32)
#define PROFD_HEAP_NUMBERED(cookie, number)                                                        \
	((cookie) | ((profd_u64)(number) & 7) << 29 | (profd_u64)((number) >> 3) << 38)
#define PROFD_HEAP_PLACE(cookie) ((profd_u32)(cookie) & 7)
#define PROFD_HEAP_VALUE_REGISTER(cookie) ((profd_u32)((cookie) >> 3) & 31)
#define PROFD_HEAP_MODULE(cookie) ((profd_u32)((cookie) >> 8) & 0xffff)
#define PROFD_HEAP_THREAD_REGISTER(cookie) ((profd_u32)((cookie) >> 24) & 31)
#define PROFD_HEAP_GROWTH_REGISTER(cookie) ((profd_u32)((cookie) >> 32) & 31)
#define PROFD_HEAP_STEPPED(cookie) ((profd_u32)((cookie) >> 37) & 1)
#define PROFD_HEAP_FIELD(cookie) ((profd_u32)((cookie) >> 40))
#define PROFD_HEAP_NUMBER(cookie)                                                                  \
	(((profd_u32)((cookie) >> 29) & 7) | ((profd_u32)((cookie) >> 38) & 3) << 3)
#define PROFD_HEAP_NUMBERS 32
#define PROFD_NO_REGISTER 31
#define PROFD_PT_REGS_WORDS 21

/* Whose allocator. */
struct profd_heap_round_key {
	profd_u32 pid; /* as the daemon sees it */
	profd_u32 module_id;
};

/* What came by at a place that code alone said to be an event's, by module and number. */
#define PROFD_HEAP_TALLY_KEY(module, number) ((module) * PROFD_HEAP_NUMBERS + (number))
#define PROFD_MAX_HEAP_TALLIES 1024
#define PROFD_MAX_HEAP_ROUNDS 4096
struct profd_heap_tally {
	profd_u64 held; /* events, with the thread's data as they are at one */
	profd_u64 refused; /* anything else: told to nobody */
};

/* A function of a libc that changes the address space. */
enum profd_map_call {
	PROFD_MAP_MMAP = 1,
	PROFD_MAP_MUNMAP = 2,
	PROFD_MAP_MREMAP = 3,
	PROFD_MAP_BRK = 4,
	PROFD_MAP_MADVISE = 5,
};

/* The cookie of a probe there: call:7 | stepped:1 << 7. */
#define PROFD_MAP_COOKIE(call, stepped) ((profd_u64)(call) | (profd_u64)(stepped) << 7)
#define PROFD_MAP_CALL(cookie) ((profd_u32)(cookie) & 0x7f)
#define PROFD_MAP_STEPPED(cookie) ((profd_u32)((cookie) >> 7) & 1)

/* Cost of the programs at probes: every run is timed. Per CPU. */
struct profd_heap_cost {
	profd_u64 events; /* runs in threads of targets */
	profd_u64 stepped; /* of these, where the kernel does not emulate the instruction */
	profd_u64 walks; /* of the runs, with a stack */
	profd_u64 ns; /* of the runs without a stack; without the way into the program and out */
	profd_u64 walk_ns; /* of those with one */
	profd_u64 closed; /* of the runs, while other probes were still to come or to go */
};

/* Where a probe of a burst stands: at the begin of glibc's ... */
enum profd_malloc_place {
	PROFD_MALLOC_MALLOC = 1, /* malloc(size) */
	PROFD_MALLOC_CALLOC = 2, /* calloc(number, size) */
	PROFD_MALLOC_REALLOC = 3, /* realloc(ptr, size) */
	PROFD_MALLOC_FREE = 4, /* free(ptr) */
	PROFD_MALLOC_MEMALIGN = 5, /* memalign(alignment, size), aligned_alloc */
	PROFD_MALLOC_POSIX_MEMALIGN = 6, /* posix_memalign(where, alignment, size) */
	PROFD_MALLOC_VALLOC = 7, /* valloc(size) */
	PROFD_MALLOC_PVALLOC = 8, /* pvalloc(size) */
};

/* A probe's cookie: place:7 | stepped:1 << 7 | module id:16 << 8. */
#define PROFD_MALLOC_COOKIE(place, stepped, module)                                                \
	((profd_u64)(place) | (profd_u64)(stepped) << 7 | (profd_u64)(module) << 8)
#define PROFD_MALLOC_PLACE(cookie) ((profd_u32)(cookie) & 0x7f)
#define PROFD_MALLOC_STEPPED(cookie) ((profd_u32)((cookie) >> 7) & 1)
#define PROFD_MALLOC_MODULE(cookie) ((profd_u32)((cookie) >> 8) & 0xffff)

/* `arg0` of a sample whose weight is an estimate from bursts; of other bytes it is 0. */
#define PROFD_BURST_ARGUMENT 1

/* What a thread did in a burst. */
struct profd_malloc_thread {
	profd_u64 allocated; /* bytes, usable, of all calls */
	profd_u64 freed;
	profd_u32 allocations;
	profd_u32 frees;
	profd_u32 calls; /* runs into a probe */
	profd_u32 stepped; /* of these, at an instruction that is not emulated */
	profd_u64 ns; /* of all runs, without the way into the program and out */
	profd_u64 first_ns, last_ns; /* when the burst began, and the last run ended */
	profd_u64 queued_ns; /* in between, for a CPU */
	profd_u64 waited_ns; /* from the end of a run to the next, where the thread waited meanwhile
			      */
	profd_u64 last_delay; /* the kernel's run_delay and nvcsw at the end of the last run */
	profd_u64 last_switches;
	profd_u32 module_id;
	profd_u32 pad;
};

/* Cost of the program in bursts. Per CPU. */
struct profd_malloc_cost {
	profd_u64 calls; /* of threads of targets, before and after the burst included */
	profd_u64 stepped;
	profd_u64 ns; /* without the way into the program and out */
};

/* Of the pages that are touched first, those whose hash lies below a threshold are sampled: one in
 * so many, and the same page again when it is touched again. splitmix64's finalizer, upper half.
 */
static inline profd_u32 profd_page_hash(profd_u64 page, profd_u64 seed)
{
	profd_u64 h = page + seed;

	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
	return (profd_u32)((h ^ (h >> 31)) >> 32);
}

/* For one page in so many. */
static inline profd_u32 profd_page_threshold(profd_u32 one_in)
{
	return one_in > 1 ? (profd_u32)(0x100000000ULL / one_in) : 0xffffffff;
}

/* Cost of the page faults' program. Per CPU. */
struct profd_fault_cost {
	profd_u64 faults; /* of threads of targets */
	profd_u64 timed; /* runs without a stack whose time was taken, at random */
	profd_u64 timed_ns; /* without the way into the program and out */
	profd_u64 walks; /* runs with a stack; all are timed */
	profd_u64 walk_ns;
};

/* What a visit of the tick found. */
enum profd_visit_outcome {
	PROFD_VISIT_NONE = 0,
	PROFD_VISIT_GONE = 1, /* no such thread any more */
	PROFD_VISIT_RUNNING = 2, /* on a CPU: no sample */
	PROFD_VISIT_SAME = 3, /* in the wait of the visit before */
	PROFD_VISIT_NEW = 4, /* in another wait */
};

/* A thread to be visited by the next tick; written by the daemon, the outcome by the tick. */
struct profd_visit {
	profd_u64 thread_id;
	profd_u64 weight_ns; /* of the sample that is found */
	profd_s32 kernel_tid;
	profd_u32 outcome; /* enum profd_visit_outcome */
};
#define PROFD_MAX_VISITS 4096

/* What the tick did; a single entry, cumulative. */
struct profd_tick_stats {
	profd_u64 tasks; /* target threads looked at */
	profd_u64 off_cpu; /* of these, not running */
	profd_u64 walks; /* stacks walked */
	profd_u64 repeats; /* same wait as before: counted without a walk */
	profd_u64 torn;
	profd_u64 user_frames;
	profd_u64 frame_pointer_frames;
};

/* Cost of the per-switch program: one run in PROFD_COST_SAMPLE, at random, is timed. Per CPU. */
#define PROFD_COST_SAMPLE_BITS 6
#define PROFD_COST_SAMPLE (1 << PROFD_COST_SAMPLE_BITS)
struct profd_switch_cost {
	profd_u64 timed;
	profd_u64 timed_ns;
};

/* An object that an allocator samples came to life, or is gone, as its USDT probes tell. */
struct profd_told_record {
	profd_u32 type;
	profd_u32 module_id; /* that holds the probe */
	profd_u64 time;
	profd_u64 thread_id;
	profd_u64 address;
	profd_u64 size; /* bytes */
	profd_u64 weight; /* bytes that it stands for; of one that is gone neither is told */
	profd_u64 stack; /* hash; of one that is gone 0 where there was no memory for the walk */
	profd_s32 pid; /* in the daemon's PID namespace */
	profd_u32 gone;
};

/* Where a USDT probe of the provider otel_memory stands. */
enum profd_usdt_place {
	PROFD_USDT_ALLOC = 1, /* alloc(pointer, size, weighted bytes) */
	PROFD_USDT_FREE = 2, /* free(pointer) */
};

/* An argument of such a probe: value + base + (index << shift), or what lies in memory there. */
struct profd_usdt_argument {
	profd_u8 size; /* bytes: 1, 2, 4, 8 */
	profd_u8 is_signed;
	profd_u8 in_memory;
	profd_u8 base; /* a register by its place in struct pt_regs, or PROFD_USDT_NO_REGISTER */
	profd_u8 index; /* the same */
	profd_u8 shift;
	profd_u8 pad[2];
	profd_u64 value;
};
#define PROFD_USDT_NO_REGISTER 0xff
#define PROFD_USDT_ARGUMENTS 3
struct profd_usdt_spec {
	struct profd_usdt_argument arguments[PROFD_USDT_ARGUMENTS];
};
#define PROFD_MAX_USDT_SPECS 1024

/* A probe's cookie: place:7 | stepped:1 << 7 | module id:16 << 8 | number of its arguments:32
 * << 32. */
#define PROFD_USDT_COOKIE(place, stepped, module, spec)                                            \
	((profd_u64)(place) | (profd_u64)(stepped) << 7 | (profd_u64)(module) << 8 |               \
	 (profd_u64)(spec) << 32)
#define PROFD_USDT_PLACE(cookie) ((profd_u32)(cookie) & 0x7f)
#define PROFD_USDT_STEPPED(cookie) ((profd_u32)((cookie) >> 7) & 1)
#define PROFD_USDT_MODULE(cookie) ((profd_u32)((cookie) >> 8) & 0xffff)
#define PROFD_USDT_SPEC(cookie) ((profd_u32)((cookie) >> 32))

#define PROFD_STATIC_ASSERT(e, m) _Static_assert(e, m)
#ifdef __cplusplus
#undef PROFD_STATIC_ASSERT
#define PROFD_STATIC_ASSERT(e, m) static_assert(e, m)
#endif
PROFD_STATIC_ASSERT(sizeof(struct profd_rule) == 8, "rule size");
PROFD_STATIC_ASSERT(sizeof(struct profd_sample_key) == 32, "sample key size");
PROFD_STATIC_ASSERT(sizeof(struct profd_module_key) == 16, "module key size");
PROFD_STATIC_ASSERT(sizeof(struct profd_visit) == 24, "visit size");
PROFD_STATIC_ASSERT(sizeof(struct profd_heap_counter) == 72, "heap counter size");
PROFD_STATIC_ASSERT(sizeof(struct profd_live_heap_record) == 64, "live heap record size");
PROFD_STATIC_ASSERT(sizeof(struct profd_told_record) == 64, "told record size");
PROFD_STATIC_ASSERT(sizeof(struct profd_usdt_argument) == 16, "USDT argument size");
PROFD_STATIC_ASSERT(sizeof(struct profd_malloc_thread) == 96, "malloc thread size");
PROFD_STATIC_ASSERT(sizeof(struct profd_ledger) == 240, "ledger size");
PROFD_STATIC_ASSERT(sizeof(struct profd_thread) % 8 == 0, "thread size");
PROFD_STATIC_ASSERT(__builtin_offsetof(struct profd_stack_record, frames) ==
			    PROFD_STACK_HEADER_SIZE,
		    "stack header size");

#endif /* PROFD_BPF_ABI_H_ */
