#include "daemon/store/long_waits.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/wrapping.h"
#include "daemon/store/folding.h"

namespace profd {
namespace {

// The distance of two clocks, by which a wait's begin is known, is not always the same. A thread
// has no two long waits that begin so close to each other.
constexpr int64_t kSameBeginNs = 1'000'000;

// What waits of one stack have in common.
struct Group {
  ProcessKey process;
  StackId stack{};
  Reason reason = Reason::kOther;
  friend bool operator==(const Group&, const Group&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Group& g) {
    return H::combine(std::move(h), g.process, g.stack, g.reason);
  }
};

bool IsResting(Reason reason) {
  return PROFD_LONG_WAIT_CLASS(static_cast<uint32_t>(reason)) == PROFD_LONG_WAIT_REST;
}

// Told once, by the program that saw its end.
bool IsFinal(const StoredWait& wait) { return !wait.lasts && wait.doubt_ns == 0; }

// Of the same wait: what was told when it was over, else what was told last.
bool TellsMore(const StoredWait& a, const StoredWait& b) {
  if (a.lasts != b.lasts) return b.lasts;
  if (a.doubt_ns != b.doubt_ns) return a.doubt_ns < b.doubt_ns;
  return a.duration_ns > b.duration_ns;
}

// The same wait under the same number of a thread. Rows for several threads have waits of any.
void MergeSame(std::vector<StoredWait>* waits) {
  std::sort(waits->begin(), waits->end(), [](const StoredWait& a, const StoredWait& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    return a.begin_ns < b.begin_ns;
  });
  size_t kept = 0;
  for (StoredWait& wait : *waits) {
    StoredWait* const before = kept == 0 ? nullptr : &(*waits)[kept - 1];
    if (before == nullptr || before->thread != wait.thread || (IsFinal(*before) && IsFinal(wait)) ||
        WrappingSubtract(wait.begin_ns, before->begin_ns) >= kSameBeginNs) {
      (*waits)[kept++] = wait;
      continue;
    }
    const uint64_t similar = before->similar + wait.similar;
    if (TellsMore(wait, *before)) *before = wait;
    before->similar = similar;
  }
  waits->resize(kept);
}

}  // namespace

uint64_t KeepLongest(const WaitNames& names, const LongWaitLimits& limits,
                     std::vector<StoredWait>* waits) {
  MergeSame(waits);
  std::stable_sort(waits->begin(), waits->end(), [](const StoredWait& a, const StoredWait& b) {
    return a.duration_ns > b.duration_ns;
  });
  struct Kept {
    size_t count = 0, last = 0;  // in `waits`
  };
  absl::flat_hash_map<Group, Kept> groups;
  size_t resting = 0, others = 0, place = 0;
  uint64_t left_out = 0;
  for (const StoredWait& wait : *waits) {
    const Site& site = names.sites[wait.site];
    const Group group = {ProcessKeyOf(*names.threads[wait.thread]), site.stack, site.reason};
    Kept& kept = groups[group];
    size_t& all = IsResting(site.reason) ? resting : others;
    // The longest of each stack comes first.
    const size_t most = IsResting(site.reason) ? limits.resting : limits.others;
    const bool full = all >= (kept.count == 0 ? 2 * most : most);
    if (!full && kept.count < limits.of_stack) {
      all++;
      kept = {kept.count + 1, place};
      (*waits)[place++] = wait;
    } else if (kept.count > 0) {
      (*waits)[kept.last].similar += 1 + wait.similar;
    } else {
      left_out += 1 + wait.similar;
    }
  }
  waits->resize(place);
  return left_out;
}

}  // namespace profd
