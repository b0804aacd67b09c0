// Profiles in the formats of others: what they hold agrees with the view. tests/readers has the
// readers themselves.
#include <zlib.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/answer/view.h"
#include "client/render/pprof.h"
#include "client/render/speedscope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "pprof/profile.pb.h"
#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

// Of the format gzip, with its checksum.
std::string Uncompressed(const std::string& data) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
  std::string copy = data;
  std::string out(32 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

profd::pprof::Profile Pprof(const std::vector<View>& views) {
  const absl::StatusOr<std::string> file = RenderPprof(views);
  EXPECT_TRUE(file.ok()) << file.status();
  profd::pprof::Profile profile;
  EXPECT_TRUE(profile.ParseFromString(Uncompressed(*file)));
  return profile;
}

const std::string& Text(const profd::pprof::Profile& profile, int64_t index) {
  return profile.string_table(static_cast<int>(index));
}

// What pprof itself checks of a profile before it takes it.
void ExpectValid(const profd::pprof::Profile& profile) {
  EXPECT_EQ(profile.string_table(0), "");
  std::set<uint64_t> mappings, functions, locations;
  for (const auto& mapping : profile.mapping()) EXPECT_TRUE(mappings.insert(mapping.id()).second);
  for (const auto& function : profile.function()) {
    EXPECT_TRUE(functions.insert(function.id()).second);
  }
  for (const auto& location : profile.location()) {
    EXPECT_TRUE(locations.insert(location.id()).second);
    EXPECT_TRUE(location.mapping_id() == 0 || mappings.contains(location.mapping_id()));
    EXPECT_GT(location.line_size(), 0);
    for (const auto& line : location.line()) EXPECT_TRUE(functions.contains(line.function_id()));
  }
  EXPECT_FALSE(mappings.contains(0) || functions.contains(0) || locations.contains(0));
  for (const auto& sample : profile.sample()) {
    EXPECT_EQ(sample.value_size(), profile.sample_type_size());
    EXPECT_GT(sample.location_id_size(), 0);
    for (const uint64_t id : sample.location_id()) EXPECT_TRUE(locations.contains(id));
  }
}

TEST(PprofTest, HasFilesAndLines) {
  AnswerWriter answer = ServerAnswer();
  profd::v1::Profile& message = answer.message();
  message.add_strings("/src/queue.cc");
  message.mutable_functions(0)->set_file(static_cast<uint32_t>(message.strings_size() - 1));
  message.mutable_locations(0)->mutable_lines(0)->set_line(123);
  const Profile profile = answer.Build();
  const profd::pprof::Profile written = Pprof({MakeView(profile, true)});
  ExpectValid(written);
  EXPECT_EQ(Text(written, written.function(0).filename()), "/src/queue.cc");
  EXPECT_EQ(Text(written, written.function(1).filename()), "");
  EXPECT_EQ(written.location(0).line(0).line(), 123);
}

TEST(PprofTest, ValuesAreThoseOfTheView) {
  const Profile profile = ServerAnswer().Build({});
  for (const bool idle : {false, true}) {
    const View view = MakeView(profile, idle);
    const profd::pprof::Profile written = Pprof({view});
    ExpectValid(written);
    ASSERT_EQ(written.sample_type_size(), 2);
    EXPECT_EQ(Text(written, written.sample_type(0).type()), "offcpu");
    EXPECT_EQ(Text(written, written.sample_type(0).unit()), "nanoseconds");
    EXPECT_EQ(Text(written, written.sample_type(1).type()), "offcpu_ticks");
    int64_t sum = 0;
    for (const auto& sample : written.sample()) sum += sample.value(0);
    EXPECT_EQ(sum, view.shown_value);
    EXPECT_EQ(written.sample_size(), static_cast<int>(view.shown.size()));
    EXPECT_EQ(written.time_nanos(), profile.coverage().begin_ns());
    EXPECT_EQ(written.duration_nanos(), 60'000'000'000);
    EXPECT_EQ(written.period(), 10'000'000);
    EXPECT_EQ(Text(written, written.mapping(0).filename()), "reth") << "the main program";
  }
}

TEST(PprofTest, SamplesHaveLabels) {
  const Profile profile = ServerAnswer().Build({});
  const profd::pprof::Profile written = Pprof({MakeView(profile, true)});
  std::map<std::string, std::set<std::string>> texts;
  std::map<std::string, std::set<int64_t>> numbers;
  for (const auto& sample : written.sample()) {
    for (const auto& label : sample.label()) {
      if (label.str() != 0) texts[Text(written, label.key())].insert(Text(written, label.str()));
      if (label.str() == 0) numbers[Text(written, label.key())].insert(label.num());
    }
  }
  EXPECT_THAT(texts["process"], ElementsAre("reth"));
  EXPECT_THAT(numbers["pid"], ElementsAre(4242));
  EXPECT_THAT(texts["thread"], Contains("tokio-rt-worker-0"));
  EXPECT_THAT(numbers["tid"], Contains(4250));
  EXPECT_THAT(texts["reason"], Contains("fsync"));
  EXPECT_THAT(texts["idle"], Contains("tokio worker"));
  EXPECT_THAT(texts["object"], ElementsAre("0x7f0012345678"));
  EXPECT_THAT(numbers["syscall"], ElementsAre(202));
  // With groups their labels stand for the threads.
  const Profile grouped = ServerAnswer().Build();
  const profd::pprof::Profile by_name = Pprof({MakeView(grouped, true)});
  for (const auto& label : by_name.sample(0).label()) {
    EXPECT_NE(Text(by_name, label.key()), "tid");
    if (Text(by_name, label.key()) == "thread") {
      EXPECT_EQ(Text(by_name, label.str()), "tokio-rt-worker");
    }
  }
}

TEST(PprofTest, SampleTypesStandBesideEachOther) {
  const Profile alloc = AllocAnswer().Build({});
  Profile rss = ResidentAnswer().Build({});
  // Of one answer, as the daemon gives several.
  rss.message = alloc.message;
  const View first = MakeView(alloc, false);
  View second = MakeView(rss, false);
  std::erase_if(second.shown, [&](const Sample* sample) {
    return sample->stack != kUnsampled &&
           sample->stack >= static_cast<uint32_t>(alloc.message->stacks_size());
  });
  const profd::pprof::Profile written = Pprof({first, second});
  ExpectValid(written);
  std::vector<std::string> types;
  for (const auto& type : written.sample_type()) types.push_back(Text(written, type.type()));
  EXPECT_THAT(types, ElementsAre("alloc", "alloc_events", "rss", "rss_pages", "rss_growth"));
  int64_t allocated = 0;
  for (const auto& sample : written.sample()) {
    EXPECT_TRUE(sample.value(0) == 0 || sample.value(2) == 0);
    allocated += sample.value(0);
  }
  EXPECT_EQ(allocated, first.shown_value);
}

TEST(SpeedscopeTest, WeightsAreThoseOfTheView) {
  const Profile profile = ServerAnswer().Build();
  const View view = MakeView(profile, true);
  const auto json = nlohmann::json::parse(RenderSpeedscope({view}));
  ASSERT_EQ(json["profiles"].size(), 1u);
  const auto& written = json["profiles"][0];
  EXPECT_EQ(written["unit"], "nanoseconds");
  EXPECT_EQ(written["endValue"], view.shown_value);
  ASSERT_EQ(written["samples"].size(), written["weights"].size());
  int64_t sum = 0;
  for (const auto& weight : written["weights"]) sum += weight.get<int64_t>();
  EXPECT_EQ(sum, view.shown_value);
  const auto& frames = json["shared"]["frames"];
  for (const auto& stack : written["samples"]) {
    ASSERT_GE(stack.size(), 4u);
    for (const auto& frame : stack) EXPECT_LT(frame.get<size_t>(), frames.size());
    EXPECT_EQ(frames[stack[0].get<size_t>()]["name"], "reth");
  }
  std::set<std::pair<std::string, std::string>> names;
  for (const auto& frame : frames) {
    EXPECT_TRUE(names.emplace(frame["name"], frame.value("file", "")).second) << frame;
  }
}

}  // namespace
}  // namespace profctl
