#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/render/memory.h"
#include "client/render/memory_figures.h"
#include "client/render/plot.h"
#include "client/render/summary.h"
#include "client/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/fixture_memory.h"
#include "tests/unit/fixture_profile.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMiB = 1 << 20;

// Five allocation sites, those of a profile.
void AddSites(const Profile& profile, profd::v1::ProcessMemory* process) {
  struct Site {
    int64_t bytes = 0;
    double variance = 0;
  };
  std::map<std::string, Site> sites;
  int64_t all = 0;
  for (const Sample& sample : profile.samples) {
    const bool sampled = sample.stack != kUnsampled;
    Site& site = sites[sampled ? profile.frames[profile.stacks[sample.stack].origin].function
                               : "[unsampled]"];
    site.bytes += sample.value;
    site.variance += static_cast<double>(sample.error) * static_cast<double>(sample.error);
    all += sample.value;
  }
  std::vector<std::pair<std::string, Site>> list(sites.begin(), sites.end());
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  list.resize(5);
  for (const auto& [function, site] : list) {
    profd::v1::AllocationSite& out = *process->add_sites();
    out.set_function(function);
    out.set_bytes(site.bytes);
    out.set_error_bytes(std::llround(std::sqrt(site.variance)));
    out.set_process_bytes(all);
  }
}

MemoryReport Growing() {
  MemoryReport report = {.memory = GrowingMemory(), .past = false};
  AddSites(AllocAnswer().Build(), report.memory.mutable_processes(0));
  return report;
}

MemoryReport Many() { return {.memory = ManyMemories(), .past = true}; }

void ExpectAPage(const std::string& text, bool ascii_plot) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
    if (ascii_plot) {
      EXPECT_EQ(line.find("\xe2"), std::string::npos) << line;
    }
  }
}

TEST(MemoryTextTest, MatchesGolden) {
  const std::string growing = RenderMemoryText(Growing(), false, true);
  ExpectGolden(growing, "memory.txt");
  ExpectAPage(growing, false);
  const std::string many = RenderMemoryText(Many(), false, false);
  ExpectGolden(many, "memory-many.txt");
  ExpectGolden(RenderMemoryText(Many(), false, true), "memory-many-plot.txt");
  ExpectAPage(many, true);
}

TEST(MemoryTextTest, NothingIsSaid) {
  const std::string text = RenderMemoryText({}, false, true);
  ExpectGolden(text, "memory-nothing.txt");
}

TEST(MemoryTextTest, ColourMarksHeadingsOnly) {
  const std::string plain = RenderMemoryText(Growing(), false, true);
  std::string coloured = RenderMemoryText(Growing(), true, true);
  EXPECT_NE(coloured, plain);
  for (const char* code : {"\033[1m", "\033[0m"}) {
    for (size_t at; (at = coloured.find(code)) != std::string::npos;) coloured.erase(at, 4);
  }
  EXPECT_EQ(coloured, plain);
}

TEST(MemoryJsonTest, RatesAreBetweenThePointsThatHaveTheFigure) {
  MemoryReport report = Growing();
  profd::v1::ProcessMemory& process = *report.memory.mutable_processes(0);
  const auto rate = [&] {
    return nlohmann::json::parse(RenderMemoryJson(report))["processes"][0]["minor_faults_per_s"];
  };
  for (const int point : {0, 1, 12}) process.mutable_points(point)->clear_minor_faults();
  EXPECT_NEAR(rate().get<double>(), 1203, 0.01);
  for (int point = 3; point < 12; ++point) process.mutable_points(point)->clear_minor_faults();
  EXPECT_TRUE(rate().is_null());
}

TEST(MemoryJsonTest, HasEveryFigureAndNullWhereNoneIsKnown) {
  const auto json = nlohmann::json::parse(RenderMemoryJson(Growing()));
  EXPECT_EQ(json["format"], "profd-memory");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["heap_ns"], 60 * kSecond);
  const auto& reth = json["processes"][0];
  EXPECT_EQ(reth["pid"], 4242);
  EXPECT_EQ(reth["ended"], false);
  EXPECT_EQ(reth["cgroup"]["path"], "/kubepods/pod7/reth");
  EXPECT_EQ(reth["cgroup"]["version"], 2);
  EXPECT_EQ(reth["allocated_bytes"], 1271 * kMiB);
  EXPECT_NEAR(reth["allocated_bytes_per_s"].get<double>(), 1271.0 * kMiB / 60, 1);
  EXPECT_NEAR(reth["freed_bytes_per_s"].get<double>(), 1259.0 * kMiB / 60, 1);
  EXPECT_EQ(reth["net_allocated_bytes"], 12 * kMiB);
  EXPECT_TRUE(reth["live_bytes"].is_null());
  EXPECT_TRUE(reth["fragmentation_bytes"].is_null());
  EXPECT_NEAR(reth["minor_faults_per_s"].get<double>(), 1203, 0.01);
  EXPECT_EQ(reth["growth"]["direction"], "grows");
  EXPECT_NEAR(reth["growth"]["rss_bytes_per_minute"].get<double>(), 12.0 * kMiB, 0.5 * kMiB);
  EXPECT_NEAR(reth["growth"]["seconds_to_limit"].get<double>(), 705 / 12.0 * 60, 200);
  ASSERT_EQ(reth["sites"].size(), 5u);
  EXPECT_EQ(reth["sites"][0]["bytes"], 600 * kMiB);
  ASSERT_EQ(reth["points"].size(), 13u);
  const auto& point = reth["points"][12];
  EXPECT_EQ(point.size(), 21u);
  EXPECT_EQ(point["rss_bytes"], GrowingMemory().processes(0).points(12).rss_bytes());
  EXPECT_EQ(point["swap_bytes"], 0);
  EXPECT_EQ(point["cgroup_limit_hits"], 7);

  const auto many = nlohmann::json::parse(RenderMemoryJson(Many()));
  EXPECT_EQ(many["processes"].size(), 9u);
  EXPECT_EQ(many["processes_left_out"], 2);
  EXPECT_EQ(many["processes_unwatched"], 3);
  EXPECT_EQ(many["notes"].size(), 1u);
  EXPECT_EQ(many["losses"][0]["cause"], "memory_dropped");
  const auto& killed = many["processes"][1];
  EXPECT_EQ(killed["fragmentation_bytes"], 100 * kMiB);
  EXPECT_TRUE(killed["growth"].is_null()) << "of 5 s";
  EXPECT_TRUE(killed["cgroup"].is_null());
  EXPECT_TRUE(killed["points"][0]["swap_bytes"].is_null());
  EXPECT_TRUE(killed["points"][0]["pss_bytes"].is_null());
}

TEST(CheckMemoryTest, RefusesWhatNoDaemonSends) {
  EXPECT_TRUE(CheckMemory(GrowingMemory()).ok());
  EXPECT_TRUE(CheckMemory(ManyMemories()).ok());
  EXPECT_TRUE(CheckMemory({}).ok());
  const auto refused = [](const std::function<void(profd::v1::ProcessMemory*)>& make) {
    profd::v1::GetMemoryResponse memory = GrowingMemory();
    make(memory.mutable_processes(0));
    const absl::Status status = CheckMemory(memory);
    return absl::IsDataLoss(status);
  };
  EXPECT_TRUE(refused([](auto* p) { p->clear_points(); }));
  EXPECT_TRUE(refused([](auto* p) { p->mutable_points(3)->set_time_ns(1); }));
  EXPECT_TRUE(refused([](auto* p) { p->mutable_points(0)->set_time_ns(-1); }));
  EXPECT_TRUE(refused([](auto* p) { p->mutable_points(3)->set_rss_bytes(-1); }));
  EXPECT_TRUE(refused([](auto* p) { p->mutable_points(3)->set_freed_bytes(INT64_MAX); }));
  EXPECT_TRUE(refused([](auto* p) { p->set_peak_rss_bytes(INT64_MIN); }));
  EXPECT_TRUE(refused([](auto* p) { p->set_started_ns(-1); }));
  EXPECT_TRUE(refused([](auto* p) { p->set_live_bytes(INT64_MAX); }));
  EXPECT_FALSE(refused([](auto* p) { p->set_net_allocated_bytes(-5); }));
}

TEST(CheckMemoryTest, WhatPassesCanBeRendered) {
  constexpr int64_t kMost = int64_t{1} << 62;
  profd::v1::GetMemoryResponse memory = GrowingMemory();
  memory.set_begin_ns(INT64_MIN);
  memory.set_end_ns(INT64_MAX);
  memory.set_heap_ns(1);
  profd::v1::ProcessMemory& process = *memory.mutable_processes(0);
  process.set_net_allocated_bytes(INT64_MIN);
  process.set_allocated_bytes(kMost);
  process.set_peak_rss_bytes(kMost);
  for (int i = 0; i < process.points_size(); ++i) {
    profd::v1::MemoryPoint& point = *process.mutable_points(i);
    if (i > 6) point.set_time_ns(kMost);
    point.set_rss_bytes(i % 2 == 0 ? kMost : 0);
    point.set_minor_faults(kMost);
    point.set_pss_time_ns(i % 2 == 0 ? kMost : 0);
    point.set_cgroup_limit_bytes(0);
    point.set_cgroup_current_bytes(kMost);
    if (i == 4) point.clear_rss_bytes();
  }
  ASSERT_TRUE(CheckMemory(memory).ok());
  const MemoryReport report = {.memory = memory, .past = false};
  ExpectAPage(RenderMemoryText(report, false, false), true);
  const std::string json = RenderMemoryJson(report);
  EXPECT_EQ(nlohmann::json::parse(json)["processes"].size(), 1u);
}

TEST(TrendTest, LeastSquares) {
  std::vector<double> line;
  for (int i = 0; i <= 60; ++i) line.push_back(1000e6 + 1e6 * i);
  const std::optional<Trend> up = FitTrend(line, 60 * kSecond);
  ASSERT_TRUE(up.has_value());
  EXPECT_NEAR(up->bytes_per_minute, 60e6, 1);
  EXPECT_EQ(up->direction, 1);
  std::reverse(line.begin(), line.end());
  EXPECT_EQ(FitTrend(line, 60 * kSecond)->direction, -1);
  EXPECT_NEAR(FitTrend(line, 3600 * kSecond)->bytes_per_minute, -1e6, 1);
}

TEST(TrendTest, NoiseIsNoTrend) {
  std::vector<double> saw;
  for (int i = 0; i < 120; ++i) saw.push_back(1000e6 + 50e6 * (i % 7));
  EXPECT_EQ(FitTrend(saw, 60 * kSecond)->direction, 0);
  const std::vector<double> flat(120, 5e9);
  EXPECT_EQ(FitTrend(flat, 60 * kSecond)->direction, 0);
  EXPECT_EQ(FitTrend(flat, 60 * kSecond)->bytes_per_minute, 0);
  // A tenth of a percent.
  std::vector<double> slow = flat;
  for (size_t i = 0; i < slow.size(); ++i) slow[i] += 5e6 * static_cast<double>(i) / 120;
  EXPECT_EQ(FitTrend(slow, 60 * kSecond)->direction, 0);
}

TEST(TrendTest, NeedsEnoughToGoBy) {
  EXPECT_FALSE(FitTrend({}, 60 * kSecond).has_value());
  EXPECT_FALSE(FitTrend({1, 2}, 60 * kSecond).has_value());
  EXPECT_FALSE(FitTrend({1, kNaN, kNaN, 2}, 60 * kSecond).has_value());
  EXPECT_FALSE(FitTrend({1, 2, 3}, 9 * kSecond).has_value());
  EXPECT_NEAR(FitTrend({0, kNaN, 20, 30, kNaN}, 60 * kSecond)->bytes_per_minute, 40, 1e-6);
}

TEST(ResampleTest, StraightLinesBetweenPoints) {
  profd::v1::ProcessMemory process;
  const auto add = [&](int64_t time_ns, std::optional<int64_t> rss) {
    profd::v1::MemoryPoint& point = *process.add_points();
    point.set_time_ns(time_ns);
    if (rss) point.set_rss_bytes(*rss);
  };
  const MemoryFigure rss = [](const profd::v1::MemoryPoint& point) -> std::optional<double> {
    if (!point.has_rss_bytes()) return std::nullopt;
    return static_cast<double>(point.rss_bytes());
  };
  EXPECT_TRUE(std::isnan(Resample(process, rss, 3)[1]));
  add(1000, 10);
  EXPECT_THAT(Resample(process, rss, 3), ElementsAre(10, 10, 10));
  add(1020, 30);
  add(1040, 30);
  EXPECT_THAT(Resample(process, rss, 5), ElementsAre(10, 20, 30, 30, 30));
  add(1080, std::nullopt);
  const std::vector<double> values = Resample(process, rss, 5);
  EXPECT_EQ(values[2], 30);
  EXPECT_TRUE(std::isnan(values[3]));
  EXPECT_TRUE(std::isnan(values[4]));
  EXPECT_THAT(Resample(process, rss, 1), ElementsAre(10));
}

TEST(PlotTest, AsciiDrawsALineOverAnArea) {
  const PlotShape shape{.columns = 4, .rows = 3, .unicode = false};
  EXPECT_THAT(DrawPlot(shape, {0, 1, 2, 2}, {0, 0, 1, kNaN}, 0, 2),
              ElementsAre("  **", " **", "**:"));
  EXPECT_THAT(DrawPlot(shape, {kNaN, kNaN, kNaN, kNaN}, {kNaN, kNaN, kNaN, kNaN}, 0, 2),
              ElementsAre("", "", ""));
  // What lies outside is drawn at the edge.
  EXPECT_THAT(DrawPlot(shape, {-5, 50, kNaN, kNaN}, {kNaN, kNaN, kNaN, kNaN}, 0, 2),
              ElementsAre(" *", " *", "**"));
}

TEST(PlotTest, BrailleHasEightDotsACharacter) {
  const PlotShape shape{.columns = 2, .rows = 1, .unicode = true};
  EXPECT_EQ(shape.Width(), 4u);
  // Dots 1 and 8 of the first character; the second is filled from its third row of dots.
  EXPECT_THAT(DrawPlot(shape, {3, kNaN, kNaN, kNaN}, {kNaN, 0, 1, 1}, 0, 3),
              ElementsAre("\xe2\xa2\x81\xe2\xa3\xa4"));
  EXPECT_THAT(DrawPlot(shape, {kNaN, kNaN, kNaN, kNaN}, {kNaN, kNaN, kNaN, kNaN}, 0, 3),
              ElementsAre(""));
}

profd::v1::MemoryLine Line() {
  profd::v1::MemoryLine line;
  line.set_processes(1);
  line.set_rss_bytes(1270 * kMiB);
  line.set_rss_growth_bytes(12 * kMiB + 300 * 1024);
  line.set_growth_ns(60 * kSecond);
  line.set_anon_bytes(1126 * kMiB);
  line.set_cgroup_current_bytes(1331 * kMiB);
  line.set_cgroup_limit_bytes(2048 * kMiB);
  line.set_allocated_bytes(1271 * kMiB);
  line.set_freed_bytes(1259 * kMiB);
  line.set_heap_ns(60 * kSecond);
  return line;
}

TEST(MemoryLineTest, IsOneLineInTheSummary) {
  AnswerWriter answer = IdleAnswer();
  *answer.message().mutable_memory() = Line();
  const Profile profile = answer.Build();
  const std::string summary = RenderSummary(MakeView(profile, false), false);
  ExpectGolden(summary, "memory.summary");
}

TEST(MemoryLineTest, SaysWhatIsKnown) {
  EXPECT_EQ(DescribeMemoryLine(Line(), 60 * kSecond),
            "RSS 1.24 GiB (+12.3 MiB in 60.0 s), anonymous 1.10 GiB, cgroup 1.30 of 2.00 GiB; "
            "allocated 21.2 MiB/s, freed 21.0 MiB/s");
  EXPECT_EQ(DescribeMemoryLine({}, 60 * kSecond), "");
  profd::v1::MemoryLine line = Line();
  line.set_processes(3);
  line.set_rss_growth_bytes(-1024);
  line.clear_cgroup_limit_bytes();
  EXPECT_EQ(DescribeMemoryLine(line, 0),
            "3 processes: RSS 1.24 GiB (-1.00 KiB in 60.0 s), anonymous 1.10 GiB, cgroup 1.30 GiB");
  line.set_rss_bytes(INT64_MIN);
  line.set_rss_growth_bytes(INT64_MIN);
  line.set_allocated_bytes(INT64_MIN);
  line.set_growth_ns(INT64_MAX);
  EXPECT_EQ(DescribeMemoryLine(line, 1),
            "3 processes: RSS 0 B (-8388608 TiB in 106752 d), anonymous 1.10 GiB, cgroup 1.30 GiB; "
            "allocated 0 B/s, freed 1200676 TiB/s");
}

}  // namespace
}  // namespace profctl
