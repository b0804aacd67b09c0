// A dictionary that gives out small, reused numbers and forgets what nobody names any more.
#ifndef PROFD_DAEMON_STORE_SLOT_TABLE_H_
#define PROFD_DAEMON_STORE_SLOT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace profd {

// Entries are in use while a delta that is kept names them, then stale, then dropped. Both lists
// are in the order of the last use, so every step costs O(1). Not thread-safe.
template <typename Key, typename Value>
class SlotTable {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  // The slot of `key`, or kNone.
  uint32_t Find(const Key& key) const {
    const auto it = index_.find(key);
    return it == index_.end() ? kNone : it->second;
  }

  // A new slot; `key` must not be there. `bytes` is what the value takes beside its entry.
  uint32_t Insert(const Key& key, Value value, size_t bytes) {
    uint32_t slot;
    if (free_.empty()) {
      slot = static_cast<uint32_t>(entries_.size());
      entries_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    index_.emplace(key, slot);
    Entry& entry = entries_[slot];
    entry.key = key;
    entry.value = std::move(value);
    entry.bytes = bytes + kEntryBytes;
    bytes_ += entry.bytes;
    PushBack(&in_use_, slot);
    return slot;
  }

  void Replace(uint32_t slot, Value value, size_t bytes) {
    Entry& entry = entries_[slot];
    const size_t size = bytes + kEntryBytes;
    bytes_ += size - entry.bytes;
    if (entry.stale) stale_bytes_ += size - entry.bytes;
    entry.bytes = size;
    entry.value = std::move(value);
  }

  // Notes that the delta with this number and end names the slot.
  void Use(uint32_t slot, uint64_t delta, int64_t now_ns) {
    Entry& entry = entries_[slot];
    Unlink(entry.stale ? &stale_ : &in_use_, slot);
    if (entry.stale) stale_bytes_ -= entry.bytes;
    entry.stale = false;
    entry.delta = delta;
    entry.used_ns = now_ns;
    PushBack(&in_use_, slot);
  }

  // What only deltas before `oldest_delta` name becomes stale.
  void Expire(uint64_t oldest_delta) {
    while (in_use_.head != kNone && entries_[in_use_.head].delta < oldest_delta) {
      const uint32_t slot = in_use_.head;
      Unlink(&in_use_, slot);
      PushBack(&stale_, slot);
      entries_[slot].stale = true;
      stale_bytes_ += entries_[slot].bytes;
    }
  }

  // Drops the stale entry that was used longest ago. False when there is none.
  bool DropStale() { return DropStaleBefore(std::numeric_limits<int64_t>::max()); }
  // The same, when it was last used before `instant_ns`.
  bool DropStaleBefore(int64_t instant_ns) {
    const uint32_t slot = stale_.head;
    if (slot == kNone || entries_[slot].used_ns >= instant_ns) return false;
    Entry& entry = entries_[slot];
    Unlink(&stale_, slot);
    index_.erase(entry.key);
    bytes_ -= entry.bytes;
    stale_bytes_ -= entry.bytes;
    entry = Entry{};
    free_.push_back(slot);
    return true;
  }

  // The values by slot; those of free slots are empty.
  std::vector<Value> Snapshot() const {
    std::vector<Value> values;
    values.reserve(entries_.size());
    for (const Entry& entry : entries_) values.push_back(entry.value);
    return values;
  }

  const Value& value(uint32_t slot) const { return entries_[slot].value; }
  size_t size() const { return index_.size(); }
  size_t bytes() const { return bytes_; }
  size_t stale_bytes() const { return stale_bytes_; }

 private:
  struct Entry {
    Key key{};
    Value value{};
    size_t bytes = 0;
    uint64_t delta = 0;   // number of the last delta that names it
    int64_t used_ns = 0;  // and its end
    uint32_t previous = kNone, next = kNone;
    bool stale = false;
  };
  struct List {
    uint32_t head = kNone, tail = kNone;
  };
  // Entry, free-list place and hash slot at the map's usual load.
  static constexpr size_t kEntryBytes =
      sizeof(Entry) + sizeof(uint32_t) + 3 * (sizeof(std::pair<Key, uint32_t>) + 1) / 2;

  void PushBack(List* list, uint32_t slot) {
    Entry& entry = entries_[slot];
    entry.previous = list->tail;
    entry.next = kNone;
    (list->tail == kNone ? list->head : entries_[list->tail].next) = slot;
    list->tail = slot;
  }
  void Unlink(List* list, uint32_t slot) {
    const Entry& entry = entries_[slot];
    (entry.previous == kNone ? list->head : entries_[entry.previous].next) = entry.next;
    (entry.next == kNone ? list->tail : entries_[entry.next].previous) = entry.previous;
  }

  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  absl::flat_hash_map<Key, uint32_t> index_;
  List in_use_, stale_;
  size_t bytes_ = 0, stale_bytes_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_SLOT_TABLE_H_
