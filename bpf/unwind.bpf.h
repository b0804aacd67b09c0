/* The walker of user stacks. Uses .eh_frame rules, and frame pointers only where there are no
 * rules.
 *
 * One walker for two contexts. WALK_OUTSIDE reads another thread's stack (sleepable programs, the
 * tick). WALK_OWN reads the current thread's stack (probes). `from` is a constant at every call, so
 * each program contains only one of them.
 */
#ifndef PROFD_BPF_UNWIND_BPF_H_
#define PROFD_BPF_UNWIND_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "mapping_cache.bpf.h"
#include "modules.bpf.h"
#include "walk.bpf.h"

enum walk_from {
	WALK_OUTSIDE,
	WALK_OWN,
};

#define MAX_FRAME_POINTER_STEP (1 << 20)

/* Registers in an x86-64 signal frame, from the stack pointer at the handler's return. */
#define SIGNAL_RBP 0x78
#define SIGNAL_RSP 0xa0
#define SIGNAL_RIP 0xa8

/* The thread has not run since the walk began, so everything read is consistent. */
static __always_inline bool still_waits(struct walker *walker)
{
	barrier();
	return !walker->task->on_cpu && switches_of(walker->task) == walker->walk->switches;
}

/* Reads the stack from `start` to the end of its page: a page is present or not. Not inlined, as it
 * is called in several places and little of the BPF stack is left.
 */
static __noinline bool fill_window(struct walker *walker, u64 start)
{
	struct walk *walk = walker->walk;
	u64 size = STACK_PAGE - (start & (STACK_PAGE - 1));

	barrier_var(size);
	walk->window_size = 0;
	if (size > STACK_PAGE || !is_readable_memory(walker, start) ||
	    bpf_copy_from_user_task(walk->window, size, (void *)start, walker->task, 0))
		return false;
	walk->window_start = start;
	walk->window_size = size;
	if (still_waits(walker))
		return true;
	walk->torn = 1;
	return false;
}

static __always_inline bool read_stack(struct walker *walker, u64 address, u64 *word,
				       enum walk_from from)
{
	struct walk *walk = walker->walk;
	u64 start;

	if (address & 7)
		return false;
	if (from == WALK_OWN)
		return !bpf_probe_read_user(word, sizeof(*word), (void *)address);
	if (address - walk->window_start >= walk->window_size) {
		/* By pages, so that a frame of any size costs one read. */
		start = address & ~(u64)(STACK_PAGE - 1);
		if (start < walk->bottom && walk->bottom <= address)
			start = walk->bottom;
		if (walk->torn || !fill_window(walker, start))
			return false;
	}
	*word = walk->window[((address - walk->window_start) >> 3) & (STACK_PAGE / 8 - 1)];
	return true;
}

/* find_rule with a cache. The rules of a module id never change once it is ready. */
static __always_inline bool recall_rule(struct walk *walk, u64 offset, u32 *rule)
{
	u64 frame = PROFD_FRAME(walk->map_module, offset);
	u32 slot = (u32)(mix(0, frame) >> 32);
	s64 found;

	*rule = PROFD_RULE_NONE;
	if (offset > PROFD_FRAME_OFFSET_MASK)
		return true;
	barrier_var(slot); /* the mask comes last, where the verifier sees it */
	slot &= RULE_CACHE - 1;
	if (walk->rules[slot].frame == frame) {
		*rule = (u32)walk->rules[slot].rule;
		return true;
	}
	found = find_rule(walk->map_module, offset);
	if (found == NO_RULES)
		return false;
	*rule = (u32)found;
	walk->rules[slot].frame = frame;
	walk->rules[slot].rule = *rule;
	return true;
}

/* A frame that begins with `push rbp; mov rbp, rsp`. */
#define FRAME_POINTER_CFA 16
#define FRAME_POINTER_RBP (-16)

/* Whether the frame pointer can be one: for code without rules nothing else says so. */
static __always_inline bool is_frame_pointer(struct walk *walk)
{
	u64 fp = walk->fp;

	return fp >= walk->sp && fp - walk->sp <= MAX_FRAME_POINTER_STEP && !(fp & 7);
}

/* Says in walk->step where the caller's registers are. False: nothing leads there; walk->result
 * says why.
 */
static __always_inline bool find_step(struct walk *walk, u32 rule)
{
	struct step *step = &walk->step;
	u64 sp = walk->sp, fp = walk->fp, cfa = 0;
	s64 fp_offset = PROFD_RULE_RBP_OFFSET(rule); /* of the caller's; 0: still in the register */

	step->kind = PROFD_RULE_KIND(rule);
	step->cfa_at = 0;
	step->fp_at = 0;
	switch (step->kind) {
	case PROFD_RULE_RSP:
		cfa = sp + PROFD_RULE_CFA(rule);
		break;
	case PROFD_RULE_RBP:
		cfa = fp + PROFD_RULE_CFA(rule);
		break;
	case PROFD_RULE_PLT:
		cfa = sp + 8 + ((walk->pc & 15) >= 11 ? 8 : 0);
		break;
	case PROFD_RULE_DEREF_RBP:
		step->cfa_at = fp + PROFD_RULE_CFA(rule);
		step->fp_at = fp;
		break;
	case PROFD_RULE_SIGNAL:
		step->cfa_at = sp + SIGNAL_RSP;
		step->fp_at = sp + SIGNAL_RBP;
		break;
	case PROFD_RULE_OTHER_STACK:
		cfa = fp + FRAME_POINTER_CFA;
		fp_offset = FRAME_POINTER_RBP;
		walk->bottom = fp & ~7ULL;
		break;
	case PROFD_RULE_NONE:
		walk->result = PROFD_WALK_NO_RULE;
		if (!is_frame_pointer(walk))
			return false;
		cfa = fp + FRAME_POINTER_CFA;
		fp_offset = FRAME_POINTER_RBP;
		break;
	default:
		walk->result = PROFD_WALK_UNSUPPORTED;
		return false;
	}
	step->cfa = cfa;
	if (fp_offset && !step->cfa_at)
		step->fp_at = cfa + fp_offset;
	return true;
}

/* Steps to the caller. All kinds of rules come down to the same three reads, which are here once
 * and know only what is in memory: the verifier follows a read in every state that it can tell
 * apart. False ends the walk; walk->result says why.
 */
static __always_inline bool take_step(struct walker *walker, u32 rule, enum walk_from from)
{
	struct walk *walk = walker->walk;
	struct step *step = &walk->step;

	walk->result = PROFD_WALK_UNREADABLE;
	if (!find_step(walk, rule))
		return false;
	barrier();
	if (step->cfa_at && !read_stack(walker, step->cfa_at, &step->cfa, from))
		return false;
	barrier();
	if (step->kind == PROFD_RULE_SIGNAL) {
		step->pc_at = walk->sp + SIGNAL_RIP;
		walk->exact = 1;
	} else {
		/* Of two stacks either may be above the other. So may be that of a signal
		 * (sigaltstack).
		 */
		if (step->cfa <= walk->sp && step->kind != PROFD_RULE_OTHER_STACK) {
			walk->result = PROFD_WALK_NO_PROGRESS;
			return false;
		}
		step->pc_at = step->cfa - 8;
		walk->exact = 0;
	}
	barrier();
	if (step->fp_at && !read_stack(walker, step->fp_at, &walk->fp, from))
		return false;
	barrier();
	if (!read_stack(walker, step->pc_at, &walk->pc, from))
		return false;
	if (step->kind == PROFD_RULE_SIGNAL)
		walk->bottom = step->cfa & ~7ULL;
	walk->sp = step->cfa;
	walk->result = PROFD_WALK_TOO_DEEP;
	if (step->kind == PROFD_RULE_NONE && walk->frame_pointers < 255)
		walk->frame_pointers++;
	return true;
}

/* An address inside the frame's instruction: for a return address that is the call. */
static __always_inline u64 address_of(struct walk *walk)
{
	return walk->exact ? walk->pc : walk->pc - 1;
}

/* Appends the current frame, which was located. False ends the walk; walk->result says why. */
static __always_inline bool name_frame(struct walk *walk)
{
	u64 frame, offset;

	frame = walk->pc & ~PROFD_FRAME_IN_FILE;
	offset = walk->pc - walk->map_start + walk->map_offset;
	if (walk->map_module && offset <= PROFD_FRAME_OFFSET_MASK)
		frame = PROFD_FRAME(walk->map_module, offset);
	if (walk->frames >= PROFD_MAX_FRAMES) {
		walk->result = PROFD_WALK_TOO_DEEP;
		return false;
	}
	walk->record.frames[walk->frames & (PROFD_MAX_FRAMES - 1)] = frame;
	walk->frames++;
	walk->hash = mix(walk->hash, frame);
	return true;
}

/* At a function's first instruction the return address is at the top of the stack. */
#define ENTRY_RULE PROFD_RULE_PACK(PROFD_RULE_RSP, 1, 0)

/* One frame, which was located: appends it, then steps to its caller. False ends the walk. */
static __always_inline bool leave_frame(struct walker *walker, enum walk_from from)
{
	struct walk *walk = walker->walk;
	u32 rule = PROFD_RULE_NONE;

	if (!name_frame(walk))
		return false;
	if (walk->at_entry) {
		walk->at_entry = 0;
		rule = ENTRY_RULE;
	} else if (walk->map_state == PROFD_MODULE_PENDING) {
		walk->result = PROFD_WALK_RULES_PENDING;
		return false;
	} else if (walk->map_state == PROFD_MODULE_READY &&
		   !recall_rule(walk, address_of(walk) - walk->map_start + walk->map_offset,
				&rule)) {
		/* Its module was removed during the walk. */
		walk->result = PROFD_WALK_RULES_PENDING;
		return false;
	}
	if (PROFD_RULE_KIND(rule) == PROFD_RULE_END) {
		walk->result = PROFD_WALK_COMPLETE;
		return false;
	}
	return take_step(walker, rule, from);
}

/* The two halves of a frame of the current thread. Neither static nor inlined: the verifier follows
 * each once.
 */
__noinline int locate_own_frame(struct walk *walk)
{
	struct walker walker = {.task = bpf_get_current_task_btf(), .walk = walk};

	return walk && locate(&walker, address_of(walk), true);
}

__noinline int leave_own_frame(struct walk *walk)
{
	struct walker walker = {.task = bpf_get_current_task_btf(), .walk = walk};

	return walk && leave_frame(&walker, WALK_OWN);
}

static long walk_own_frame(u32 index, struct walker *walker)
{
	int left;

	if (!locate_own_frame(walker->walk))
		return 1;
	left = leave_own_frame(walker->walk);
	barrier_var(left); /* the compiler knows what it can be, the verifier does not */
	return left ? 0 : 1;
}

static long walk_outside_frame(u32 index, struct walker *walker)
{
	return !locate(walker, address_of(walker->walk), false) ||
	       !leave_frame(walker, WALK_OUTSIDE);
}

/* Length of the longest instruction plus one, bytes. */
#define MAX_INSTRUCTION 16

/* The thread's program counter. The instruction under a probe is executed in a page that belongs to
 * no file; for a thread that waits there, this is the address of the probe.
 */
static __always_inline u64 user_pc(struct task_struct *task, struct pt_regs *regs)
{
	struct uprobe_task *probed;

	if (!bpf_core_field_exists(struct task_struct, utask))
		return regs->ip;
	probed = BPF_CORE_READ(task, utask);
	if (!probed || !BPF_CORE_READ(probed, active_uprobe) ||
	    regs->ip - BPF_CORE_READ(probed, xol_vaddr) >= MAX_INSTRUCTION)
		return regs->ip;
	return BPF_CORE_READ(probed, vaddr);
}

static __always_inline void begin_walk(struct walker *walker, u64 pc, u64 sp, u64 fp)
{
	struct walk *walk = walker->walk;

	name_space(walk, walker->task);
	walk->pc = pc;
	walk->sp = sp;
	walk->fp = fp;
	walk->bottom = sp & ~7ULL;
	walk->map_start = 0;
	walk->map_end = 0;
	walk->exact = 1;
	walk->result = PROFD_WALK_TOO_DEEP;
}

/* Walks the stack of the current thread, like walk_from_outside. `at_entry`: pc is a function's
 * first instruction.
 */
static __always_inline void walk_own(struct walker *walker, u64 pc, u64 sp, u64 fp, bool at_entry)
{
	begin_walk(walker, pc, sp, fp);
	walker->walk->at_entry = at_entry;
	bpf_loop(PROFD_MAX_USER_FRAMES, walk_own_frame, walker, 0);
}

/* Walks from the given registers; one frame of a thread that never ran. Frames are appended to
 * walk->record after walk->frames; walk->result says how it ended.
 */
static __always_inline void walk_from_outside(struct walker *walker, u64 pc, u64 sp, u64 fp)
{
	struct walk *walk = walker->walk;

	begin_walk(walker, pc, sp, fp);
	walk->at_entry = 0;
	walk->hurried = 1;
	/* Read the innermost page first. If the thread runs after that, the walk is still valid
	 * unless it needs more than this page.
	 */
	fill_window(walker, walk->bottom);
	if (!walk->torn)
		bpf_loop(walk->never_ran ? 1 : PROFD_MAX_USER_FRAMES, walk_outside_frame, walker,
			 0);
}

#endif /* PROFD_BPF_UNWIND_BPF_H_ */
