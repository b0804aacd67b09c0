#include "tests/support/places.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace profd::test {

std::string InBuild(std::string_view name) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(name).string();
}

std::string InSource(std::string_view name) {
  return (std::filesystem::path(PROFD_SOURCE_DIR) / name).string();
}

}  // namespace profd::test
