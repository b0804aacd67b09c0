// SPDX-License-Identifier: GPL-2.0-only
/* All kernel programs, in one object. */
#include "source/switch.bpf.c"
#include "source/wait.bpf.c"
#include "look.bpf.c"
#include "source/thread.bpf.c"
#include "lifecycle.bpf.c"
#include "source/module.bpf.c"
#include "source/jemalloc.bpf.c"
#include "source/live.bpf.c"
#include "source/fault.bpf.c"
#include "source/mapping.bpf.c"
#include "source/told.bpf.c"
#include "source/malloc.bpf.c"
#include "source/cpu.bpf.c"
#include "source/disk.bpf.c"
#include "source/sync.bpf.c"
#include "source/waker.bpf.c"
#include "source/switch_stack.bpf.c"

char LICENSE[] SEC("license") = "GPL";
