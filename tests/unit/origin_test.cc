#include "daemon/service/origin.h"

#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace profd {
namespace {

FrameText Function(std::string_view name) {
  return {.function = name, .module = "server", .kind = FrameKind::kApplication};
}

TEST(OriginTest, WrappersOfMallocAskForNothing) {
  for (const char* name :
       {"malloc", "zmalloc", "ztrymalloc_usable", "zrealloc_usable", "xcalloc", "g_malloc0",
        "_PyObject_Malloc", "PyMem_RawMalloc", "palloc0", "MemoryContextAllocZero"}) {
    EXPECT_TRUE(IsCommon(Function(name))) << name;
  }
  // They are about allocators, or merely sound so.
  for (const char* name : {"MapByMalloc", "stats::malloc_usage", "Pool<malloc>::Grow", "main",
                           "createStringObject", "AllocateShares"}) {
    EXPECT_FALSE(IsCommon(Function(name))) << name;
  }
}

TEST(OriginTest, WhoAskedIsTheInnermostCodeOfTheProgram) {
  const std::vector<FrameText> frames = {Function("je_malloc"), Function("zmalloc"),
                                         Function("createObject"), Function("main")};
  const std::vector<uint32_t> stack = {0, 1, 2, 3};
  EXPECT_EQ(OriginRule(frames).Of(stack), 2U);
  const std::vector<uint32_t> wrappers = {0, 1};
  EXPECT_EQ(OriginRule(frames).Of(wrappers), 0U) << "there is nothing better";
}

}  // namespace
}  // namespace profd
