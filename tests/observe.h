// What a test saw happen, for tests/suite/check_docs.py: a line of JSON for each, appended to the
// file that PROFD_OBSERVATIONS names; nothing where it is not set.
#ifndef PROFD_TESTS_OBSERVE_H_
#define PROFD_TESTS_OBSERVE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace profd {

// `what` is "loss" or "ending", `name` one of docs/losses.md, `count` what its counter moved by.
inline void Observe(const std::string& what, const std::string& name, uint64_t count) {
  const char* path = getenv("PROFD_OBSERVATIONS");
  if (path == nullptr || testing::Test::HasFailure()) return;
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string line = "{\"" + what + "\": \"" + name + "\", \"test\": \"" +
                           info->test_suite_name() + "." + info->name() +
                           "\", \"count\": " + std::to_string(count) + "}\n";
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  ASSERT_GE(file, 0) << path;
  // In one piece, as other tests append as well.
  EXPECT_EQ(write(file, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  close(file);
}

}  // namespace profd

#endif  // PROFD_TESTS_OBSERVE_H_
