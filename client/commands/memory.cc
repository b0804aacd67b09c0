#include "client/commands/memory.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/commands/fetch.h"
#include "client/connection.h"
#include "client/render/memory.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr std::chrono::seconds kConnectTimeout(5);
constexpr std::chrono::minutes kMemoryTimeout(1);
constexpr size_t kMostSites = 5;

// What the locale says of the terminal, by the first of its variables that is set.
bool IsUtf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = absl::AsciiStrToLower(value);
    return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  }
  return false;
}

// Who allocated in the processes that the page tells in full.
void AskForSites(const std::string& server, MemoryReport* report) {
  profd::v1::FetchRequest request;
  request.set_kind(profd::v1::PROFILE_KIND_ALLOC);
  request.set_begin_ns(std::max<int64_t>(report->memory.begin_ns(), 1));
  request.set_end_ns(report->memory.end_ns());
  for (int i = 0; i < std::min(report->memory.processes_size(), kMostMemoryBlocks); ++i) {
    const profd::v1::ProcessMemory& process = report->memory.processes(i);
    if (process.allocated_bytes() > 0) request.add_targets(std::to_string(process.pid()));
  }
  if (request.targets().empty()) return;
  const absl::StatusOr<Profile> profile = ReceiveProfile(server, request);
  if (!profile.ok()) {
    report->sites_note = absl::StrCat("who allocated is not known: ", profile.status().message());
    return;
  }
  for (const std::string& target : request.targets()) {
    const int32_t pid = std::stoi(target);
    report->sites[pid] = TopSites(*profile, pid, kMostSites);
  }
}

}  // namespace

absl::Status PrintMemory(const MemoryOptions& options, std::ostream& out) {
  MemoryReport report;
  report.past = options.request.end_ns() != 0;
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection,
                     Connection::Open(options.server, kConnectTimeout));
    grpc::ClientContext context;
    SetDeadline(context, kMemoryTimeout);
    RETURN_IF_ERROR(connection->Explain(
        connection->stub().GetMemory(&context, options.request, &report.memory)));
  }
  RETURN_IF_ERROR(CheckMemory(report.memory));
  AskForSites(options.server, &report);
  out << (options.json ? RenderMemoryJson(report)
                       : RenderMemoryText(report, options.colour, IsUtf8Locale()))
      << std::flush;
  if (!out.good()) return absl::DataLossError("cannot write to stdout; the answer is cut off");
  return absl::OkStatus();
}

}  // namespace profctl
