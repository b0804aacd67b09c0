// A dictionary that forgets what was not used for a while.
#ifndef PROFD_DAEMON_STORE_RECENT_TABLE_H_
#define PROFD_DAEMON_STORE_RECENT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace profd {

// Entries in the order of their last use, so that every step costs O(1). Not thread-safe.
template <typename Key, typename Value>
class RecentTable {
 public:
  // Null if there is none. It counts as used.
  std::shared_ptr<const Value> Use(const Key& key, int64_t now_ns) {
    const auto it = index_.find(key);
    if (it == index_.end()) return nullptr;
    it->second->used_ns = now_ns;
    order_.splice(order_.end(), order_, it->second);
    return it->second->value;
  }

  std::shared_ptr<const Value> Find(const Key& key) const {
    const auto it = index_.find(key);
    return it == index_.end() ? nullptr : it->second->value;
  }

  // Adds it or puts it in the place of the former one. `bytes`: what the value takes.
  void Put(const Key& key, std::shared_ptr<const Value> value, size_t bytes, int64_t now_ns) {
    const auto [it, fresh] = index_.try_emplace(key);
    if (fresh) {
      it->second = order_.insert(order_.end(), Entry{});
      it->second->key = key;
    } else {
      bytes_ -= it->second->bytes;
    }
    Entry& entry = *it->second;
    entry.value = std::move(value);
    entry.bytes = bytes + kEntryBytes;
    entry.used_ns = now_ns;
    bytes_ += entry.bytes;
    order_.splice(order_.end(), order_, it->second);
  }

  void ForgetBefore(int64_t instant_ns) {
    while (!order_.empty() && order_.front().used_ns < instant_ns) ForgetOldest();
  }
  // False when there is none.
  bool ForgetOldest() {
    if (order_.empty()) return false;
    bytes_ -= order_.front().bytes;
    index_.erase(order_.front().key);
    order_.pop_front();
    return true;
  }

  // When the oldest was used; the end of time if there is none.
  int64_t oldest_ns() const {
    return order_.empty() ? std::numeric_limits<int64_t>::max() : order_.front().used_ns;
  }
  size_t size() const { return index_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    Key key{};
    std::shared_ptr<const Value> value;
    size_t bytes = 0;
    int64_t used_ns = 0;
  };
  using Order = std::list<Entry>;
  // Node of the list and slot of the map at its usual load.
  static constexpr size_t kEntryBytes =
      sizeof(Entry) + 4 * sizeof(void*) + 3 * (sizeof(Key) + sizeof(void*) + 1) / 2;

  Order order_;
  absl::flat_hash_map<Key, typename Order::iterator> index_;
  size_t bytes_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_STORE_RECENT_TABLE_H_
