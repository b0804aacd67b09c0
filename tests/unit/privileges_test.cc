#include "daemon/config/privileges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "daemon/base/capability.h"
#include "tests/support/machine.h"
#include "tests/support/places.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

constexpr cap_value_t kAlways[] = {
    CAP_BPF,    CAP_PERFMON,         CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE,
    CAP_SYSLOG, CAP_DAC_READ_SEARCH, CAP_SYS_NICE};

bool Is(cap_value_t capability, cap_flag_t set) {
  return HasCapability(UniqueCaps(cap_get_proc()), capability, set);
}

class PrivilegesTest : public testing::Test {
 protected:
  void SetUp() override { REQUIRE_FACT("capabilities"); }

  // On a thread of its own, as what it drops is gone; without these at the start.
  static void On(std::initializer_list<cap_value_t> without, const std::function<void()>& body) {
    std::thread([&] {
      const UniqueCaps caps(cap_get_proc());
      for (const cap_value_t capability : without) {
        for (const cap_flag_t set : {CAP_EFFECTIVE, CAP_PERMITTED}) {
          ASSERT_EQ(cap_set_flag(caps.get(), set, 1, &capability, CAP_CLEAR), 0);
        }
      }
      ASSERT_EQ(cap_set_proc(caps.get()), 0);
      body();
    }).join();
  }
};

TEST_F(PrivilegesTest, KeepsWhatFeaturesNeedAndNothingElse) {
  On({}, [] {
    EXPECT_THAT(MissingFeatures(false), IsEmpty());
    ASSERT_TRUE(DropPrivileges(false).ok());
    for (cap_value_t capability = 0; capability < cap_max_bits(); ++capability) {
      const bool needed = std::ranges::count(kAlways, capability) > 0;
      EXPECT_EQ(Is(capability, CAP_EFFECTIVE), needed) << capability;
      EXPECT_EQ(Is(capability, CAP_PERMITTED), needed) << capability;
    }
    EXPECT_THAT(MissingFeatures(false), IsEmpty());
  });
}

// The unit of the service gives it these and no others.
TEST(ServiceUnitTest, HasTheCapabilitiesThatFeaturesNeed) {
  std::ifstream unit(test::InSource("deploy/systemd/profd.service.in"));
  constexpr std::string_view kKey = "CapabilityBoundingSet=";
  std::string line;
  while (std::getline(unit, line) && !line.starts_with(kKey)) {
  }
  ASSERT_TRUE(line.starts_with(kKey));
  std::vector<std::string> names;
  for (const cap_value_t capability : kAlways) {
    char* name = cap_to_name(capability);
    names.push_back(absl::AsciiStrToUpper(name));
    cap_free(name);
  }
  const std::vector<std::string> given = absl::StrSplit(line.substr(kKey.size()), ' ');
  EXPECT_THAT(given, UnorderedElementsAreArray(names));
}

TEST_F(PrivilegesTest, AdminForProbesIsKeptInReserve) {
  On({}, [] {
    EXPECT_THAT(MissingFeatures(true), IsEmpty());
    ASSERT_TRUE(DropPrivileges(true).ok());
    EXPECT_TRUE(Is(CAP_SYS_ADMIN, CAP_PERMITTED));
    EXPECT_FALSE(Is(CAP_SYS_ADMIN, CAP_EFFECTIVE));
    EXPECT_TRUE(Is(CAP_PERFMON, CAP_EFFECTIVE));
    EXPECT_FALSE(Is(CAP_SYS_CHROOT, CAP_PERMITTED));
    EXPECT_THAT(MissingFeatures(true), IsEmpty());
  });
}

TEST_F(PrivilegesTest, RaisedOnOneThreadForAWhile) {
  On({}, [] {
    ASSERT_TRUE(DropPrivileges(true).ok());
    {
      const RaisedCapability raised(CAP_SYS_ADMIN);
      EXPECT_TRUE(Is(CAP_SYS_ADMIN, CAP_EFFECTIVE));
      {
        const RaisedCapability again(CAP_SYS_ADMIN);
      }
      EXPECT_TRUE(Is(CAP_SYS_ADMIN, CAP_EFFECTIVE));
    }
    EXPECT_FALSE(Is(CAP_SYS_ADMIN, CAP_EFFECTIVE));
    EXPECT_TRUE(Is(CAP_SYS_ADMIN, CAP_PERMITTED));
    EXPECT_TRUE(Is(CAP_PERFMON, CAP_EFFECTIVE));
  });
  On({}, [] {
    ASSERT_TRUE(DropPrivileges(false).ok());
    const RaisedCapability raised(CAP_SYS_ADMIN);
    EXPECT_FALSE(Is(CAP_SYS_ADMIN, CAP_EFFECTIVE));
  });
}

TEST_F(PrivilegesTest, NamesWhatIsMissing) {
  On({CAP_SYS_ADMIN}, [] {
    EXPECT_THAT(MissingFeatures(false), IsEmpty());
    EXPECT_THAT(MissingFeatures(true),
                ElementsAre("before Linux 6.6, allocators and libcs cannot be probed: give it "
                            "CAP_SYS_ADMIN"));
    ASSERT_TRUE(DropPrivileges(true).ok());
    EXPECT_FALSE(Is(CAP_SYS_ADMIN, CAP_PERMITTED));
  });
  // CAP_SYS_ADMIN stands in for neither: it goes, or is in reserve.
  On({CAP_PERFMON, CAP_SYSLOG}, [] {
    for (const bool admin_for_probes : {false, true}) {
      EXPECT_THAT(
          MissingFeatures(admin_for_probes),
          ElementsAre("kernel programs cannot be attached: give it CAP_PERFMON",
                      "kernel functions have no names, and the layer wakers is off: give it "
                      "CAP_SYSLOG"));
    }
  });
}

}  // namespace
}  // namespace profd
