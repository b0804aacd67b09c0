#include "client/commands/memory.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "client/io/connection.h"
#include "client/render/memory.h"
#include "client/render/memory_figures.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr std::chrono::seconds kConnectTimeout(5);
constexpr std::chrono::minutes kMemoryTimeout(1);
constexpr uint32_t kMostSites = 5;

// Whether the locale is UTF-8, by the first of its variables that is set.
bool IsUtf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = absl::AsciiStrToLower(value);
    return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  }
  return false;
}

}  // namespace

absl::Status PrintMemory(const MemoryOptions& options, std::ostream& out) {
  MemoryReport report;
  report.past = options.request.window().end_ns() != 0;
  profd::v1::GetMemoryRequest request = options.request;
  request.set_max_sites(kMostSites);
  ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection,
                   Connection::Open(options.server, kConnectTimeout));
  grpc::ClientContext context;
  SetDeadline(context, kMemoryTimeout);
  RETURN_IF_ERROR(
      connection->Explain(connection->stub().GetMemory(&context, request, &report.memory)));
  RETURN_IF_ERROR(CheckMemory(report.memory));
  out << (options.json ? RenderMemoryJson(report)
                       : RenderMemoryText(report, options.colour, IsUtf8Locale()))
      << std::flush;
  if (!out.good()) return absl::DataLossError("cannot write to stdout; the answer is cut off");
  return absl::OkStatus();
}

}  // namespace profctl
