#include "daemon/profile/identity.h"

#include <gtest/gtest.h>

#include <string>

namespace profd {
namespace {

TEST(IdentityTest, ContainerIdsOfTheUsualPaths) {
  const std::string id(64, 'a');
  EXPECT_EQ(ContainerIdOf("/docker/" + id), id);
  EXPECT_EQ(ContainerIdOf("/system.slice/docker-" + id + ".scope"), id);
  EXPECT_EQ(ContainerIdOf("/machine.slice/libpod-" + id + ".scope/container"), id);
  EXPECT_EQ(ContainerIdOf("/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope"),
            id);
  const std::string inner(64, 'b');
  EXPECT_EQ(ContainerIdOf("/docker/" + id + "/docker/" + inner), inner);
}

TEST(IdentityTest, OtherPathsHaveNone) {
  EXPECT_EQ(ContainerIdOf(""), "");
  EXPECT_EQ(ContainerIdOf("/user.slice/user-1000.slice/session-2.scope"), "");
  EXPECT_EQ(ContainerIdOf("/x/" + std::string(63, 'a')), "");
  EXPECT_EQ(ContainerIdOf("/x/" + std::string(65, 'a')), "");
  EXPECT_EQ(ContainerIdOf("/x/" + std::string(64, 'A')), "");
}

TEST(IdentityTest, StartsAreInTheStepsOfProc) {
  EXPECT_EQ(ProcessIdOf({.pid = 7, .process_start_ns = 1'239'999'999}),
            (ProcessId{7, 1'230'000'000}));
}

}  // namespace
}  // namespace profd
