#include "client/diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/render/heap.h"
#include "client/render/stacks.h"
#include "client/text.h"

namespace profctl {
namespace {

constexpr double kOneSecondNs = 1e9;

using RowKey = std::tuple<std::string, std::string, std::vector<std::string>>;

struct Sum {
  double value = 0;
  double variance = 0;
  std::vector<std::string> shown;
};

// The stacks of one side.
struct Side {
  std::map<RowKey, Sum> rows;
  double total = 0;
  double total_variance = 0;
  double period = 0;  // of one sample; an unseen stack may have had one
};

// By process and thread name if the answer has no groups.
std::string GroupOf(const Profile& profile, const Sample& sample) {
  const std::vector<std::string>& labels = profile.groups[sample.group];
  std::string name;
  for (const std::string& label : labels) {
    absl::StrAppend(&name, name.empty() ? "" : "/", CleanName(label));
  }
  if (!labels.empty()) return name;
  const Thread& thread = profile.threads[sample.threads.front()];
  return absl::StrCat(CleanName(thread.process), "/", CleanName(thread.group));
}

// Scales values to rates.
double ScaleOf(const Profile& profile) {
  if (profile.kind->level) return 1;
  const int64_t watched_ns =
      profile.unit == Unit::kNanoseconds ? WindowNs(profile) : WatchedNs(profile);
  return watched_ns > 0 ? kOneSecondNs / static_cast<double>(watched_ns) : 0;
}

Side SumUp(const View& view) {
  const Profile& profile = *view.profile;
  const double scale = ScaleOf(profile);
  Side side;
  side.period = static_cast<double>(std::max<int64_t>(profile.type.period(), 0)) * scale;
  std::vector<std::string> names;
  names.reserve(profile.frames.size());
  for (const Frame& frame : profile.frames) names.push_back(CleanName(frame.function));
  for (const Sample* sample : view.shown) {
    std::vector<std::string> frames;
    const bool sampled = sample->stack != kUnsampled;
    if (sampled) {
      for (const uint32_t frame : profile.stacks[sample->stack].frames) {
        // The other side may know less of what was inlined.
        if (!profile.frames[frame].inlined) frames.push_back(names[frame]);
      }
    }
    std::string reason;
    if (profile.kind->HasReasons()) {
      reason = std::string(DescribeReason(sample->reason).name);
    }
    Sum& sum = side.rows[RowKey(GroupOf(profile, *sample), std::move(reason), std::move(frames))];
    const double value = static_cast<double>(sample->value) * scale;
    // Unsampled time may belong to any stack.
    const double error = sampled ? static_cast<double>(sample->error) * scale : value;
    sum.value += value;
    sum.variance += error * error;
    if (sampled && sum.shown.empty()) {
      sum.shown = TellingFrames(profile, profile.stacks[sample->stack]);
    }
    side.total += value;
    if (sampled) side.total_variance += error * error;
  }
  return side;
}

DiffValue ValueOf(const Sum* sum, const Side& side, bool normalized) {
  DiffValue value;
  if (sum != nullptr) {
    value = {.value = sum->value, .error = std::sqrt(sum->variance)};
  } else {
    value.error = side.period;
  }
  if (normalized && side.total > 0) {
    value.value /= side.total;
    value.error /= side.total;
  }
  return value;
}

// Holm: the k-th smallest p of n is compared with alpha / (n - k), until one is larger.
void MarkChanges(std::vector<DiffRow>* rows, double least) {
  std::vector<size_t> order(rows->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return (*rows)[a].p < (*rows)[b].p; });
  for (size_t k = 0; k < order.size(); k++) {
    DiffRow& row = (*rows)[order[k]];
    if (row.p > kDiffAlpha / static_cast<double>(order.size() - k)) break;
    row.changed = std::abs(row.Change()) >= least;
  }
}

}  // namespace

size_t Diff::Changed() const {
  return static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [](const DiffRow& row) { return row.changed; }));
}

double Diff::LargestGrowth() const {
  const double whole = normalized ? 1 : total_a.value;
  double largest = 0;
  for (const DiffRow& row : rows) {
    if (!row.changed || row.Change() <= 0) continue;
    // Growth from nothing has no bound.
    largest = std::max(largest, whole > 0 ? row.Change() / whole : HUGE_VAL);
  }
  return largest;
}

Diff Compare(const View& a, const View& b, bool normalized) {
  const Side before = SumUp(a);
  const Side after = SumUp(b);
  Diff diff;
  diff.normalized = normalized;
  diff.total_a = {.value = before.total, .error = std::sqrt(before.total_variance)};
  diff.total_b = {.value = after.total, .error = std::sqrt(after.total_variance)};
  std::map<RowKey, std::pair<const Sum*, const Sum*>> keys;
  for (const auto& [key, sum] : before.rows) keys[key].first = &sum;
  for (const auto& [key, sum] : after.rows) keys[key].second = &sum;
  for (const auto& [key, sums] : keys) {
    DiffRow& row = diff.rows.emplace_back();
    std::tie(row.group, row.reason, row.frames) = key;
    row.shown = (sums.first != nullptr ? sums.first : sums.second)->shown;
    row.a = ValueOf(sums.first, before, normalized);
    row.b = ValueOf(sums.second, after, normalized);
    const double error = std::hypot(row.a.error, row.b.error);
    row.z = error > 0 ? row.Change() / error : 0;
    // Without errors both values are exact.
    const bool exact_change = error == 0 && row.Change() != 0;
    row.p = exact_change ? 0 : std::erfc(std::abs(row.z) / std::sqrt(2.0));
  }
  const double larger = std::max(before.total, after.total);
  MarkChanges(&diff.rows, kLeastChange * (normalized ? 1 : larger));
  std::stable_sort(diff.rows.begin(), diff.rows.end(), [](const DiffRow& x, const DiffRow& y) {
    if (x.changed != y.changed) return x.changed;
    return std::abs(x.Change()) > std::abs(y.Change());
  });
  return diff;
}

}  // namespace profctl
