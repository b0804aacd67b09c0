#include "client/analysis/diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_join.h"
#include "client/answer/group_by.h"
#include "client/answer/watched.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr double kOneSecondNs = 1e9;

using RowKey = std::tuple<std::string, std::string, std::vector<std::string>>;

struct Sum {
  double value = 0;
  double variance = 0;
  const Sample* sample = nullptr;
};

// The stacks of one side.
struct Side {
  const Profile* profile = nullptr;
  std::map<RowKey, Sum> rows;
  double total = 0;
  double total_variance = 0;
  double period = 0;  // of one sample; an unseen stack may have had one
};

// Process and thread name if the answer has no groups.
std::vector<BaseLabel> LabelsOf(const Profile& profile, const Sample& sample) {
  const std::vector<std::string>& texts = profile.groups[sample.group];
  if (texts.empty()) {
    const Thread& thread = profile.threads[sample.threads.front()];
    return {{"process", CleanName(thread.process)}, {"thread", CleanName(thread.group)}};
  }
  std::vector<BaseLabel> labels;
  for (size_t i = 0; i < texts.size(); i++) {
    const int key = profile.message->group_by(static_cast<int>(i));
    labels.push_back({std::string(GroupKeyName(key)), CleanName(texts[i])});
  }
  return labels;
}

std::string GroupOf(const Profile& profile, const Sample& sample) {
  return absl::StrJoin(LabelsOf(profile, sample), "/",
                       [](std::string* out, const BaseLabel& label) { out->append(label.text); });
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
  side.profile = &profile;
  side.period = static_cast<double>(std::max<int64_t>(profile.type.period(), 0)) * scale;
  std::vector<std::string> names;
  names.reserve(profile.frames.size());
  for (const Frame& frame : profile.frames) names.push_back(CleanName(frame.function));
  for (const Sample* sample : view.shown) {
    std::vector<std::string> frames;
    const bool sampled = sample->stack != kUnsampled;
    if (sampled) {
      for (const uint32_t frame : profile.stacks[sample->stack].frames) {
        frames.push_back(names[frame]);
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
    if (sum.sample == nullptr) sum.sample = sample;
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

void MarkChanges(Diff* diff) {
  std::vector<double> p;
  p.reserve(diff->rows.size());
  for (const DiffRow& row : diff->rows) p.push_back(row.test.p);
  const std::vector<bool> significant = Significant(p);
  for (size_t i = 0; i < p.size(); i++) {
    DiffRow& row = diff->rows[i];
    row.changed = significant[i] && std::abs(row.Change()) >= diff->least;
  }
}

}  // namespace

DiffTest TestDifference(const DiffValue& a, const DiffValue& b) {
  const double change = b.value - a.value;
  const double error = std::hypot(a.error, b.error);
  // Without errors both values are exact.
  if (error == 0) return {.z = 0, .p = change != 0 ? 0.0 : 1.0};
  const double z = change / error;
  return {.z = z, .p = std::erfc(std::abs(z) / std::sqrt(2.0))};
}

std::vector<bool> Significant(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<bool> significant(p.size());
  for (size_t k = 0; k < order.size(); k++) {
    if (p[order[k]] > kDiffAlpha / static_cast<double>(order.size() - k)) break;
    significant[order[k]] = true;
  }
  return significant;
}

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
    row.profile = (sums.first != nullptr ? before : after).profile;
    row.sample = (sums.first != nullptr ? sums.first : sums.second)->sample;
    row.labels = LabelsOf(*row.profile, *row.sample);
    if (!row.frames.empty()) {
      row.shown = TellingFrames(*row.profile, row.profile->stacks[row.sample->stack]);
    }
    row.a = ValueOf(sums.first, before, normalized);
    row.b = ValueOf(sums.second, after, normalized);
    row.test = TestDifference(row.a, row.b);
  }
  diff.least = kLeastChange * (normalized ? 1 : std::max(before.total, after.total));
  MarkChanges(&diff);
  std::stable_sort(diff.rows.begin(), diff.rows.end(), [](const DiffRow& x, const DiffRow& y) {
    if (x.changed != y.changed) return x.changed;
    return std::abs(x.Change()) > std::abs(y.Change());
  });
  return diff;
}

}  // namespace profctl
