// The table of file syncs in a summary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "client/answer/profile.h"
#include "client/render/syncs.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {
namespace {

using ::testing::HasSubstr;

TEST(SyncTableTest, TellsEachFileAndCall) {
  auto message = std::make_shared<profd::v1::Profile>();
  for (int i = 0; i < 12; ++i) {
    profd::v1::FileSync* sync = message->add_syncs();
    sync->set_file("/data/wal");
    sync->set_call("fdatasync");
    sync->set_calls(4);
    sync->set_joined(1);
    sync->set_failed(i == 0 ? 2 : 0);
    sync->set_total_ns(8'000'000);
    sync->set_p99_ns(2'097'152);
    sync->set_stack(1);
  }
  message->set_syncs_left_out(1);
  Profile profile;
  profile.message = message;
  profile.frames.resize(1);
  profile.frames[0].function = "storage::Commit";
  profile.stacks = {{}, {.frames = {0}, .complete = true, .origin = 0}};
  std::string text;
  AppendSyncs(profile, false, text);
  for (const char* part :
       {"/data/wal", "fdatasync", "8.00 ms", "2.10 ms", "25.0%", "storage::Commit",
        "and 9 more calls, 16.0 ms", "2 calls returned an error"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace profctl
