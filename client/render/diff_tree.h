// The shape of a differential flame graph: what each frame had in A and has in B.
#ifndef PROFD_CLIENT_RENDER_DIFF_TREE_H_
#define PROFD_CLIENT_RENDER_DIFF_TREE_H_

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "client/analysis/diff.h"
#include "client/analysis/flame_tree.h"

namespace profctl {

// What the width of a frame stands for.
enum class WidthOf {
  kA,
  kB,
  kMax,  // of each stack the larger one
};

// "a", "b", "max".
std::optional<WidthOf> ParseWidthOf(std::string_view name);

struct NodeChange {
  DiffValue a, b;
  bool changed = false;

  double Change() const { return b.value - a.value; }
};

struct DiffTree {
  FlameTree tree;                   // values are widths
  std::vector<NodeChange> changes;  // by node
  // Stacks without a width, which are only on the other side, and what they have there.
  size_t hidden = 0, hidden_changed = 0;
  DiffValue hidden_sum;
};

// A frame of one stack changed if the stack did. A frame of several is tested in the same way, by
// their sums; these tests are corrected for their own number. Widths are rates (or levels), also of
// a normalized diff; those of "max" are then on the scale of B.
DiffTree BuildDiffTree(const Diff& diff, WidthOf width, bool reversed);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_DIFF_TREE_H_
