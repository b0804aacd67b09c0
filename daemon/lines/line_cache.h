// Lines that were looked up before, within bounds.
#ifndef PROFD_DAEMON_LINES_LINE_CACHE_H_
#define PROFD_DAEMON_LINES_LINE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_set.h"
#include "daemon/lines/source_line.h"

namespace profd {

// Forgets whole files, those first that were used longest ago. Not thread-safe.
class LineCache {
 public:
  explicit LineCache(size_t max_bytes = 8 << 20) : max_bytes_(max_bytes) {}

  // False if it is not known. Empty chains are known, too.
  bool Get(uint64_t file, uint64_t address, LineChain* chain);
  bool Knows(uint64_t file, uint64_t address) const;
  void Put(uint64_t file, uint64_t address, const LineChain& chain);
  void Forget(uint64_t file);
  size_t bytes() const { return bytes_; }
  size_t entries() const;

 private:
  struct Line {
    const std::string* function;
    const std::string* file;
    uint32_t line;
  };
  struct Chain {
    uint32_t first;
    uint32_t size;
  };
  struct File {
    uint64_t used = 0;
    size_t bytes = 0;
    absl::node_hash_set<std::string> texts;
    std::vector<Line> lines;
    absl::flat_hash_map<uint64_t, Chain> chains;  // by address
  };

  const std::string* Intern(std::string_view text, File& file);
  void DropOldest();

  const size_t max_bytes_;
  std::map<uint64_t, File> files_;
  uint64_t uses_ = 0;
  size_t bytes_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_LINE_CACHE_H_
