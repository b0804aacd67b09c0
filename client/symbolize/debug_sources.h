// Files on this machine that may name the functions of an answer.
#ifndef PROFD_CLIENT_SYMBOLIZE_DEBUG_SOURCES_H_
#define PROFD_CLIENT_SYMBOLIZE_DEBUG_SOURCES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/symbolize/debuginfod.h"
#include "daemon/base/fd.h"
#include "daemon/elf/elf_file.h"
#include "daemon/lines/companion_files.h"

namespace profctl {

struct DebugOptions {
  std::vector<std::string> files;         // --debug-file
  std::vector<std::string> directories;   // --debug-dir
  std::vector<std::string> servers = {};  // --debuginfod, URLs
};

// An open file with symbols or DWARF.
struct DebugSource {
  std::string path;
  std::shared_ptr<const profd::UniqueFd> fd;
  profd::symbolize::ElfFile elf;  // reads from fd
  std::string build_id;           // hex; may be empty
  bool used = false;
};

// Finds files by what an answer says of its modules. Hostile input is read within bounds.
class DebugSources {
 public:
  // Opens the named files. The error names one that is no ELF file, or has neither symbols nor
  // debug info.
  static absl::StatusOr<DebugSources> Open(const DebugOptions& options);

  // A file of the same build: with this build-id, else with this code (see
  // profd::symbolize::CodeIdOf). Named files come first; then /usr/lib/debug and the directories,
  // by name of the build-id, and every file that lies directly in a directory; then, if
  // `ask_servers`, the servers. Null if there is none. Either id may be empty. Valid as long as
  // this.
  DebugSource* Find(const std::string& build_id, const std::string& code_id, bool ask_servers);

  // Opens what the debug info of a file refers to.
  std::shared_ptr<const profd::CompanionFiles> CompanionsOf(const DebugSource& source) const;

  // Named files that Find never returned.
  std::vector<const DebugSource*> Unused() const;

 private:
  // A file in a directory: closed again, as there may be many.
  struct Candidate {
    std::string path;
    std::string build_id;
    std::optional<std::string> code_id;
  };

  DebugSource* FindByName(const std::string& build_id);
  DebugSource* FindOnServers(const std::string& build_id);
  DebugSource* FindInDirectories(const std::string& build_id, const std::string& code_id);
  void ListDirectories();
  DebugSource* Keep(DebugSource source);

  std::vector<std::string> directories_;
  std::optional<Debuginfod> debuginfod_;
  std::vector<std::unique_ptr<DebugSource>> named_;
  std::vector<std::unique_ptr<DebugSource>> found_;
  std::optional<std::vector<Candidate>> candidates_;
  uint64_t code_bytes_left_ = uint64_t{8} << 30;  // what is read to identify code
};

}  // namespace profctl

#endif  // PROFD_CLIENT_SYMBOLIZE_DEBUG_SOURCES_H_
