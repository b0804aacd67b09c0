#include "tests/system/harness/target.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "tests/support/places.h"

namespace profd::e2e {

std::vector<const SelfMeasured*> Report::Named(const std::string& name) const {
  std::vector<const SelfMeasured*> found;
  for (const SelfMeasured& thread : threads) {
    if (thread.name == name) found.push_back(&thread);
  }
  std::sort(found.begin(), found.end(),
            [](const auto* a, const auto* b) { return a->begin_ns < b->begin_ns; });
  return found;
}

absl::StatusOr<Report> ParseReport(const std::string& line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("not a report: ", line.substr(0, 200)));
  }
  Report report;
  report.pid = json.value("pid", 0);
  report.wall_offset_ns = json.value("wall_offset_ns", int64_t{0});
  for (const nlohmann::json& item : json["threads"]) {
    SelfMeasured thread;
    thread.name = item.value("name", "");
    thread.tid = item.value("tid", 0);
    thread.begin_ns = item.value("begin_ns", int64_t{0});
    thread.end_ns = item.value("end_ns", int64_t{0});
    thread.cpu_ns = item.value("cpu_ns", int64_t{0});
    thread.wait_wall_ns = item.value("wait_wall_ns", int64_t{0});
    thread.wait_cpu_ns = item.value("wait_cpu_ns", int64_t{0});
    for (const nlohmann::json& wait : item["waits"]) {
      thread.waits.push_back({wait[0].get<int64_t>(), wait[1].get<int64_t>(), wait[2].get<int>()});
    }
    report.threads.push_back(std::move(thread));
  }
  return report;
}

absl::StatusOr<std::unique_ptr<Target>> Target::Start(const std::vector<std::string>& scenario,
                                                      const std::string& program) {
  std::unique_ptr<Target> target(new Target);
  target->started_wall_ns_ = WallNs();
  Command command{{program.empty() ? test::InBuild("waiter") : program}};
  command.argv.insert(command.argv.end(), scenario.begin(), scenario.end());
  ASSIGN_OR_RETURN(target->process_, Subprocess::Start(command));
  if (!target->process_->LineWith(Subprocess::Stream::kStdout, "ready", seconds(60))) {
    return absl::UnavailableError(absl::StrCat(
        "waiter did not start: ", target->process_->Output(Subprocess::Stream::kStderr)));
  }
  return target;
}

absl::StatusOr<Report> Target::AwaitReport(milliseconds timeout) {
  const auto line = process_->LineWith(Subprocess::Stream::kStdout, "{", timeout);
  if (!line) {
    return absl::DeadlineExceededError(
        absl::StrCat("no report of waiter: ", process_->Output(Subprocess::Stream::kStderr)));
  }
  return ParseReport(*line);
}

}  // namespace profd::e2e
