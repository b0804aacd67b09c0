// Any bytes given as a request give a plan within the documented bounds, or an error of one line.
// The first byte chooses the request.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "daemon/service/request.h"
#include "google/protobuf/stubs/logging.h"

namespace {

constexpr int64_t kNowNs = 1'000'000'000'000;
constexpr int64_t kWallOffsetNs = 1'700'000'000'000'000'000;

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckScope(const profd::RequestScope& scope) {
  Require(scope.window.begin_ns < scope.window.end_ns);
  Require(scope.targets.size() <= 64);
  const profd::ThreadInfo info = {.pid = 7, .tid = 8, .name = "worker", .process = "server"};
  (void)scope.MatchesTarget(info.pid, info.process);
  (void)scope.MatchesThread(info);
}

void CheckError(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument);
  Require(!status.message().empty());
}

void TryFetch(const uint8_t* data, size_t size) {
  profd::v1::FetchRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return;
  const auto plan = profd::ParseFetch(request, kNowNs, kWallOffsetNs);
  if (!plan.ok()) return CheckError(plan.status());
  CheckScope(*plan);
  if (plan->baseline) CheckScope(*plan->baseline);
  Require(!plan->types.empty() && plan->types.size() <= profd::kKindCount);
  for (const profd::SampleTypeInfo* type : plan->types) Require(type != nullptr);
  if (plan->longest) Require(plan->longest->limit > 0 && plan->longest->limit <= 1000);
  (void)plan->NeedsLevels();
  (void)plan->Shows({});
}

void TryMemory(const uint8_t* data, size_t size) {
  profd::v1::GetMemoryRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return;
  const auto plan = profd::ParseMemory(request, kNowNs, kWallOffsetNs);
  if (!plan.ok()) return CheckError(plan.status());
  CheckScope(*plan);
  Require(plan->max_points > 0 && plan->max_sites <= 100);
}

void TryStacks(const uint8_t* data, size_t size) {
  profd::v1::GetStacksRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return;
  const auto scope = profd::ParseStacks(request);
  if (!scope.ok()) return CheckError(scope.status());
  Require(scope->targets.size() <= 64);
}

}  // namespace

// Every other input is no message, and protobuf would say so.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  switch (data[0] % 3) {
    case 0:
      TryFetch(data + 1, size - 1);
      break;
    case 1:
      TryMemory(data + 1, size - 1);
      break;
    default:
      TryStacks(data + 1, size - 1);
  }
  return 0;
}
