// What is known of an allocator's bytes, in words.
#ifndef PROFD_CLIENT_RENDER_HEAP_H_
#define PROFD_CLIENT_RENDER_HEAP_H_

#include <cstdint>
#include <string>

#include "client/profile.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// Share of the bytes of all events that probes saw: weight ÷ (weight + unseen), 0 to 1. 1 where
// there was no event.
double HeapCoverage(const profd::v1::HeapTotal& heap);

// "99.8%"; "-" where there was no event.
std::string FormatCoverage(const profd::v1::HeapTotal& heap);

// The coverage is so low that what the stacks say of it needs a warning.
bool IsBadlyCovered(const profd::v1::HeapTotal& heap);

// "events no probe saw: 1,152 with 640 MiB, 51.6% of all".
std::string DescribeUnseen(const profd::v1::HeapTotal& heap);
// What was told by an allocator's slow path, after the event: "31% of the bytes told by ...". Empty
// where that is less than what need not be said of unseen events either.
std::string DescribeLate(const profd::v1::HeapTotal& heap);

// "12.3 MiB/s"; "-" without a duration.
std::string FormatByteRate(int64_t bytes, int64_t duration_ns);

// "1.24 GiB in 60.0 s, 21.2 MiB/s": `bytes` by the part of the window that was watched; of levels
// "1.24 GiB at the end of the window, +12.3 MiB in 60.0 s".
std::string DescribeBytes(const Profile& profile, int64_t bytes);

// "by the allocators' own account", or what of it is estimated: of a total of bytes.
std::string DescribeSource(const Profile& profile, const profd::v1::HeapTotal& heap);

// "12 bursts of tracing, 0.4% of the window".
std::string DescribeBursts(const Profile& profile);

// Part of the window in which allocations were watched, ns.
int64_t WatchedNs(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_HEAP_H_
