// A shared library that the tests compile, and what is left of it when it is stripped in some way.
#ifndef PROFD_TESTS_UNIT_STRIPPED_LIBRARY_H_
#define PROFD_TESTS_UNIT_STRIPPED_LIBRARY_H_

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/elf_symbols.h"
#include "daemon/symbolize/symbolizer.h"
#include "gtest/gtest.h"

namespace profd::test {

// A directory that goes with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "profdXXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = std::filesystem::canonical(pattern).string();
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs a command of the shell, which must succeed.
inline void Shell(const std::string& command) {
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

// Compiles the library with `flags` into `path`. Needs a C compiler and binutils.
void BuildLibrary(const std::string& path, const std::string& flags = "");

// Address and size of a function of an unstripped library.
symbolize::NamedSymbol FunctionIn(const std::string& path, const std::string& name);

// The names of `addresses` (virtual) in the file `path`, as a module of that path.
std::vector<Symbol> NamesIn(const std::string& path, const std::vector<uint64_t>& addresses);
Symbol NameIn(const std::string& path, uint64_t address);

}  // namespace profd::test

#endif  // PROFD_TESTS_UNIT_STRIPPED_LIBRARY_H_
