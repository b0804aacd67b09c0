/* Walks of the current thread's stack inside the scheduler: at wake-ups and at context switches.
 * Interrupts are off there, and neither happens during the other.
 */
#ifndef PROFD_BPF_SCHEDULER_WALK_BPF_H_
#define PROFD_BPF_SCHEDULER_WALK_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"
#include "current_walk.bpf.h"
#include "kernel_frames.bpf.h"
#include "unwind.bpf.h"

/* Memory of these walks, one per CPU: nothing interrupts them, and they may interrupt any other
 * walk. Sized by the daemon.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct walk);
} scheduler_scratch SEC(".maps") __weak;

/* Prepares the walk of what follows `count` kernel frames. */
static __always_inline void begin_in_scheduler(struct walk *walk, u32 count)
{
	begin_after_kernel(walk, count);
	walk->in_interrupt = 1;
	walk->hurried = 1;
}

/* Walks the user's frames. Neither static nor inlined: the verifier follows it once. */
__noinline int walk_in_scheduler(u32 cpu)
{
	struct walker walker = {.task = bpf_get_current_task_btf()};

	walker.walk = bpf_map_lookup_elem(&scheduler_scratch, &cpu);
	if (walker.walk)
		walk_user_part(&walker);
	return 0;
}

#endif /* PROFD_BPF_SCHEDULER_WALK_BPF_H_ */
