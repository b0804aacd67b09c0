// The page and the object of `profctl status`.
#include <cstdint>
#include <string>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/render/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/fixture_status.h"
#include "tests/unit/golden.h"

namespace profctl {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kStartNs = 1'769'864'700'000'000'000;
constexpr int64_t kHourNs = 3'600'000'000'000;

std::string Page(const profd::v1::GetStatusResponse& status) {
  return RenderStatusText(status, kStartNs + kHourNs, false);
}

// The page in one line.
std::string Words(const profd::v1::GetStatusResponse& status) {
  return absl::StrJoin(absl::StrSplit(Page(status), absl::ByAnyChar(" \n"), absl::SkipEmpty()),
                       " ");
}

nlohmann::json Json(const profd::v1::GetStatusResponse& status) {
  return nlohmann::json::parse(RenderStatusJson(status));
}

TEST(StatusTextTest, MatchesGolden) {
  ExpectGolden(Page({}), "status-empty.txt");
  ExpectGolden(Page(PlainStatus()), "status.txt");
  ExpectGolden(Page(ShedStatus()), "status-shed.txt");
  ExpectGolden(Page(AllocatorsStatus()), "status-allocators.txt");
}

TEST(StatusTextTest, PausedAndOverBudget) {
  profd::v1::GetStatusResponse status = ShedStatus();
  status.set_paused(true);
  status.mutable_governor()->set_budget(0.01);
  status.mutable_governor()->set_saved_s(0);
  status.mutable_governor()->set_of_targets(false);
  status.mutable_cost()->set_memory_cpu_ns(100'000'000);
  status.mutable_memory()->set_timeline_bytes(3 << 20);
  ExpectGolden(Page(status), "status-paused.txt");
  // What is above the budget may have been saved before.
  status.mutable_governor()->set_saved_s(1.5);
  ExpectGolden(Page(status), "status-spending.txt");
}

TEST(StatusTextTest, SeveralTargetsWithoutABudget) {
  profd::v1::GetStatusResponse status = ShedStatus();
  status.add_targets()->set_selector("postgres");
  status.mutable_governor()->set_budget(0);
  status.mutable_governor()->set_changes(0);
  status.mutable_governor()->mutable_sources(0)->set_level(0);
  status.mutable_governor()->mutable_sources(0)->set_cost(0.0412);
  status.mutable_governor()->mutable_sources(1)->set_cost(0.025);
  ExpectGolden(Page(status), "status-targets.txt");
}

TEST(StatusTextTest, ReaderOfDebugInfo) {
  profd::v1::GetStatusResponse status;
  EXPECT_THAT(Page(status), testing::Not(testing::HasSubstr("  lines "))) << "nothing was read";
  profd::v1::LineReaderStatus& reader = *status.mutable_line_reader();
  reader.set_addresses(1234);
  reader.set_cpu_ns(80'000'000);
  reader.set_rss_bytes(20 << 20);
  reader.set_cache_bytes(1 << 20);
  EXPECT_THAT(Words(status),
              testing::HasSubstr("1,234 places read from debug info in 80.0 ms of CPU time"));
  EXPECT_THAT(Words(status), testing::Not(testing::HasSubstr("gave up")));
  reader.set_failures(2);
  reader.set_note("it is gone; restart profd");
  EXPECT_THAT(Words(status), testing::HasSubstr("gave up 2 times"));
  EXPECT_THAT(Words(status), testing::HasSubstr("restart profd"));
}

TEST(StatusTextTest, UnknownAllocators) {
  profd::v1::GetStatusResponse status;
  status.add_layers()->set_name("heap");
  ExpectGolden(Page(status), "status-no-allocator.txt");
  for (int i = 0; i < 10; ++i) {
    profd::v1::ProcessName& process = *status.add_unknown_allocators();
    process.set_pid(100 + i);
    process.set_name(i == 0 ? "go-server\x1b" : "envoy");
  }
  ExpectGolden(Page(status), "status-unknown-allocators.txt");
  EXPECT_THAT(Json(status)["unknown_allocators"], SizeIs(10));
  EXPECT_EQ(Json(status)["unknown_allocators"][9]["pid"], 109);
}

TEST(StatusTextTest, TheMeanOfASwitchNeedsTheLayer) {
  profd::v1::GetStatusResponse status = ShedStatus();
  status.mutable_governor()->set_changes(0);
  profd::v1::LayerStatus& layer = *status.add_layers();
  layer.set_name("switch");
  layer.set_note("--disable");
  ExpectGolden(Page(status), "status-no-switch.txt");
}

TEST(StatusTextTest, HostileAllocatorsStayAPage) {
  profd::v1::GetStatusResponse status = AllocatorsStatus();
  profd::v1::HeapTotal& total = *status.mutable_allocators(0)->mutable_allocated();
  total.set_bytes(INT64_MIN);
  total.set_weight_bytes(INT64_MIN);
  total.set_unseen_bytes(INT64_MAX);
  total.set_gaps(UINT64_MAX);
  status.mutable_allocators(0)->set_live_bytes(INT64_MIN);
  status.mutable_allocators(0)->set_live_objects(INT64_MIN);
  const std::string page = Page(status);
  ExpectGolden(page, "status-hostile.txt");
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
}

std::vector<KindNames> SomeNames() {
  profd::v1::NameShare symbols;
  symbols.set_source(profd::v1::NAME_SOURCE_SYMBOLS);
  symbols.set_share(0.75);
  symbols.set_stacks(0.5);
  profd::v1::NameShare bounds;
  bounds.set_source(profd::v1::NAME_SOURCE_BOUNDS);
  bounds.set_share(0.25);
  return {{.kind = "offcpu", .shares = {symbols, bounds}, .note = ""},
          {.kind = "cpu", .shares = {}, .note = "no stacks"}};
}

TEST(StatusTextTest, HowFunctionsGotTheirNames) {
  const profd::v1::GetStatusResponse status;
  const std::string text = RenderStatusText(status, kStartNs, false, SomeNames());
  EXPECT_THAT(text, testing::HasSubstr("\nNames of functions in the last minute\n"
                                       "  offcpu     75.0% symbol table, 25.0% function bounds\n"
                                       "  cpu        no stacks\n"));
  EXPECT_THAT(RenderStatusText(status, kStartNs, false),
              testing::Not(testing::HasSubstr("Names of functions")));
}

TEST(StatusJsonTest, HowFunctionsGotTheirNames) {
  const auto names = nlohmann::json::parse(RenderStatusJson({}, SomeNames()))["names"];
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(names[0]["kind"], "offcpu");
  EXPECT_EQ(names[0]["shares"][0]["source"], "NAME_SOURCE_SYMBOLS");
  EXPECT_EQ(names[0]["shares"][0]["share"], 0.75);
  EXPECT_EQ(names[0]["shares"][0]["stacks"], 0.5);
  EXPECT_EQ(names[1]["note"], "no stacks");
  EXPECT_EQ(nlohmann::json::parse(RenderStatusJson({}))["names"].size(), 0u);
}

TEST(StatusJsonTest, HasWhatThePageHas) {
  const nlohmann::json json = Json(PlainStatus());
  EXPECT_EQ(json["format"], "profd-status");
  EXPECT_EQ(json["targets"][0]["pids"][0], 4242);
  EXPECT_EQ(json["programs"][0]["recursion_misses"], 3);
  EXPECT_EQ(json["memory"]["daemon_rss_bytes"], 30 << 20);
  EXPECT_EQ(json["paused"], false);
  EXPECT_THAT(json["governor"]["sources"], IsEmpty());
  EXPECT_THAT(json["allocators"], IsEmpty());
  profd::v1::GetStatusResponse status = PlainStatus();
  status.set_paused(true);
  status.mutable_memory()->set_timeline_bytes(3 << 20);
  status.mutable_cost()->set_memory_cpu_ns(100'000'000);
  EXPECT_EQ(Json(status)["paused"], true);
  EXPECT_EQ(Json(status)["memory"]["timeline_bytes"], 3 << 20);
  EXPECT_EQ(Json(status)["cost"]["memory_cpu_ns"], 100'000'000);
}

TEST(StatusJsonTest, TheBudgetAndWhatIsGivenUp) {
  const nlohmann::json json = Json(ShedStatus());
  EXPECT_EQ(json["governor"]["budget"], 0.02);
  EXPECT_EQ(json["governor"]["share"], 0.01);
  EXPECT_EQ(json["governor"]["of_targets"], true);
  EXPECT_EQ(json["governor"]["saved_s"], 0.25);
  EXPECT_EQ(json["governor"]["fixed_cost"], 0.0005);
  EXPECT_EQ(json["governor"]["changes"], 2);
  EXPECT_EQ(json["governor"]["sources"][0]["name"], "switch");
  EXPECT_EQ(json["governor"]["sources"][0]["in_path"], true);
  EXPECT_EQ(json["governor"]["sources"][0]["whole_cost"], 0.0412);
  EXPECT_EQ(json["governor"]["sources"][1]["level"], 5);
  EXPECT_EQ(json["governor"]["sources"][1]["cost"], 0.0178);
  EXPECT_EQ(json["governor"]["sources"][1]["given_up"],
            ShedStatus().governor().sources(1).given_up());
  EXPECT_EQ(json["cost"]["rules_cpu_ns"], 30'000'000);
  EXPECT_EQ(json["cost"]["answers_cpu_ns"], 20'000'000);
  EXPECT_EQ(json["cost"]["duration_ns"], 100'000'000'000);
  EXPECT_EQ(json["cost"]["targets"][0]["target"], 1);
  EXPECT_EQ(json["targets"][0]["cost"]["drain_cpu_ns"], 200'000'000);
}

TEST(StatusJsonTest, Allocators) {
  const nlohmann::json json = Json(AllocatorsStatus());
  ASSERT_EQ(json["allocators"].size(), 2u);
  const auto& watched = json["allocators"][0];
  EXPECT_EQ(watched["pids"], nlohmann::json({4242, 4243}));
  EXPECT_EQ(watched["module"], "/usr/local/bin/reth");
  EXPECT_EQ(watched["build_id"], "ab12");
  EXPECT_EQ(watched["allocator"], "jemalloc");
  EXPECT_EQ(watched["version"], "5.3.0");
  EXPECT_EQ(watched["found_by"], "symbol");
  EXPECT_EQ(watched["watched"], true);
  EXPECT_EQ(watched["allocated"]["bytes"], int64_t{1331} << 20);
  EXPECT_EQ(watched["freed"]["unseen_bytes"], int64_t{600} << 20);
  EXPECT_EQ(watched["live_since_ns"], 1'769'864'700'000'000'000);
  EXPECT_EQ(watched["live_bytes"], 12 << 20);
  EXPECT_EQ(watched["live_objects"], 1234);
  EXPECT_EQ(watched["sample_bytes"], 1 << 19);
  EXPECT_EQ(watched["live_note"], "");
  EXPECT_EQ(json["allocators"][1]["watched"], false);
  EXPECT_EQ(json["allocators"][1]["live_since_ns"], 0);
  EXPECT_EQ(json["allocators"][1]["live_note"], AllocatorsStatus().allocators(1).live_note());
  EXPECT_EQ(json["allocators"][1]["note"], AllocatorsStatus().allocators(1).note());
  EXPECT_EQ(json["cost"]["heap_events"], 20'000);
}

}  // namespace
}  // namespace profctl
