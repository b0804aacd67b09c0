/* The contract between the kernel programs and the daemon. Compiled on both sides.
 * All times are CLOCK_MONOTONIC nanoseconds unless a field says otherwise. rq->clock and sched_info
 * use the scheduler's clock; `clock_distance` is its offset.
 */
#ifndef PROFD_BPF_ABI_H_
#define PROFD_BPF_ABI_H_

#include "abi/base.h"
#include "abi/cpu.h"
#include "abi/disk.h"
#include "abi/duration.h"
#include "abi/record.h"
#include "abi/loss.h"
#include "abi/sample.h"
#include "abi/stack.h"
#include "abi/rule.h"
#include "abi/probe.h"
#include "abi/fault.h"
#include "abi/jemalloc.h"
#include "abi/live.h"
#include "abi/long_wait.h"
#include "abi/log2.h"
#include "abi/look.h"
#include "abi/malloc.h"
#include "abi/mapping.h"
#include "abi/module.h"
#include "abi/object.h"
#include "abi/switch.h"
#include "abi/switch_stack.h"
#include "abi/sync.h"
#include "abi/thread.h"
#include "abi/told.h"
#include "abi/wait.h"
#include "abi/waker.h"

#endif /* PROFD_BPF_ABI_H_ */
