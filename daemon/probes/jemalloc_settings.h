// What a process says of jemalloc's own profiling: whether it runs, and how densely it samples.
#ifndef PROFD_DAEMON_PROBES_JEMALLOC_SETTINGS_H_
#define PROFD_DAEMON_PROBES_JEMALLOC_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "daemon/heap/jemalloc.h"

namespace profd {

// What jemalloc has where nothing else is said.
inline constexpr uint32_t kDefaultLgSample = 19;

struct JemallocSettings {
  // Where the sampling interval is from: the process's memory, the variable it was started with, or
  // from nowhere.
  enum class Source : uint8_t { kMemory, kEnvironment, kDefault };

  std::optional<bool> profiling;          // on since the program began; empty: not known
  bool active = true;                     // and it samples at present
  uint32_t lg_sample = kDefaultLgSample;  // log2 of the mean bytes from one sample to the next
  Source source = Source::kDefault;
};

// Of the process that has the file behind `fd`, in which `jemalloc` was found. Where its memory
// cannot be read or does not hold what it should, its environment tells, where that says nothing
// either, jemalloc's defaults.
JemallocSettings ReadJemallocSettings(int32_t pid, int fd, const JemallocInfo& jemalloc);

// What the settings in a process's environment (strings that end in NUL) say; jemalloc's first
// string of that name counts, and in it the last setting.
struct EnvironmentSettings {
  std::optional<bool> profiling;
  std::optional<uint32_t> lg_sample;
};
EnvironmentSettings ParseEnvironment(absl::string_view environment, absl::string_view variable);

// For a person: what of the live heap is not known, and what to do; empty when all is.
std::string DescribeMissing(const JemallocSettings& settings, const JemallocInfo& jemalloc);

}  // namespace profd

#endif  // PROFD_DAEMON_PROBES_JEMALLOC_SETTINGS_H_
