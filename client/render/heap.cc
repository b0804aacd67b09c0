#include "client/render/heap.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "client/answer/watched.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr double kLeastCoverage = 0.98;
constexpr double kSecond = 1e9;
// Keeps quotients of short durations within uint64_t.
constexpr double kMost = 9e18;

// Bytes in a status are unchecked; those in a profile were checked.
double Bytes(int64_t bytes) { return static_cast<double>(std::max<int64_t>(bytes, 0)); }

}  // namespace

double HeapCoverage(const profd::v1::HeapTotal& heap) {
  const double all = Bytes(heap.weight_bytes()) + Bytes(heap.unseen_bytes());
  return all > 0 ? Bytes(heap.weight_bytes()) / all : 1;
}

std::string FormatCoverage(const profd::v1::HeapTotal& heap) {
  if (heap.events() == 0 && heap.gaps() == 0) return "-";
  return FormatShare(HeapCoverage(heap), 1);
}

bool IsBadlyCovered(const profd::v1::HeapTotal& heap) {
  return HeapCoverage(heap) < kLeastCoverage;
}

std::string DescribeUnseen(const profd::v1::HeapTotal& heap) {
  return absl::StrCat("no probe saw ", FormatCount(heap.gaps()),
                      heap.gaps() == 1 ? " event with " : " events with ",
                      FormatValue(heap.unseen_bytes(), Unit::kBytes), " (",
                      FormatShare(1 - HeapCoverage(heap), 1), " of the bytes)");
}

std::string DescribeLate(const profd::v1::HeapTotal& heap) {
  const double all = Bytes(heap.weight_bytes());
  const double late = std::min(Bytes(heap.late_bytes()), all);
  if (late <= (1 - kLeastCoverage) * all) return "";
  return absl::StrCat(
      FormatShare(late / all, 1),
      " of the bytes were seen in the allocator's slow path, shortly after the event; "
      "their stacks are approximate");
}

std::string FormatByteRate(int64_t bytes, int64_t duration_ns) {
  if (duration_ns <= 0) return "-";
  const double rate = Bytes(bytes) / static_cast<double>(duration_ns) * kSecond;
  return FormatBytes(static_cast<uint64_t>(std::min(std::round(rate), kMost))) + "/s";
}

std::string DescribeBytes(const Profile& profile, int64_t bytes) {
  const int64_t watched_ns = WatchedNs(profile);
  std::string text = FormatValue(bytes, Unit::kBytes);
  if (profile.kind->level) {
    return absl::StrCat(text, " at the end of the window, ", FormatGrowth(SumGrowth(profile)),
                        " in ", FormatDuration(WindowNs(profile)));
  }
  if (watched_ns <= 0) return text;
  return absl::StrCat(text, " in ", FormatDuration(watched_ns), ", ",
                      FormatByteRate(bytes, watched_ns));
}

std::string DescribeSource(const Profile& profile, const profd::v1::HeapTotal& heap) {
  if (heap.estimated_bytes() <= 0) return "from the allocators' own counters";
  const std::string bursts = "estimated from " + DescribeBursts(profile);
  if (heap.estimated_bytes() >= heap.bytes()) return bursts;
  return absl::StrCat("of which ", FormatValue(heap.estimated_bytes(), Unit::kBytes), " ", bursts);
}

std::string DescribeBursts(const Profile& profile) {
  const uint64_t bursts = profile.coverage().bursts();
  return absl::StrCat(
      FormatCount(bursts), bursts == 1 ? " burst" : " bursts", " of tracing, ",
      FormatFineShare(Bytes(profile.coverage().burst_ns()), static_cast<double>(WindowNs(profile))),
      " of the window");
}

}  // namespace profctl
