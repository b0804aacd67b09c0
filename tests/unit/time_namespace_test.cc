#include "daemon/config/time_namespace.h"

#include <gtest/gtest.h>

#include <fstream>

namespace profd {
namespace {

absl::StatusCode Check(const std::string& text) {
  const std::string path = testing::TempDir() + "/timens_offsets";
  std::ofstream(path) << text;
  return CheckTimeNamespace(path).code();
}

TEST(TimeNamespaceTest, AcceptsAnUnshiftedClock) {
  EXPECT_EQ(Check("monotonic           0         0\nboottime            0         0\n"),
            absl::StatusCode::kOk);
  // Only boot time is shifted: no event is timed by it.
  EXPECT_EQ(Check("monotonic           0         0\nboottime        86400         0\n"),
            absl::StatusCode::kOk);
}

TEST(TimeNamespaceTest, RefusesAShiftedClock) {
  EXPECT_EQ(Check("monotonic        1000         0\nboottime            0         0\n"),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Check("monotonic          -1 500000000\n"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Check("monotonic           0         1\n"), absl::StatusCode::kFailedPrecondition);
}

TEST(TimeNamespaceTest, AcceptsAKernelWithoutTimeNamespaces) {
  EXPECT_TRUE(CheckTimeNamespace("/proc/self/no_such_file").ok());
}

}  // namespace
}  // namespace profd
