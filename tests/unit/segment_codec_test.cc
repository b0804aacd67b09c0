#include "daemon/store/segment_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/store/blob.h"
#include "daemon/store/ledger_fields.h"
#include "daemon/store/merger.h"
#include "daemon/store/spans.h"
#include "daemon/store/stored_segment.h"
#include "daemon/store/wire.h"
#include "profd/store/segment.pb.h"
#include "tests/observe.h"
#include "tests/support/random_segment.h"
#include "tests/support/whole_slice.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kTick = 10'000'000;

void ExpectEqual(const SliceHeader& a, const SliceHeader& b) {
  EXPECT_EQ(a.span.begin_ns, b.span.begin_ns);
  EXPECT_EQ(a.span.end_ns, b.span.end_ns);
  EXPECT_EQ(a.books_ns, b.books_ns);
  EXPECT_EQ(a.bursts_on_ns, b.bursts_on_ns);
  EXPECT_EQ(a.tick_interval_ns, b.tick_interval_ns);
  EXPECT_EQ(a.ticks, b.ticks);
  EXPECT_EQ(a.torn_walks, b.torn_walks);
  EXPECT_EQ(a.lost_weight_ns, b.lost_weight_ns);
  EXPECT_EQ(a.drains, b.drains);
  EXPECT_EQ(a.folded_threads, b.folded_threads);
  EXPECT_EQ(a.long_rest_ns, b.long_rest_ns);
  EXPECT_EQ(a.long_work_ns, b.long_work_ns);
  EXPECT_EQ(a.cost.in_path_ns, b.cost.in_path_ns);
  EXPECT_EQ(a.cost.burst_calls, b.cost.burst_calls);
  EXPECT_EQ(a.cost.targets, b.cost.targets);
  EXPECT_EQ(a.losses, b.losses);
}

void ExpectEqual(const Slice& a, const Slice& b) {
  ExpectEqual(a.header, b.header);
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (size_t i = 0; i < a.rows.size(); i++) {
    EXPECT_EQ(a.rows[i].thread, b.rows[i].thread);
    EXPECT_EQ(a.rows[i].samples, b.rows[i].samples);
    EXPECT_EQ(ToFields(LedgerOf(a, a.rows[i])), ToFields(LedgerOf(b, b.rows[i])));
  }
  ASSERT_EQ(a.samples.size(), b.samples.size());
  for (size_t i = 0; i < a.samples.size(); i++) {
    EXPECT_EQ(a.samples[i].site, b.samples[i].site);
    EXPECT_EQ(a.samples[i].weight, b.samples[i].weight);
    EXPECT_EQ(a.samples[i].ticks, b.samples[i].ticks);
  }
  EXPECT_EQ(a.squares, b.squares);
  EXPECT_EQ(a.waits, b.waits);
}

TEST(SegmentCodecTest, GivesBackWhatWentIn) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; round++) {
    const Segment segment = RandomSegment(&random);
    const std::string blob = EncodeSegment(segment);
    auto reader = SegmentReader::Open(blob);
    ASSERT_TRUE(reader.ok()) << reader.status();
    const Segment& dictionaries = reader->dictionaries();
    ASSERT_EQ(dictionaries.threads.size(), segment.threads.size());
    for (size_t i = 0; i < segment.threads.size(); i++) {
      EXPECT_EQ(*dictionaries.threads[i], *segment.threads[i]);
    }
    EXPECT_EQ(dictionaries.sites, segment.sites);
    std::map<StackId, std::vector<uint64_t>> stacks;
    for (const auto& stack : segment.stacks) stacks[stack->id] = stack->frames;
    ASSERT_EQ(dictionaries.stacks.size(), stacks.size());
    for (const auto& stack : dictionaries.stacks) EXPECT_EQ(stacks[stack->id], stack->frames);
    ASSERT_EQ(dictionaries.modules.size(), segment.modules.size());
    for (const auto& [id, identity] : segment.modules) {
      EXPECT_EQ(*dictionaries.modules.at(id), *identity);
    }
    ASSERT_EQ(dictionaries.boot == nullptr, segment.boot == nullptr);
    if (segment.boot != nullptr) EXPECT_EQ(*dictionaries.boot, *segment.boot);
    ASSERT_EQ(reader->slices(), segment.slices.size());
    for (size_t i = 0; i < segment.slices.size(); i++) {
      auto slice = reader->Read(i);
      ASSERT_TRUE(slice.ok()) << slice.status();
      ASSERT_NO_FATAL_FAILURE(ExpectEqual(segment.slices[i], WholeSlice(*std::move(slice))));
    }
  }
}

TEST(SegmentCodecTest, ThreadsOfWhichItSaysTheSameAreNotMadeAgain) {
  Segment segment;
  for (const uint64_t id : {1, 2, 3}) {
    segment.threads.push_back(std::make_shared<const ThreadInfo>(
        ThreadInfo{.id = ThreadId{id}, .pid = 7, .tid = 8, .name = "worker", .process = "server"}));
  }
  const auto same = std::make_shared<const ThreadInfo>(*segment.threads[0]);
  auto exited = std::make_shared<ThreadInfo>(*segment.threads[1]);
  exited->exited = true;
  const std::string blob = EncodeSegment(segment);
  const auto reader =
      SegmentReader::Open(blob, {.thread = [&](ThreadId id) -> std::shared_ptr<const ThreadInfo> {
                            return id == ThreadId{1} ? same : id == ThreadId{2} ? exited : nullptr;
                          }});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto& threads = reader->dictionaries().threads;
  ASSERT_EQ(threads.size(), 3U);
  EXPECT_EQ(threads[0], same);
  for (size_t i = 0; i < threads.size(); i++) EXPECT_EQ(*threads[i], *segment.threads[i]);
}

TEST(SegmentCodecTest, SlicesAreReadWhileItIsLoaded) {
  std::mt19937_64 random(5);
  Segment segment = RandomSegment(&random);
  while (segment.slices.empty()) segment = RandomSegment(&random);
  const std::string blob = EncodeSegment(segment);
  auto reader = SegmentReader::Open(blob);
  ASSERT_TRUE(reader.ok()) << reader.status();
  reader->Unload();
  EXPECT_EQ(reader->slices(), segment.slices.size());
  EXPECT_EQ(reader->dictionaries().threads.size(), segment.threads.size());
  for (const std::string& other : {EncodeSegment(Segment()), blob.substr(1)}) {
    EXPECT_EQ(reader->Load(other).code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(reader->Read(0).status().code(), absl::StatusCode::kDataLoss);
  }
  ASSERT_TRUE(reader->Load(blob).ok());
  for (size_t i = 0; i < segment.slices.size(); i++) {
    auto slice = reader->Read(i);
    ASSERT_TRUE(slice.ok()) << slice.status();
    ASSERT_NO_FATAL_FAILURE(ExpectEqual(segment.slices[i], WholeSlice(*std::move(slice))));
  }
}

// A change of any byte is noticed.
TEST(SegmentCodecTest, DamageIsNoticed) {
  std::mt19937_64 random(2);
  const std::string blob = EncodeSegment(RandomSegment(&random));
  for (size_t i = 0; i < blob.size(); i++) {
    std::string damaged = blob;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << random() % 8));
    EXPECT_EQ(SegmentReader::Open(damaged).status().code(), absl::StatusCode::kDataLoss);
  }
  for (size_t size = 0; size < blob.size(); size++) {
    EXPECT_EQ(SegmentReader::Open(blob.substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

// Damage with the right checksum gives slices or an error.
TEST(SegmentCodecTest, DamagedMessagesAreSafe) {
  std::mt19937_64 random(3);
  int refused = 0, read = 0;
  for (int round = 0; round < 2000; round++) {
    std::string message = SerializeSegment(RandomSegment(&random));
    for (int i = 0; i < 3; i++) message[random() % message.size()] = static_cast<char>(random());
    auto reader = SegmentReader::Open(PackBlob(message));
    bool ok = reader.ok();
    for (size_t i = 0; ok && i < reader->slices(); i++) ok = reader->Read(i).ok();
    ++(ok ? read : refused);
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 100);
}

// As after a bit of memory flipped: its seconds are missing, and counted.
TEST(SegmentCodecTest, DamageIsALossOfItsSeconds) {
  std::mt19937_64 random(1);
  Segment raw = RandomSegment(&random);
  for (Slice& slice : raw.slices) slice.header.losses = {};
  auto segment = std::make_shared<StoredSegment>(*SealedSegment(raw, 0));
  int64_t seconds = 0;
  for (const Window span : segment->spans) seconds += CeilSeconds(LengthOf(span));
  const auto damaged = [&] {
    Merger merger({segment->begin_ns(), segment->end_ns()}, nullptr, true);
    merger.Add({segment, 0, segment->spans.size()});
    merger.AddLevels({}, {}, {});
    return static_cast<int64_t>(
        std::move(merger).Finish().losses[static_cast<size_t>(Loss::kStoreDamaged)]);
  };
  EXPECT_EQ(damaged(), 0);
  segment->blob[segment->blob.size() / 2] ^= 1;
  EXPECT_EQ(damaged(), seconds);
  Observe("loss", "store_damaged", static_cast<uint64_t>(seconds));
}

// Columns are read in step, long after they were checked: each has a number for each of the others.
TEST(SegmentCodecTest, ColumnsOfOtherLengthsAreRefused) {
  std::mt19937_64 random(5);
  int refused = 0;
  for (int round = 0; round < 300; round++) {
    store::Segment message;
    ASSERT_TRUE(message.ParseFromString(SerializeSegment(RandomSegment(&random))));
    for (int place = 0; place < message.slices_size(); place++) {
      store::Slice slice;
      ASSERT_TRUE(slice.ParseFromString(message.slices(place)));
      const google::protobuf::Reflection& fields = *slice.GetReflection();
      const auto number = static_cast<int>(2 + random() % 8);
      const auto* const column = slice.GetDescriptor()->FindFieldByNumber(number);
      const bool fewer = random() % 2 == 0;
      if (fewer && fields.FieldSize(slice, column) == 0) continue;
      if (fewer) {
        fields.RemoveLast(&slice, column);
      } else if (column->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT32) {
        fields.AddUInt32(&slice, column, 0);
      } else if (column->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT64) {
        fields.AddUInt64(&slice, column, 0);
      } else if (column->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT64) {
        fields.AddInt64(&slice, column, 0);
      } else {
        fields.AddDouble(&slice, column, 0);
      }
      message.set_slices(place, slice.SerializeAsString());
      const std::string damaged = message.SerializeAsString();
      const auto reader = SegmentReader::Parse(damaged);
      ASSERT_TRUE(reader.ok()) << reader.status();
      EXPECT_EQ(reader->Read(static_cast<size_t>(place)).status().code(),
                absl::StatusCode::kDataLoss)
          << column->name() << (fewer ? " -1" : " +1");
      refused++;
      break;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(SegmentCodecTest, AnotherVersionIsRefused) {
  std::mt19937_64 random(4);
  store::Segment message;
  ASSERT_TRUE(message.ParseFromString(SerializeSegment(RandomSegment(&random))));
  message.set_version(kSegmentVersion + 1);
  EXPECT_EQ(SegmentReader::Parse(message.SerializeAsString()).status().code(),
            absl::StatusCode::kDataLoss);
}

// Losses are kept by name: one that this version does not know is left out.
TEST(SegmentCodecTest, UnknownLossesAreLeftOut) {
  Segment segment;
  segment.slices.emplace_back().header.losses[5] = 7;
  store::Segment message;
  ASSERT_TRUE(message.ParseFromString(SerializeSegment(segment)));
  for (std::string& text : *message.mutable_strings()) {
    if (!text.empty()) text = "loss_of_the_future";
  }
  const std::string bytes = message.SerializeAsString();
  const auto reader = SegmentReader::Parse(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto slice = reader->Read(0);
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_EQ(slice->header().losses, LossCounts{});
}

TEST(SegmentCodecTest, AnIdleThreadCostsAFewBytes) {
  Segment segment;
  Slice& slice = segment.slices.emplace_back();
  slice.header.span.end_ns = kSecond;
  slice.header.tick_interval_ns = kTick;
  slice.header.ticks = 100;
  for (uint32_t i = 0; i < 1000; i++) {
    segment.threads.push_back(std::make_shared<const ThreadInfo>());
    segment.sites.push_back({.argument = i});
    // Read one after another, a few microseconds apart.
    slice.rows.push_back({.thread = i,
                          .samples = 1,
                          .rest_reason = static_cast<uint8_t>(Reason::kPoll),
                          .rest_ns = kSecond + 2000 + (i * 37) % 50});
    slice.samples.push_back({{100 * kTick, 100}, i});
  }
  store::Segment message;
  ASSERT_TRUE(message.ParseFromString(SerializeSegment(segment)));
  EXPECT_LE(message.slices(0).size(), slice.rows.size() * 10 + 64);
  EXPECT_LE(EncodeSegment(segment).size(), slice.rows.size() * 7);
}

TEST(VarintsTest, GiveBackWhatWentIn) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 1000; round++) {
    std::vector<uint64_t> numbers(random() % 20);
    std::string bytes;
    size_t odd = 0;
    for (uint64_t& number : numbers) {
      number = random() >> random() % 64;
      odd += number & 1;
      PutVarint(number, &bytes);
    }
    Varints left(bytes);
    EXPECT_TRUE(left.IsWhole());
    EXPECT_EQ(left.Count().all, numbers.size());
    EXPECT_EQ(left.Count().odd, odd);
    for (const uint64_t number : numbers) {
      uint64_t taken = 0;
      ASSERT_TRUE(left.Take(&taken));
      EXPECT_EQ(taken, number);
    }
    EXPECT_TRUE(left.empty());
    if (bytes.empty()) continue;
    bytes.back() = static_cast<char>(bytes.back() | 0x80);
    EXPECT_FALSE(Varints(bytes).IsWhole());
  }
}

TEST(BlobTest, RefusesWhatIsTooLarge) {
  EXPECT_TRUE(UnpackBlob(PackBlob(std::string(1 << 20, 'a'))).ok());
  // A small blob that says it is large takes no memory.
  const std::string bomb = PackBlob(std::string(kMaxBlobContent + 1, 'a'));
  EXPECT_LT(bomb.size(), 1U << 20);
  EXPECT_EQ(UnpackBlob(bomb).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace profd
