// Writes answers. Files appear completely or not at all.
#ifndef PROFD_CLIENT_IO_OUTPUT_H_
#define PROFD_CLIENT_IO_OUTPUT_H_

#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace profctl {

// Writes to stdout. DataLoss if not all of it could be written.
absl::Status Print(std::string_view text, std::ostream& out);

// Replaces a file, through a temporary one in the same directory. Follows symbolic links. Writes
// directly to anything that is not a regular file (a terminal, a pipe).
absl::Status WriteFile(const std::string& path, std::string_view content);

// As WriteFile, but never replaces a file: if "stemsuffix" exists, tries "stem-1suffix",
// "stem-2suffix" ... Returns the path used.
absl::StatusOr<std::string> WriteNewFile(const std::string& stem, const std::string& suffix,
                                         std::string_view content);

// A file name made from any text: letters, digits, '.', '_' and '-', at most 40, never empty and
// never beginning with '.' or '-'.
std::string FileNamePart(std::string_view text);

}  // namespace profctl

#endif  // PROFD_CLIENT_IO_OUTPUT_H_
