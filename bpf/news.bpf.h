/* How many threads and execs the daemon is told of one by one. */
#ifndef PROFD_BPF_NEWS_BPF_H_
#define PROFD_BPF_NEWS_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "abi.h"

#define NEWS_INTERVAL_NS (1000000000 / PROFD_NEWS_A_SECOND)

/* How many may be told of at once. 0: none ever. */
const volatile profd_u32 news_burst __weak = PROFD_NEWS_BURST;

/* Until when the births that were told of are paid for. */
profd_u64 births_paid __weak;

/* Whether one more may be told of, where `burst` may at once and after that one per `interval`, ns.
 * Two CPUs at once may take the same.
 */
static __always_inline bool spend(u64 *paid, u32 burst, u64 interval)
{
	u64 now = bpf_ktime_get_ns();
	u64 from = *(volatile u64 *)paid;

	if (!burst || (s64)(from - now) > (s64)(burst * interval))
		return false;
	*(volatile u64 *)paid = ((s64)(from - now) > 0 ? from : now) + interval;
	return true;
}

/* Whether there is something left to tell from. */
static __always_inline bool spend_news(u64 *paid)
{
	return spend(paid, news_burst, NEWS_INTERVAL_NS);
}

#endif /* PROFD_BPF_NEWS_BPF_H_ */
