// Stacks merged from their roots: the shape of a flame graph.
#ifndef PROFD_CLIENT_ANALYSIS_FLAME_TREE_H_
#define PROFD_CLIENT_ANALYSIS_FLAME_TREE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/answer/reason.h"
#include "client/answer/view.h"

namespace profctl {

enum class NodeKind { kBase, kKernel, kLibc, kRuntime, kApplication, kSynthetic, kReason };

struct FlameNode {
  std::string name;    // clean
  std::string module;  // clean, may be empty
  NodeKind kind = NodeKind::kBase;
  // With states apart: that of all samples of the node. UNSPECIFIED for base nodes.
  Reason state = profd::v1::REASON_UNSPECIFIED;
  int64_t value = 0;               // in the unit of the profile
  double variance = 0;             // of value
  uint32_t threads = 0;            // distinct threads; only counted for base nodes
  std::vector<uint32_t> children;  // indexes, by name
  // Of code: how its name was found, and where a name is a place only, the first few
  // offsets of instructions in the module's file.
  profd::v1::NameSource found_by = profd::v1::NAME_SOURCE_UNSPECIFIED;
  std::vector<uint64_t> offsets;
  bool more_offsets = false;
  // Of code: the first few places in source files, and whether it was inlined wherever it is
  // merged.
  std::vector<std::string> sources;
  bool more_sources = false;
  // Of code: the first few names of other functions that have the same code, and of copies and
  // parts
  // (".cold").
  std::vector<std::string> other_names;
  bool more_names = false;
  std::vector<std::string> suffixes;
  bool inlined = false;
};

struct FlameTree {
  // nodes[0] is the root, "all"; a node's value is the sum of its children's and of the samples
  // that end in it.
  std::vector<FlameNode> nodes;
};

// Levels from the root: the labels of the group (that of the process where there are several),
// frames from the outermost, and in a profile of waits the reason. `reversed`: the same levels from
// the other end, so that stacks are merged from the innermost frame. `states`: frames of samples in
// different states (running, each reason to wait) are not merged; running comes first.
FlameTree BuildFlameTree(const View& view, bool reversed = false, bool states = false);

// A label of a group: "process" and the name of one.
struct BaseLabel {
  std::string key, text;  // clean

  bool operator==(const BaseLabel&) const = default;
};

// The stack and the reason of one sample. Nothing is owned.
struct FlamePath {
  const Profile* profile = nullptr;
  const Sample* sample = nullptr;
  std::span<const BaseLabel> base;  // instead of the labels of the sample's group
  int64_t value = 0;
};

struct PathTree {
  FlameTree tree;
  std::vector<std::vector<uint32_t>> nodes;  // of each path, from the root on
};

// Merges samples of several profiles. No threads are counted, and no variances.
PathTree BuildPathTree(std::span<const FlamePath> paths, bool reversed);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANALYSIS_FLAME_TREE_H_
