// Describes the bytes of an allocator.
#ifndef PROFD_CLIENT_RENDER_HEAP_H_
#define PROFD_CLIENT_RENDER_HEAP_H_

#include <cstdint>
#include <string>

#include "client/answer/profile.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

// Share of the bytes whose events a probe saw: weight ÷ (weight + unseen), 0 to 1. Without
// events, 1.
double HeapCoverage(const profd::v1::HeapTotal& heap);

// "99.8%"; "-" without events.
std::string FormatCoverage(const profd::v1::HeapTotal& heap);

// The coverage is so low that the stacks need a warning.
bool IsBadlyCovered(const profd::v1::HeapTotal& heap);

// "no probe saw 1,152 events with 640 MiB (51.6% of the bytes)".
std::string DescribeUnseen(const profd::v1::HeapTotal& heap);
// "31.0% of the bytes were seen in the allocator's slow path, ..."; empty if the share is small.
std::string DescribeLate(const profd::v1::HeapTotal& heap);

// "12.3 MiB/s"; "-" without a duration.
std::string FormatByteRate(int64_t bytes, int64_t duration_ns);

// "1.24 GiB in 60.0 s, 21.2 MiB/s": `bytes` in the part of the window that was watched. For levels,
// "1.24 GiB at the end of the window, +12.3 MiB in 60.0 s".
std::string DescribeBytes(const Profile& profile, int64_t bytes);

// Where a total comes from: "from the allocators' own counters", or how much of it is estimated.
std::string DescribeSource(const Profile& profile, const profd::v1::HeapTotal& heap);

// "12 bursts of tracing, 0.4% of the window".
std::string DescribeBursts(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_HEAP_H_
