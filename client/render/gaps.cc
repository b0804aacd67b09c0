#include "client/render/gaps.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "client/answer/watched.h"
#include "client/render/heap.h"
#include "client/text/text.h"

namespace profctl {
namespace {

class Window {
 public:
  explicit Window(int64_t length_ns) : length_ns_(length_ns) {}

  bool IsOff(int64_t on_ns) const { return length_ns_ > 0 && on_ns <= 0; }
  // "was off", or "was off for 12.0 s of 60.0 s".
  std::string Tell(const char* verb, const char* how, int64_t on_ns) const {
    if (IsOff(on_ns)) return absl::StrCat(" ", verb, " off");
    return absl::StrCat(" ", verb, " ", how, " for ", FormatDuration(OffNs(on_ns)), " of ",
                        FormatDuration(length_ns_));
  }

 private:
  int64_t OffNs(int64_t on_ns) const {
    return length_ns_ - std::clamp<int64_t>(on_ns, 0, length_ns_);
  }

  const int64_t length_ns_;
};

// What is known about reasons without the layer `switch`.
std::string DescribeReasons(const Profile& profile) {
  const profd::v1::Coverage& header = profile.coverage();
  if (header.tick_ns() <= 0) return "reasons during that time are unknown";
  if (header.books_ns() <= 0 && header.switch_ns() <= 0) {
    return absl::StrCat("all times are estimated from ", FormatCount(profile.coverage().ticks()),
                        " ticks");
  }
  int64_t estimated_ns = 0;
  for (const Thread& thread : profile.threads) estimated_ns += thread.ledger.estimated_ns();
  return absl::StrCat("reasons for ", FormatDuration(estimated_ns), " of waits are estimated from ",
                      FormatCount(profile.coverage().ticks()), " ticks");
}

// How allocators without counters were estimated; empty if there is no such estimate.
std::string DescribeEstimate(const Profile& profile) {
  const profd::v1::Coverage& header = profile.coverage();
  if (profile.kind->level || header.bursts_on_ns() <= 0) return "";
  if (header.bursts() == 0) {
    return "no tracing burst in this window, so calls to glibc's malloc are unknown; use a longer "
           "window";
  }
  const std::optional<profd::v1::HeapTotal> heap = SumHeap(profile);
  if (!heap || heap->estimated_bytes() <= 0) return "";
  return absl::StrCat("glibc's malloc is estimated from ", DescribeBursts(profile));
}

std::vector<std::string> DescribeHeapGaps(const Profile& profile) {
  const SampleTypeInfo& kind = *profile.kind;
  const Window window(WindowNs(profile));
  const std::string events(kind.events);
  const std::string done(kind.done);
  const std::string estimate = DescribeEstimate(profile);
  if (window.IsOff(profile.type.watched_ns()) && !estimate.empty()) return {estimate};
  if (window.IsOff(profile.type.watched_ns())) {
    return {absl::StrCat(events, " were not watched in this window: 'profctl status' says why")};
  }
  std::vector<std::string> gaps;
  if (kind.level) {
    if (HasGap(profile, profile.type.watched_ns())) {
      gaps.push_back(absl::StrCat(events,
                                  window.Tell("were", "not watched", profile.type.watched_ns()),
                                  ": memory from that time is missing"));
    }
    return gaps;
  }
  if (!estimate.empty()) gaps.push_back(estimate);
  if (HasGap(profile, profile.type.watched_ns())) {
    gaps.push_back(absl::StrCat(events,
                                window.Tell("were", "not watched", profile.type.watched_ns()),
                                ": memory ", done, " during that time is unknown"));
  }
  if (kind.IsOfCalls()) return gaps;
  const std::optional<profd::v1::HeapTotal> heap = SumHeap(profile);
  if (!heap && !profile.threads.empty()) {
    gaps.push_back(absl::StrCat("no ", events,
                                " seen; 'profctl status' lists the allocators that are watched"));
  }
  const std::string late = heap ? DescribeLate(*heap) : "";
  if (!late.empty()) gaps.push_back(late);
  if (heap && IsBadlyCovered(*heap)) {
    gaps.push_back(DescribeUnseen(*heap) +
                   "; their bytes are attributed to the stacks that were seen");
  }
  return gaps;
}

std::vector<std::string> DescribeCountedGaps(const Profile& profile) {
  const Window window(WindowNs(profile));
  const int64_t watched_ns = profile.type.watched_ns();
  const std::string events(profile.kind->events);
  if (!HasGap(profile, watched_ns)) return {};
  if (window.IsOff(watched_ns)) {
    return {absl::StrCat(events, " were not counted in this window: 'profctl status' says why")};
  }
  return {absl::StrCat(events, window.Tell("were", "not counted", watched_ns))};
}

std::string_view WhatIsSampled(profd::Kind kind) {
  if (kind == profd::Kind::kCpu) return "running code was";
  if (kind == profd::Kind::kSwitch) return "context switches were";
  return kind == profd::Kind::kWaker ? "wakers were" : "running code or waits were";
}

}  // namespace

std::vector<std::string> DescribeGaps(const Profile& profile) {
  if (profile.kind->IsCounted()) return DescribeCountedGaps(profile);
  if (profile.unit == Unit::kBytes) return DescribeHeapGaps(profile);
  const profd::v1::Coverage& header = profile.coverage();
  const Window window(WindowNs(profile));
  std::vector<std::string> gaps;
  const profd::Kind kind = profile.kind->kind;
  const bool by_tick =
      kind == profd::Kind::kWait || kind == profd::Kind::kLocks || kind == profd::Kind::kRunQueue;
  if (!by_tick && HasGap(profile, profile.type.watched_ns())) {
    gaps.push_back(absl::StrCat(
        std::string(WhatIsSampled(kind)),
        window.IsOff(profile.type.watched_ns()) ? " not sampled" : " sampled for only ",
        window.IsOff(profile.type.watched_ns()) ? "" : FormatDuration(profile.type.watched_ns()),
        ": 'profctl status' says why"));
  }
  if (kind == profd::Kind::kCpu || kind == profd::Kind::kSwitch) return gaps;
  if (HasGap(profile, header.switch_ns())) {
    gaps.push_back(absl::StrCat("the switch layer", window.Tell("was", "off", header.switch_ns()),
                                ": ", DescribeReasons(profile)));
  }
  if (HasGap(profile, header.books_ns())) {
    gaps.push_back(absl::StrCat("the books layer", window.Tell("was", "off", header.books_ns()),
                                ": nothing checks times of that period"));
  }
  if (HasGap(profile, header.tick_ns())) {
    gaps.push_back(absl::StrCat("the tick layer", window.Tell("was", "off", header.tick_ns()),
                                ": no stacks for that time"));
  }
  return gaps;
}

}  // namespace profctl
