// SPDX-License-Identifier: GPL-2.0-only
/* All kernel programs, in one object. */
#include "sched.bpf.c"
#include "tick.bpf.c"
#include "drain.bpf.c"
#include "lifecycle.bpf.c"
#include "mappings.bpf.c"
#include "heap.bpf.c"
#include "live.bpf.c"
#include "fault.bpf.c"
#include "maps.bpf.c"
#include "usdt.bpf.c"
#include "malloc.bpf.c"

char LICENSE[] SEC("license") = "GPL";
