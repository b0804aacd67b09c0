/* Records in the ring that should not wait until it is read the next time. */
#ifndef PROFD_BPF_RING_NEWS_BPF_H_
#define PROFD_BPF_RING_NEWS_BPF_H_

#include "kernel.h"
#include "abi.h"

/* There are some. Set back by the daemon before it reads the ring. */
profd_u32 ring_has_news __weak;

/* Called after the record is in the ring. Mostly a read: the word is shared by all CPUs. */
static __always_inline void tell_ring_news(void)
{
	if (!*(volatile u32 *)&ring_has_news)
		*(volatile u32 *)&ring_has_news = 1;
}

#endif /* PROFD_BPF_RING_NEWS_BPF_H_ */
