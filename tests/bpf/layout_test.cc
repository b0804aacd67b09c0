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

}  // namespace
}  // namespace profd
