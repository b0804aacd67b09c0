#include "daemon/source/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/support/any_record.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Exactly as many bytes on the heap, so that a sanitizer sees any read beyond them.
absl::StatusOr<AnyRecord> Decode(const void* bytes, size_t size) {
  std::vector<uint8_t> copy(size);
  if (size != 0) std::memcpy(copy.data(), bytes, size);
  return DecodeAny(copy);
}

template <typename T>
void ExpectWholeOnly(uint32_t type) {
  T record{};
  record.type = type;
  for (size_t size = 0; size < sizeof(record); ++size) {
    EXPECT_TRUE(absl::IsInvalidArgument(Decode(&record, size).status())) << type << " " << size;
  }
  const auto decoded = Decode(&record, sizeof(record));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(std::holds_alternative<T>(*decoded));
}

profd_stack_record Stack(uint16_t kernel_frames, uint16_t user_frames) {
  profd_stack_record record{};
  record.type = PROFD_RECORD_STACK;
  record.walk = PROFD_WALK_NO_RULE;
  record.kernel_frames = kernel_frames;
  record.user_frames = user_frames;
  record.hash = 99;
  for (uint64_t i = 0; i < PROFD_MAX_FRAMES; ++i) record.frames[i] = i + 1;
  return record;
}

TEST(RecordTest, FixedRecordsAreWholeOrRefused) {
  ExpectWholeOnly<profd_thread_record>(PROFD_RECORD_THREAD);
  ExpectWholeOnly<profd_thread_record>(PROFD_RECORD_EXITING);
  ExpectWholeOnly<profd_thread_record>(PROFD_RECORD_DEAD);
  ExpectWholeOnly<profd_exec_record>(PROFD_RECORD_EXEC);
  ExpectWholeOnly<profd_module_record>(PROFD_RECORD_MODULE);
  ExpectWholeOnly<profd_live_heap_record>(PROFD_RECORD_LIVE_HEAP);
  ExpectWholeOnly<profd_told_record>(PROFD_RECORD_TOLD);
}

TEST(RecordTest, ContentsArriveUnchanged) {
  profd_module_record module{};
  module.type = PROFD_RECORD_MODULE;
  module.pid = 42;
  module.key = {.ino = 1, .dev = 2, .generation = 3};
  module.file_offset = 4096;
  const auto decoded = Decode(&module, sizeof(module));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::memcmp(&std::get<profd_module_record>(*decoded), &module, sizeof(module)), 0);
}

TEST(RecordTest, UnknownTypesAreRefused) {
  for (const uint32_t type : {0U, PROFD_RECORD_TOLD + 1U, 0xffffffffU}) {
    profd_thread_record record{};
    record.type = type;
    EXPECT_TRUE(absl::IsInvalidArgument(Decode(&record, sizeof(record)).status())) << type;
  }
}

TEST(RecordTest, StackIsAsLongAsItsFrames) {
  const profd_stack_record record = Stack(1, 2);
  const size_t whole = PROFD_STACK_HEADER_SIZE + 3 * sizeof(uint64_t);
  for (size_t size = 0; size < whole; ++size) {
    EXPECT_TRUE(absl::IsInvalidArgument(Decode(&record, size).status())) << size;
  }
  for (const size_t size : {whole, whole + 1, sizeof(record)}) {
    const auto decoded = Decode(&record, size);
    ASSERT_TRUE(decoded.ok()) << size << decoded.status();
    const auto& stack = std::get<StackTrace>(*decoded);
    EXPECT_EQ(stack.id, StackId{99});
    EXPECT_EQ(stack.walk, WalkResult{PROFD_WALK_NO_RULE});
    EXPECT_EQ(stack.kernel_frames, 1);
    EXPECT_THAT(stack.frames, ElementsAre(1, 2, 3));
  }
}

TEST(RecordTest, StackMayHaveNoFramesOrAll) {
  profd_stack_record record = Stack(0, 0);
  auto decoded = Decode(&record, PROFD_STACK_HEADER_SIZE);
  ASSERT_TRUE(decoded.ok());
  EXPECT_THAT(std::get<StackTrace>(*decoded).frames, IsEmpty());

  record = Stack(PROFD_MAX_KERNEL_FRAMES, PROFD_MAX_USER_FRAMES);
  decoded = Decode(&record, sizeof(record));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<StackTrace>(*decoded).frames.size(), size_t{PROFD_MAX_FRAMES});
  EXPECT_FALSE(Decode(&record, sizeof(record) - 1).ok());
}

TEST(RecordTest, StackCountsBeyondTheLimitAreRefused) {
  const std::pair<uint16_t, uint16_t> counts[] = {{PROFD_MAX_FRAMES, 1}, {1, PROFD_MAX_FRAMES},
                                                  {0xffff, 0},           {0, 0xffff},
                                                  {0xffff, 0xffff},      {0x8000, 0x8000}};
  for (const auto& [kernel, user] : counts) {
    const profd_stack_record record = Stack(kernel, user);
    EXPECT_TRUE(absl::IsInvalidArgument(Decode(&record, sizeof(record)).status()))
        << kernel << " + " << user;
  }
}

TEST(RecordTest, UnknownWalkResultsAreRefused) {
  for (int walk = 0; walk < 256; ++walk) {
    profd_stack_record record = Stack(0, 1);
    record.walk = static_cast<uint8_t>(walk);
    EXPECT_EQ(Decode(&record, sizeof(record)).ok(), walk < PROFD_WALK_COUNT) << walk;
  }
}

TEST(RecordTest, CommNeedNotEndInNul) {
  char comm[PROFD_COMM_LEN];
  std::memset(comm, 'a', sizeof(comm));
  EXPECT_EQ(CommToString(comm), std::string(16, 'a'));
  comm[3] = '\0';
  EXPECT_EQ(CommToString(comm), "aaa");
  comm[0] = '\0';
  EXPECT_EQ(CommToString(comm), "");
}

}  // namespace
}  // namespace profd
