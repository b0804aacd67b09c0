#include "daemon/kernel/refused_program.h"

#include <gtest/gtest.h>

namespace profd {
namespace {

TEST(RefusedProgramTest, IsNamedByLibbpf) {
  EXPECT_EQ(
      RefusedProgram("libbpf: prog 'on_map_call': BPF program load failed: Permission denied\n"),
      "on_map_call");
  EXPECT_EQ(RefusedProgram("libbpf: prog 'on_switch': -- BEGIN PROG LOAD LOG --\n0: (b7) r1 = 0\n"),
            "");
  EXPECT_EQ(RefusedProgram("libbpf: failed to load object 'profd_bpf'\n"), "");
  EXPECT_EQ(RefusedProgram("prog '"), "");
  EXPECT_EQ(RefusedProgram(""), "");
}

}  // namespace
}  // namespace profd
