#include "client/analysis/flame_tree.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "client/answer/group_by.h"
#include "client/answer/name_source.h"
#include "client/answer/source_lines.h"
#include "client/text/text.h"

namespace profctl {
namespace {

constexpr size_t kMostOffsets = 4;
constexpr size_t kMostSources = 4;
constexpr size_t kMostNames = 7;
constexpr size_t kMostSuffixes = 4;

NodeKind KindOf(profd::v1::FrameKind kind) {
  switch (kind) {
    case profd::v1::FRAME_KIND_KERNEL:
      return NodeKind::kKernel;
    case profd::v1::FRAME_KIND_LIBC:
      return NodeKind::kLibc;
    case profd::v1::FRAME_KIND_RUNTIME:
      return NodeKind::kRuntime;
    case profd::v1::FRAME_KIND_SYNTHETIC:
      return NodeKind::kSynthetic;
    default:
      return NodeKind::kApplication;
  }
}

class Builder {
 public:
  Builder(bool reversed, bool states) : reversed_(reversed), states_(states) {
    nodes_.emplace_back().name = "all";
    unsampled_ = Intern("[unsampled]", NodeKind::kSynthetic, "");
  }

  // The profile of the samples that follow.
  void Use(const Profile& profile) {
    if (profile_ == &profile) return;
    profile_ = &profile;
    const auto [known, added] = sources_.try_emplace(&profile);
    source_ = &known->second;
    if (!added) return;
    source_->first_label = HasOneProcess(profile) ? 1 : 0;
    source_->frame_labels.reserve(profile.frames.size());
    for (const Frame& frame : profile.frames) {
      const uint32_t label =
          Intern(CleanName(frame.function), KindOf(frame.kind), CleanName(frame.module));
      labels_[label].found_by = frame.found_by;
      source_->frame_labels.push_back(label);
    }
  }

  // Returns the nodes from the root on, until the next call.
  std::span<const uint32_t> Add(const Sample& sample) {
    path_ = BaseLabels(sample.group);
    Walk(sample);
    for (const uint32_t node : walked_) {
      Charge(node, sample);
      if (nodes_[node].kind != NodeKind::kBase) continue;
      for (const uint32_t thread : sample.threads) seen_.emplace(node, thread);
    }
    return walked_;
  }

  std::span<const uint32_t> Add(const FlamePath& path) {
    Use(*path.profile);
    path_.clear();
    for (const BaseLabel& label : path.base) {
      path_.push_back(Intern(label.text, NodeKind::kBase, label.key));
    }
    Walk(*path.sample);
    for (const uint32_t node : walked_) nodes_[node].value += path.value;
    return walked_;
  }

  FlameTree Finish() {
    for (const auto& [node, thread] : seen_) ++nodes_[node].threads;
    for (FlameNode& node : nodes_) {
      std::sort(node.children.begin(), node.children.end(), [&](uint32_t a, uint32_t b) {
        const auto key = [](const FlameNode& n) {
          // Running, then the run queue, then waits.
          const bool waits = n.state != profd::v1::REASON_ON_CPU;
          return std::tuple(waits, n.state, std::string_view(n.name), n.kind,
                            std::string_view(n.module));
        };
        return key(nodes_[a]) < key(nodes_[b]);
      });
    }
    return {std::move(nodes_)};
  }

 private:
  struct Label {
    std::string name;
    std::string module;
    NodeKind kind;
    profd::v1::NameSource found_by = profd::v1::NAME_SOURCE_UNSPECIFIED;
  };

  // What samples of one profile refer to.
  struct Source {
    size_t first_label = 0;              // that is shown
    std::vector<uint32_t> frame_labels;  // by frame
  };

  uint32_t Intern(const std::string& name, NodeKind kind, const std::string& module) {
    const auto [it, added] =
        label_index_.emplace(std::make_tuple(name, kind, module), labels_.size());
    if (added) labels_.push_back({.name = name, .module = module, .kind = kind});
    return it->second;
  }

  // Continues path_, which ends at the group, and fills walked_ with its nodes.
  void Walk(const Sample& sample) {
    AppendFrames(sample);
    if (reversed_) {
      std::reverse(path_.begin(), path_.end());
      std::reverse(frames_.begin(), frames_.end());
    }
    uint32_t node = 0;
    walked_ = {node};
    for (size_t i = 0; i < path_.size(); ++i) {
      const uint32_t label = path_[i];
      const bool base = labels_[label].kind == NodeKind::kBase;
      node = Child(node, label, states_ && !base ? sample.reason : profd::v1::REASON_UNSPECIFIED);
      if (frames_[i] != nullptr) AddPlace(*frames_[i], nodes_[node]);
      walked_.push_back(node);
    }
  }

  // Stack, reason and what was waited for.
  void AppendFrames(const Sample& sample) {
    frames_.assign(path_.size(), nullptr);
    if (sample.stack == kUnsampled) {
      path_.push_back(unsampled_);
    } else {
      const std::vector<uint32_t>& frames = profile_->stacks[sample.stack].frames;
      for (auto it = frames.rbegin(); it != frames.rend(); ++it) {
        path_.push_back(source_->frame_labels[*it]);
        frames_.push_back(&profile_->frames[*it]);
      }
    }
    frames_.resize(path_.size());
    if (!profile_->kind->EndsInReason()) return;
    const std::string reason =
        absl::StrCat("[", std::string(DescribeReason(sample.reason).name), "]");
    path_.push_back(Intern(reason, NodeKind::kReason, ""));
    frames_.push_back(nullptr);
    if (NamesObject(sample)) {
      path_.push_back(Intern(CleanName(sample.object), NodeKind::kSynthetic, ""));
      frames_.push_back(nullptr);
    }
    if (sample.lock.empty()) return;
    path_.push_back(Intern(DescribeLock(sample), NodeKind::kSynthetic, ""));
    frames_.push_back(nullptr);
  }

  std::vector<uint32_t> BaseLabels(uint32_t group) {
    const auto& keys = profile_->message->group_by();
    const std::vector<std::string>& labels = profile_->groups[group];
    std::vector<uint32_t> base;
    for (size_t i = source_->first_label; i < labels.size(); i++) {
      base.push_back(Intern(CleanName(labels[i]), NodeKind::kBase,
                            std::string(GroupKeyName(keys.Get(static_cast<int>(i))))));
    }
    return base;
  }

  uint32_t Child(uint32_t parent, uint32_t label, Reason state) {
    const auto [it, added] = child_index_.emplace(std::make_tuple(parent, label, int{state}),
                                                  static_cast<uint32_t>(nodes_.size()));
    if (added) {
      FlameNode& node = nodes_.emplace_back();
      node.name = labels_[label].name;
      node.module = labels_[label].module;
      node.kind = labels_[label].kind;
      node.state = state;
      node.found_by = labels_[label].found_by;
      node.inlined = true;  // until a frame is not
      nodes_[parent].children.push_back(it->second);
    }
    return it->second;
  }

  static void AddPlace(const Frame& frame, FlameNode& node) {
    AddOffset(frame, node);
    AddNames(frame, node);
    node.inlined = node.inlined && frame.inlined;
    const std::string source = CleanName(SourcePlace(frame));
    if (frame.file.empty() || std::count(node.sources.begin(), node.sources.end(), source) > 0) {
      return;
    }
    if (node.sources.size() < kMostSources) {
      node.sources.push_back(source);
    } else {
      node.more_sources = true;
    }
  }

  static void AddNames(const Frame& frame, FlameNode& node) {
    node.more_names = node.more_names || frame.more_names > 0;
    for (const std::string& other : frame.other_names) {
      std::string name = CleanName(other);
      if (std::count(node.other_names.begin(), node.other_names.end(), name) > 0) continue;
      if (node.other_names.size() < kMostNames) {
        node.other_names.push_back(std::move(name));
      } else {
        node.more_names = true;
      }
    }
    if (frame.suffix.empty() || node.suffixes.size() == kMostSuffixes) return;
    std::string suffix = CleanName(frame.suffix);
    if (std::count(node.suffixes.begin(), node.suffixes.end(), suffix) == 0) {
      node.suffixes.push_back(std::move(suffix));
    }
  }

  static void AddOffset(const Frame& frame, FlameNode& node) {
    if (!IsPlaceOnly(frame.found_by)) return;
    if (std::count(node.offsets.begin(), node.offsets.end(), frame.address) > 0) return;
    if (node.offsets.size() < kMostOffsets) {
      node.offsets.push_back(frame.address);
    } else {
      node.more_offsets = true;
    }
  }

  void Charge(uint32_t node, const Sample& sample) {
    const auto error = static_cast<double>(sample.error);
    nodes_[node].value += sample.value;
    nodes_[node].variance += error * error;
  }

  const Profile* profile_ = nullptr;
  const bool reversed_;
  const bool states_;
  std::vector<uint32_t> path_;
  std::vector<const Frame*> frames_;  // by place in path_; null for what is no code
  std::vector<uint32_t> walked_;      // nodes of path_, after the root
  uint32_t unsampled_ = 0;
  std::vector<FlameNode> nodes_;
  std::vector<Label> labels_;
  Source* source_ = nullptr;  // of profile_
  std::map<const Profile*, Source> sources_;
  absl::flat_hash_map<std::tuple<std::string, NodeKind, std::string>, uint32_t> label_index_;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, int>, uint32_t> child_index_;
  absl::flat_hash_set<std::pair<uint32_t, uint32_t>> seen_;  // base node, thread
};

}  // namespace

FlameTree BuildFlameTree(const View& view, bool reversed, bool states) {
  Builder builder(reversed, states);
  builder.Use(*view.profile);
  for (const Sample* sample : view.shown) builder.Add(*sample);
  return builder.Finish();
}

PathTree BuildPathTree(std::span<const FlamePath> paths, bool reversed) {
  Builder builder(reversed, false);
  PathTree built;
  built.nodes.reserve(paths.size());
  for (const FlamePath& path : paths) {
    const std::span<const uint32_t> nodes = builder.Add(path);
    built.nodes.emplace_back(nodes.begin(), nodes.end());
  }
  built.tree = builder.Finish();
  return built;
}

}  // namespace profctl
