// Which programs profd can do without.
#include <bpf/libbpf.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "bpf/abi.h"
// It uses its types.
#include "bpf/profd.skel.h"
#include "daemon/kernel/load.h"

namespace profd {
namespace {

// If the kernel rejects one of these, nothing works; of the ticks one suffices.
const std::set<std::string_view> kRequired = {"drain",   "find_modules", "on_exec",
                                              "on_exit", "on_free",      "on_newtask",
                                              "tick",    "tick_list",    "mapping_processes"};

struct Prefix {
  std::string_view name;
  KernelLayer layer;
};
// What the names of optional programs begin with. The first one that fits counts.
constexpr Prefix kOptional[] = {
    {"drain_heap", KernelLayer::kHeap},   {"look", KernelLayer::kLook},
    {"on_cpu_", KernelLayer::kCpu},       {"on_disk_", KernelLayer::kDisk},
    {"on_ext4_sync", KernelLayer::kSync}, {"on_fault", KernelLayer::kFault},
    {"on_fdatasync", KernelLayer::kSync}, {"on_fsync", KernelLayer::kSync},
    {"on_heap_", KernelLayer::kHeap},     {"on_live_", KernelLayer::kLive},
    {"on_malloc", KernelLayer::kMalloc},  {"on_map_", KernelLayer::kMap},
    {"on_msync", KernelLayer::kSync},     {"on_switch_stack", KernelLayer::kSwitchStack},
    {"on_switch", KernelLayer::kSwitch},  {"on_sync", KernelLayer::kSync},
    {"on_told_", KernelLayer::kTold},     {"on_waking", KernelLayer::kWaker}};

std::optional<KernelLayer> ExpectedLayer(std::string_view program) {
  for (const Prefix& prefix : kOptional) {
    if (program.starts_with(prefix.name)) return prefix.layer;
  }
  return std::nullopt;
}

// A program in no layer costs more than its source where the kernel rejects it.
TEST(LayersTest, EachProgramIsRequiredOrOfItsLayer) {
  const UniqueSkeleton skeleton(profd_bpf__open());
  ASSERT_TRUE(skeleton);
  std::set<std::string> required;
  std::set<KernelLayer> layers;
  bpf_program* program = nullptr;
  while ((program = bpf_object__next_program(skeleton->obj, program)) != nullptr) {
    const std::string name = bpf_program__name(program);
    const std::optional<KernelLayer> layer = LayerOf(name);
    if (layer) layers.insert(*layer);
    if (kRequired.contains(name)) {
      EXPECT_FALSE(layer) << name << " is required";
      required.insert(name);
      continue;
    }
    ASSERT_TRUE(layer) << name << " is in no layer (LayerPrograms) and not required";
    EXPECT_EQ(layer, ExpectedLayer(name)) << name;
  }
  EXPECT_EQ(required.size(), kRequired.size()) << "one is gone";
  EXPECT_EQ(layers.size(), kKernelLayers) << "a layer has no program";
  EXPECT_FALSE(LayerOf("no_such_program"));
}

}  // namespace
}  // namespace profd
