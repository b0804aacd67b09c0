// Two objects, one skeleton: the daemon uses the addresses of one object's globals in the other.
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "bpf/abi.h"
// They use its types.
#include "bpf/profd.skel.h"
#include "bpf/profd_plain.skel.h"
#include "daemon/kernel/load.h"

namespace profd {
namespace {

// Where each global is: by section and name, its offset and size in bytes.
using Layout = std::map<std::pair<std::string, std::string>, std::pair<uint32_t, uint32_t>>;

Layout LayoutOf(const void* bytes, size_t size) {
  const std::unique_ptr<bpf_object, void (*)(bpf_object*)> object(
      bpf_object__open_mem(bytes, size, nullptr), bpf_object__close);
  Layout layout;
  if (!object) return layout;
  const btf* types = bpf_object__btf(object.get());
  for (uint32_t id = 1; id < btf__type_cnt(types); ++id) {
    const btf_type* section = btf__type_by_id(types, id);
    const std::string name = btf__name_by_offset(types, section->name_off);
    // Maps are found by their names.
    if (!btf_is_datasec(section) || name == ".maps") continue;
    const btf_var_secinfo* variables = btf_var_secinfos(section);
    for (uint16_t i = 0; i < btf_vlen(section); ++i) {
      const btf_type* variable = btf__type_by_id(types, variables[i].type);
      layout[{name, btf__name_by_offset(types, variable->name_off)}] = {variables[i].offset,
                                                                        variables[i].size};
    }
  }
  return layout;
}

TEST(LayoutTest, BothObjectsHaveTheirGlobalsInTheSamePlaces) {
  size_t size = 0, plain_size = 0;
  const void* bytes = profd_bpf__elf_bytes(&size);
  const void* plain_bytes = profd_plain_bpf__elf_bytes(&plain_size);
  Layout layout = LayoutOf(bytes, size);
  // Kernel functions are what only one of them names.
  std::erase_if(layout, [](const auto& entry) { return entry.first.first == ".ksyms"; });
  EXPECT_GT(layout.size(), 20U);
  EXPECT_EQ(layout, LayoutOf(plain_bytes, plain_size));
}

// What the maps take as soon as they are loaded, bytes: values, and a little for each entry of a
// hash.
uint64_t BytesOnceLoaded(uint32_t cpus) {
  const UniqueSkeleton skeleton(profd_bpf__open());
  if (!skeleton) return 0;
  SizeMaps({}, cpus, skeleton.get());
  constexpr uint64_t kHashEntryBytes = 64;
  const auto aligned = [](uint64_t bytes) { return (bytes + 7) / 8 * 8; };
  uint64_t sum = 0;
  bpf_map* map = nullptr;
  while ((map = bpf_object__next_map(skeleton->obj, map)) != nullptr) {
    const uint64_t entries = bpf_map__max_entries(map);
    const uint64_t value = aligned(bpf_map__value_size(map));
    const bool grows = (bpf_map__map_flags(map) & BPF_F_NO_PREALLOC) != 0;
    switch (bpf_map__type(map)) {
      case BPF_MAP_TYPE_ARRAY:
        sum += entries * value;
        break;
      case BPF_MAP_TYPE_PERCPU_ARRAY:
        sum += entries * value * cpus;
        break;
      case BPF_MAP_TYPE_RINGBUF:
        sum += entries;
        break;
      default:
        sum += grows ? entries * 8
                     : entries * (aligned(bpf_map__key_size(map)) + value + kHashEntryBytes);
    }
  }
  return sum;
}

TEST(LayoutTest, MapsFitOnALargeHost) {
  constexpr uint64_t kMiB = 1 << 20;
  const uint64_t small = BytesOnceLoaded(2), large = BytesOnceLoaded(128);
  EXPECT_GT(small, 4 * kMiB);
  EXPECT_GT(large, small + 8 * kMiB) << "each CPU has memory for walks";
  // The rest of 64 MiB is for unwind rules and threads.
  EXPECT_LT(large, 32 * kMiB);
  RecordProperty("bytes_on_2_cpus", std::to_string(small));
  RecordProperty("bytes_on_128_cpus", std::to_string(large));
}

}  // namespace
}  // namespace profd
