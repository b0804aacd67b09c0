// Comparison with files under tests/golden. PROFD_UPDATE_GOLDEN=1 writes them instead.
#ifndef PROFD_TESTS_UNIT_GOLDEN_H_
#define PROFD_TESTS_UNIT_GOLDEN_H_

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/places.h"

namespace profctl {

inline void ExpectGolden(const std::string& actual, const std::string& name) {
  const std::string path = profd::test::InSource("tests/golden/" + name);
  const char* update = std::getenv("PROFD_UPDATE_GOLDEN");
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream file(path, std::ios::binary);
    file << actual;
    ASSERT_TRUE(file.good()) << "cannot write " << path;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file.good()) << "cannot read " << path << "; PROFD_UPDATE_GOLDEN=1 makes it";
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(actual, expected.str()) << "differs from " << path;
}

}  // namespace profctl

#endif  // PROFD_TESTS_UNIT_GOLDEN_H_
