#include "daemon/base/log.h"

#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace profd {
namespace {

spdlog::level::level_enum LibraryLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void StartLog(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("profd"));
  spdlog::set_pattern("profd: %^%l%$: %v");
  spdlog::set_level(spdlog::level::from_str(level));
}

bool ShouldLog(LogLevel level) { return spdlog::should_log(LibraryLevel(level)); }

void LogText(LogLevel level, std::string_view text) {
  spdlog::log(LibraryLevel(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace profd
