#include "daemon/probes/jemalloc_settings.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/target/procfs.h"

namespace profd {
namespace {

// The kernel lets a program start with some megabytes.
constexpr size_t kMaxEnvironment = 16 << 20;
constexpr uint32_t kMaxLgSample = 63;

// A bool of a process; empty when it cannot be read or is none.
std::optional<bool> ReadBool(int32_t pid, std::optional<uint64_t> address) {
  uint8_t value = 0;
  if (!address || !ReadMemory(pid, *address, &value, sizeof(value)).ok() || value > 1) {
    return std::nullopt;
  }
  return value == 1;
}

std::optional<uint32_t> ReadLgSample(int32_t pid, std::optional<uint64_t> address) {
  uint64_t value = 0;
  if (!address || !ReadMemory(pid, *address, &value, sizeof(value)).ok() || value > kMaxLgSample) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(value);
}

}  // namespace

EnvironmentSettings ParseEnvironment(absl::string_view environment, absl::string_view variable) {
  EnvironmentSettings settings;
  const std::string head = absl::StrCat(variable, "=");
  for (absl::string_view text : absl::StrSplit(environment, '\0')) {
    if (!absl::ConsumePrefix(&text, head)) continue;
    for (const absl::string_view pair : absl::StrSplit(text, ',')) {
      const std::pair<absl::string_view, absl::string_view> setting =
          absl::StrSplit(pair, absl::MaxSplits(':', 1));
      uint32_t number = 0;
      if (setting.first == "prof" && (setting.second == "true" || setting.second == "false")) {
        settings.profiling = setting.second == "true";
      } else if (setting.first == "lg_prof_sample" && absl::SimpleAtoi(setting.second, &number) &&
                 number <= kMaxLgSample) {
        settings.lg_sample = number;
      }
    }
    break;
  }
  return settings;
}

JemallocSettings ReadJemallocSettings(int32_t pid, int fd, const JemallocInfo& jemalloc) {
  const SampledObjects& objects = jemalloc.objects;
  JemallocSettings settings;
  const absl::StatusOr<uint64_t> code = FindCode(pid, fd, objects.born);
  // Where the process has a variable, which the file has at `address`.
  const auto in_memory = [&](uint64_t address) -> std::optional<uint64_t> {
    if (!code.ok() || address == 0) return std::nullopt;
    return address + (*code - objects.born_address);
  };
  settings.profiling = ReadBool(pid, in_memory(objects.opt_prof));
  settings.active = ReadBool(pid, in_memory(objects.prof_active)).value_or(true);
  const std::optional<uint32_t> lg_sample = ReadLgSample(pid, in_memory(objects.lg_prof_sample));
  if (lg_sample) {
    settings.lg_sample = *lg_sample;
    settings.source = JemallocSettings::Source::kMemory;
  }
  if (settings.profiling && lg_sample) return settings;
  const auto environment = ReadWholeFile(absl::StrCat("/proc/", pid, "/environ"), kMaxEnvironment);
  if (!environment.ok()) return settings;
  const EnvironmentSettings said = ParseEnvironment(*environment, jemalloc.settings_variable);
  if (!settings.profiling) settings.profiling = said.profiling;
  if (!lg_sample && said.lg_sample) {
    settings.lg_sample = *said.lg_sample;
    settings.source = JemallocSettings::Source::kEnvironment;
  }
  return settings;
}

std::string DescribeMissing(const JemallocSettings& settings, const JemallocInfo& jemalloc) {
  if (!jemalloc.objects.note.empty()) return jemalloc.objects.note;
  const std::string& variable = jemalloc.settings_variable;
  if (settings.profiling == false) {
    return absl::StrCat(
        "the live heap is not known: jemalloc runs without profiling; start the process with ",
        variable, "=prof:true");
  }
  if (!settings.active) {
    return "jemalloc's profiling is not active at present (prof.active): objects that come to life "
           "meanwhile are not counted";
  }
  if (!settings.profiling) {
    return absl::StrCat("whether jemalloc profiles cannot be read; it does when started with ",
                        variable, "=prof:true");
  }
  if (settings.source == JemallocSettings::Source::kDefault) {
    return absl::StrCat("jemalloc's sampling interval cannot be read and its default is assumed; ",
                        variable, "=prof:true,lg_prof_sample:19 says it");
  }
  return "";
}

}  // namespace profd
