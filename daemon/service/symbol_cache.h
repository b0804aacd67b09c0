// Names that were looked up before, within bounds.
#ifndef PROFD_DAEMON_SERVICE_SYMBOL_CACHE_H_
#define PROFD_DAEMON_SERVICE_SYMBOL_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "daemon/profile/profile.h"
#include "daemon/symbolize/symbolizer.h"

namespace profd {

struct SymbolKey {
  ModuleId module{};
  // Hash of what the module's file says about itself: an id or a build-id alone may be used again.
  uint64_t identity = 0;
  uint64_t offset = 0;
  friend bool operator==(const SymbolKey&, const SymbolKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const SymbolKey& k) {
    return H::combine(std::move(h), k.module, k.identity, k.offset);
  }
};

// Drops what was used longest ago. Not thread-safe.
class SymbolCache {
 public:
  explicit SymbolCache(size_t max_entries = 64 << 10, size_t max_bytes = 8 << 20)
      : max_entries_(max_entries), max_bytes_(max_bytes) {}

  // Null when it is not there; valid until the next Put.
  const Symbol* Get(const SymbolKey& key);
  void Put(const SymbolKey& key, Symbol symbol);
  size_t entries() const { return index_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  using Entries = std::list<std::pair<SymbolKey, Symbol>>;
  static size_t BytesOf(const Symbol& symbol);
  void DropLast();

  const size_t max_entries_;
  const size_t max_bytes_;
  Entries entries_;  // latest use first
  absl::flat_hash_map<SymbolKey, Entries::iterator> index_;
  size_t bytes_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_SYMBOL_CACHE_H_
