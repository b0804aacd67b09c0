#include "client/render/next_steps.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/answer/wait_durations.h"
#include "client/render/estimate.h"
#include "client/text/text.h"
#include "client/text/time_text.h"

namespace profctl {
namespace {

constexpr double kLeastShare = 0.2;     // of what is shown
constexpr double kLeastOfWindow = 0.1;  // for a single wait
constexpr double kLeastQueued = 0.1;    // of the time in which threads could run
constexpr double kBusy = 0.9;           // of the window, on a CPU
constexpr double kLeastGrowth = 0.1;    // of the resident memory
constexpr double kCertain = 2;          // standard errors

// Waits for these are mostly for the next work.
bool IsForWork(Reason reason) {
  return reason == profd::v1::REASON_POLL || reason == profd::v1::REASON_SLEEP ||
         reason == profd::v1::REASON_RUNQUEUE;
}

// Someone else's progress ends these.
bool IsForOthers(Reason reason) {
  return reason == profd::v1::REASON_LOCK || reason == profd::v1::REASON_PIPE ||
         reason == profd::v1::REASON_CHILD;
}

bool IsForFiles(Reason reason) {
  return reason == profd::v1::REASON_DISK || reason == profd::v1::REASON_FSYNC;
}

bool IsForMemory(Reason reason) {
  return reason == profd::v1::REASON_FAULT || reason == profd::v1::REASON_RECLAIM;
}

// The same reasons also stand for waits for the next work, which are idle.
bool IsForPeers(Reason reason) {
  return reason == profd::v1::REASON_NET || reason == profd::v1::REASON_POLL;
}

// Text as one word of a shell.
std::string Quoted(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) ||
           std::string_view("-_./:@%+,").find(static_cast<char>(c)) != std::string_view::npos;
  });
  return plain ? text : absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

class Steps {
 public:
  Steps(const View& view, const AskedFor& asked)
      : view_(view), profile_(*view.profile), asked_(asked) {
    for (const Sample* sample : view.shown) {
      shown_[sample->reason].Add(*sample);
      if (sample->idle.empty() && IsForPeers(sample->reason)) peers_.Add(*sample);
    }
    for (const Sample& sample : profile_.samples) {
      if (!sample.idle.empty()) idle_.insert(sample.reason);
    }
    for (const Thread& thread : profile_.threads) {
      AddDurations(thread.ledger.off(), &durations_);
      on_cpu_ns_ += thread.ledger.on_cpu_ns();
      busiest_ns_ = std::max(busiest_ns_, thread.ledger.on_cpu_ns());
      for (const profd::v1::ReasonTotal& off : thread.ledger.off()) {
        if (off.reason() == profd::v1::REASON_RUNQUEUE) queued_ns_ += off.time_ns();
      }
    }
  }

  std::vector<std::string> Choose() && {
    if (profile_.unit == Unit::kBytes) {
      Add("memory", false, "what the memory is made of, and whether it grows");
      return std::move(lines_);
    }
    if (profile_.unit == Unit::kCount) {
      Add("fetch", true, "how long threads wait there");
      return std::move(lines_);
    }
    const bool locks = Stands(profd::v1::REASON_LOCK);
    if (locks && profile_.kind->kind != profd::Kind::kLocks) {
      Add("locks", true, "which locks, and who released them");
    }
    if (IsOneWaitLong()) Add("worst", true, "the longest single waits, and who ended them");
    if (WaitsFor(IsForOthers) || IsOneBusy()) {
      Add("bottlenecks", true, "what limits the throughput");
    }
    if (IsLarge(peers_) && !asked_.by_object) {
      Add("fetch --by object", true, "which connections the waits are for");
    }
    if (WaitsFor(IsForFiles)) Add("fetch --kind disk", true, "which disk requests, and by whom");
    if (IsQueued()) Add("threads --sort runq", true, "which threads had no CPU");
    if (Grows()) {
      Add("memory", false, "what grew");
    } else if (WaitsFor(IsForMemory)) {
      Add("memory", false, "whether memory is short");
    }
    return std::move(lines_);
  }

 private:
  void Add(std::string_view verb, bool of_threads, std::string_view what) {
    if (lines_.size() == kMostNextSteps) return;
    std::string line = "profctl ";
    if (!asked_.server.empty()) absl::StrAppend(&line, "--server ", Quoted(asked_.server), " ");
    const profd::v1::Coverage& coverage = profile_.coverage();
    absl::StrAppend(&line, std::string(verb), " --from ", FormatTimeMs(coverage.begin_ns()),
                    " --to ", FormatTimeMs(coverage.end_ns()));
    for (const std::string& target : asked_.targets) {
      absl::StrAppend(&line, " --target ", Quoted(CleanName(target)));
    }
    if (of_threads && !asked_.thread.empty()) {
      absl::StrAppend(&line, " --thread ", Quoted(CleanName(asked_.thread)));
    }
    absl::StrAppend(&line, "  # ", std::string(what));
    lines_.push_back(std::move(line));
  }

  // Has its share of what is shown for certain.
  bool Stands(Reason reason) const {
    const auto shown = shown_.find(reason);
    return shown != shown_.end() && IsLarge(shown->second);
  }
  bool IsLarge(const Estimate& estimate) const {
    return view_.shown_value > 0 &&
           static_cast<double>(estimate.value) - kCertain * estimate.Error() >=
               kLeastShare * static_cast<double>(view_.shown_value);
  }
  bool WaitsFor(bool (*is_one)(Reason)) const {
    Estimate sum;
    for (const auto& [reason, estimate] : shown_) {
      if (!is_one(reason)) continue;
      sum.value += estimate.value;
      sum.variance += estimate.variance;
    }
    return IsLarge(sum);
  }
  // A wait that is shown took a tenth of the window. Of reasons with idle waits it could be one of
  // these.
  bool IsOneWaitLong() const {
    return std::any_of(durations_.begin(), durations_.end(), [&](const auto& entry) {
      return shown_.contains(entry.first) && !idle_.contains(entry.first) &&
             !IsForWork(entry.first) &&
             static_cast<double>(entry.second.known_longest()) >=
                 kLeastOfWindow * static_cast<double>(WindowNs(profile_));
    });
  }
  bool IsOneBusy() const {
    return WindowNs(profile_) > 0 &&
           static_cast<double>(busiest_ns_) >= kBusy * static_cast<double>(WindowNs(profile_));
  }
  bool IsQueued() const {
    return queued_ns_ > 0 && static_cast<double>(queued_ns_) >=
                                 kLeastQueued * static_cast<double>(queued_ns_ + on_cpu_ns_);
  }
  bool Grows() const {
    const profd::v1::MemoryLine& memory = profile_.message->memory();
    return memory.rss_bytes() > 0 && static_cast<double>(memory.rss_growth_bytes()) >=
                                         kLeastGrowth * static_cast<double>(memory.rss_bytes());
  }

  const View& view_;
  const Profile& profile_;
  const AskedFor& asked_;
  std::map<Reason, Estimate> shown_;
  std::set<Reason> idle_;  // that have idle waits
  Estimate peers_;         // waits for somebody to send, without idle ones
  ReasonDurations durations_;
  int64_t on_cpu_ns_ = 0, queued_ns_ = 0, busiest_ns_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> NextSteps(const View& view, const AskedFor& asked) {
  if (view.profile->threads.empty()) return {};
  return Steps(view, asked).Choose();
}

}  // namespace profctl
