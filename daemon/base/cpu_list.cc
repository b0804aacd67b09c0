#include "daemon/base/cpu_list.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/fd.h"

namespace profd {
namespace {

constexpr char kOnline[] = "/sys/devices/system/cpu/online";
constexpr size_t kLongestList = 1 << 16;

// SimpleAtoi also takes a sign and spaces.
bool ParseCpu(absl::string_view text, uint32_t limit, uint32_t* cpu) {
  return !text.empty() && absl::ascii_isdigit(static_cast<unsigned char>(text.front())) &&
         absl::ascii_isdigit(static_cast<unsigned char>(text.back())) &&
         absl::SimpleAtoi(text, cpu) && *cpu < limit;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ParseCpuList(std::string_view text, uint32_t limit) {
  std::vector<uint32_t> cpus;
  const absl::string_view list =
      absl::StripTrailingAsciiWhitespace(absl::string_view(text.data(), text.size()));
  if (list.empty()) return cpus;
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    const std::pair<absl::string_view, absl::string_view> range =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    uint32_t first = 0;
    if (!ParseCpu(range.first, limit, &first)) {
      return absl::InvalidArgumentError(absl::StrCat("not a list of CPUs: ", list.substr(0, 100)));
    }
    uint32_t last = first;
    const bool is_range = range.first.size() != part.size();
    if ((is_range && !ParseCpu(range.second, limit, &last)) || last < first ||
        (!cpus.empty() && first <= cpus.back())) {
      return absl::InvalidArgumentError(absl::StrCat("not a list of CPUs: ", list.substr(0, 100)));
    }
    for (uint32_t cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

absl::StatusOr<std::vector<uint32_t>> OnlineCpus(uint32_t limit) {
  ASSIGN_OR_RETURN(const std::string list, ReadWholeFile(kOnline, kLongestList));
  return ParseCpuList(list, limit);
}

}  // namespace profd
