#include "client/render/diff_tree.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

namespace profctl {
namespace {

// A sum of this many values of the largest size still fits into 64 bits.
constexpr double kMostTotal = 4e18;

// The rows whose path passes a node.
struct Passing {
  size_t rows = 0;
  size_t first = 0;  // index of one of them
  double variance_a = 0, variance_b = 0;
};

// The labels of a row that distinguish it: without a process that all rows share.
bool ShareProcess(const Diff& diff) {
  return std::all_of(diff.rows.begin(), diff.rows.end(), [&](const DiffRow& row) {
    return !row.labels.empty() && row.labels.front().key == "process" &&
           row.labels.front() == diff.rows.front().labels.front();
  });
}

class Widths {
 public:
  Widths(const Diff& diff, WidthOf width) : width_(width) {
    if (diff.normalized) {
      scale_b_ = diff.total_b.value;
      scale_a_ = width == WidthOf::kA ? diff.total_a.value : scale_b_;
    }
    double total = 0;
    for (const DiffRow& row : diff.rows) total += Raw(row);
    if (total > kMostTotal) fit_ = kMostTotal / total;
  }

  int64_t Of(const DiffRow& row) const { return std::llround(Raw(row) * fit_); }

 private:
  double Raw(const DiffRow& row) const {
    switch (width_) {
      case WidthOf::kA:
        return row.a.value * scale_a_;
      case WidthOf::kB:
        return row.b.value * scale_b_;
      case WidthOf::kMax:
        return std::max(row.a.value * scale_a_, row.b.value * scale_b_);
    }
    return 0;
  }

  const WidthOf width_;
  double scale_a_ = 1, scale_b_ = 1;
  double fit_ = 1;
};

// Children come after their parents.
void MarkSums(const Diff& diff, std::span<const Passing> passing, DiffTree* tree) {
  const std::vector<FlameNode>& nodes = tree->tree.nodes;
  // The child through which the same rows pass, which is then the same hypothesis; else 0.
  const auto same = [&](size_t node) {
    for (const uint32_t child : nodes[node].children) {
      if (passing[child].rows == passing[node].rows) return child;
    }
    return uint32_t{0};
  };
  std::vector<size_t> sums;
  std::vector<double> p;
  for (size_t i = 0; i < nodes.size(); i++) {
    if (passing[i].rows < 2 || same(i) != 0) continue;
    sums.push_back(i);
    p.push_back(TestDifference(tree->changes[i].a, tree->changes[i].b).p);
  }
  const std::vector<bool> significant = Significant(p);
  for (size_t k = 0; k < sums.size(); k++) {
    NodeChange& change = tree->changes[sums[k]];
    change.changed = significant[k] && std::abs(change.Change()) >= diff.least;
  }
  for (size_t i = nodes.size(); i-- > 0;) {
    if (passing[i].rows == 1) {
      tree->changes[i].changed = diff.rows[passing[i].first].changed;
    } else if (const uint32_t child = same(i); child != 0) {
      tree->changes[i].changed = tree->changes[child].changed;
    }
  }
}

}  // namespace

std::optional<WidthOf> ParseWidthOf(std::string_view name) {
  if (name == "a") return WidthOf::kA;
  if (name == "b") return WidthOf::kB;
  if (name == "max") return WidthOf::kMax;
  return std::nullopt;
}

DiffTree BuildDiffTree(const Diff& diff, WidthOf width, bool reversed) {
  const size_t skipped = ShareProcess(diff) ? 1 : 0;
  const Widths widths(diff, width);
  DiffTree built;
  std::vector<FlamePath> paths;
  double hidden_variance = 0;
  for (const DiffRow& row : diff.rows) {
    paths.push_back({.profile = row.profile,
                     .sample = row.sample,
                     .base = std::span(row.labels).subspan(std::min(skipped, row.labels.size())),
                     .value = widths.Of(row)});
    if (paths.back().value > 0) continue;
    const DiffValue& other = width == WidthOf::kA ? row.b : row.a;
    built.hidden++;
    if (row.changed) built.hidden_changed++;
    built.hidden_sum.value += other.value;
    hidden_variance += other.error * other.error;
  }
  built.hidden_sum.error = std::sqrt(hidden_variance);

  PathTree merged = BuildPathTree(paths, reversed);
  built.tree = std::move(merged.tree);
  built.changes.resize(built.tree.nodes.size());
  std::vector<Passing> passing(built.tree.nodes.size());
  for (size_t i = 0; i < diff.rows.size(); i++) {
    const DiffRow& row = diff.rows[i];
    for (const uint32_t node : merged.nodes[i]) {
      built.changes[node].a.value += row.a.value;
      built.changes[node].b.value += row.b.value;
      passing[node].variance_a += row.a.error * row.a.error;
      passing[node].variance_b += row.b.error * row.b.error;
      passing[node].first = i;
      passing[node].rows++;
    }
  }
  for (size_t i = 0; i < passing.size(); i++) {
    built.changes[i].a.error = std::sqrt(passing[i].variance_a);
    built.changes[i].b.error = std::sqrt(passing[i].variance_b);
  }
  MarkSums(diff, passing, &built);
  return built;
}

}  // namespace profctl
