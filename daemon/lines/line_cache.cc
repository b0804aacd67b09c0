#include "daemon/lines/line_cache.h"

#include <algorithm>

namespace profd {
namespace {

// A node, a slot of a hash table at its usual load.
constexpr size_t kTextBytes = sizeof(std::string) + 3 * sizeof(void*);
constexpr size_t kChainBytes = 32;

}  // namespace

const std::string* LineCache::Intern(std::string_view text, File& file) {
  const auto [it, fresh] = file.texts.emplace(text);
  if (fresh) file.bytes += kTextBytes + it->capacity();
  return &*it;
}

bool LineCache::Get(uint64_t file, uint64_t address, LineChain* chain) {
  const auto known = files_.find(file);
  if (known == files_.end()) return false;
  const auto at = known->second.chains.find(address);
  if (at == known->second.chains.end()) return false;
  known->second.used = ++uses_;
  chain->clear();
  for (uint32_t i = 0; i < at->second.size; ++i) {
    const Line& line = known->second.lines[at->second.first + i];
    chain->push_back({.function = *line.function, .file = *line.file, .line = line.line});
  }
  return true;
}

bool LineCache::Knows(uint64_t file, uint64_t address) const {
  const auto known = files_.find(file);
  return known != files_.end() && known->second.chains.contains(address);
}

void LineCache::Put(uint64_t number, uint64_t address, const LineChain& chain) {
  File& file = files_[number];
  file.used = ++uses_;
  const size_t before = file.bytes;
  const Chain entry = {.first = static_cast<uint32_t>(file.lines.size()),
                       .size = static_cast<uint32_t>(chain.size())};
  if (!file.chains.emplace(address, entry).second) return;
  for (const SourceLine& line : chain) {
    file.lines.push_back({.function = Intern(line.function, file),
                          .file = Intern(line.file, file),
                          .line = line.line});
  }
  file.bytes += kChainBytes + chain.size() * sizeof(Line);
  bytes_ += file.bytes - before;
  while (bytes_ > max_bytes_) DropOldest();
}

void LineCache::Forget(uint64_t number) {
  const auto known = files_.find(number);
  if (known == files_.end()) return;
  bytes_ -= known->second.bytes;
  files_.erase(known);
}

void LineCache::DropOldest() {
  const auto oldest =
      std::min_element(files_.begin(), files_.end(),
                       [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  bytes_ -= oldest->second.bytes;
  files_.erase(oldest);
}

size_t LineCache::entries() const {
  size_t entries = 0;
  for (const auto& [number, file] : files_) entries += file.chains.size();
  return entries;
}

}  // namespace profd
