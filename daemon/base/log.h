// Messages to the operator, on stderr. Only log.cc includes the library behind them: its headers
// are slow to compile.
#ifndef PROFD_DAEMON_BASE_LOG_H_
#define PROFD_DAEMON_BASE_LOG_H_

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace profd {

enum class LogLevel { kTrace, kDebug, kInfo, kWarning, kError };

// Starts each message with the program's name, and leaves out those below `level`: "trace",
// "debug", "info", "warning", "error" or "off".
void StartLog(const std::string& level);

bool ShouldLog(LogLevel level);
void LogText(LogLevel level, std::string_view text);

// A message of these parts, one after another (absl::StrCat).
template <typename... Parts>
void Log(LogLevel level, const Parts&... parts) {
  if (ShouldLog(level)) LogText(level, absl::StrCat(parts...));
}

template <typename... Parts>
void LogDebug(const Parts&... parts) {
  Log(LogLevel::kDebug, parts...);
}
template <typename... Parts>
void LogInfo(const Parts&... parts) {
  Log(LogLevel::kInfo, parts...);
}
template <typename... Parts>
void LogWarning(const Parts&... parts) {
  Log(LogLevel::kWarning, parts...);
}
template <typename... Parts>
void LogError(const Parts&... parts) {
  Log(LogLevel::kError, parts...);
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_LOG_H_
