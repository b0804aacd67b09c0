// Fields of the text files of /proc and of cgroups.
#ifndef PROFD_DAEMON_MEMORY_FIELDS_H_
#define PROFD_DAEMON_MEMORY_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace profd {

// The pieces of `text` between separators, including empty ones.
std::vector<std::string_view> SplitAt(std::string_view text, char separator);

// `text` as a decimal number of at most 2^62, so that two of them can be added.
std::optional<int64_t> ParseNumber(std::string_view text);

}  // namespace profd

#endif  // PROFD_DAEMON_MEMORY_FIELDS_H_
