#include "daemon/service/symbol_cache.h"

namespace profd {

size_t SymbolCache::BytesOf(const Symbol& symbol) {
  // A list node, an index slot, and the name where it does not fit into the string itself.
  constexpr size_t kEntry = sizeof(Entries::value_type) + 2 * sizeof(void*) +
                            2 * (sizeof(SymbolKey) + sizeof(void*)) + 16;
  size_t details = 0;
  if (symbol.details != nullptr) {
    // With the block that counts references.
    details = sizeof(NameDetails) + 4 * sizeof(void*) + symbol.details->suffix.capacity();
    for (const std::string& name : symbol.details->other_names) {
      details += sizeof(std::string) + name.capacity();
    }
  }
  return kEntry + symbol.function.capacity() + details;
}

const Symbol* SymbolCache::Get(const SymbolKey& key) {
  const auto it = index_.find(key);
  if (it == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it->second);
  return &it->second->second;
}

void SymbolCache::Put(const SymbolKey& key, Symbol symbol) {
  if (const auto it = index_.find(key); it != index_.end()) {
    bytes_ -= BytesOf(it->second->second);
    entries_.erase(it->second);
    index_.erase(it);
  }
  bytes_ += BytesOf(symbol);
  entries_.emplace_front(key, std::move(symbol));
  index_.emplace(key, entries_.begin());
  while (index_.size() > max_entries_ || (bytes_ > max_bytes_ && !entries_.empty())) DropLast();
}

void SymbolCache::DropLast() {
  bytes_ -= BytesOf(entries_.back().second);
  index_.erase(entries_.back().first);
  entries_.pop_back();
}

}  // namespace profd
