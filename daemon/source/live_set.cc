#include "daemon/source/live_set.h"

#include "daemon/base/wrapping.h"

namespace profd {

void LiveSet::Count(const Entry& entry, int64_t sign) {
  Change& change = changes_[Place(entry.thread, entry.stack)];
  change.bytes = WrappingAdd(change.bytes, sign * entry.bytes);
  change.count += sign;
  bytes_ = WrappingAdd(bytes_, sign * entry.bytes);
}

void LiveSet::Add(ThreadId process, uint64_t address, Entry entry) {
  const auto [it, added] = processes_[process].try_emplace(address);
  if (added) {
    ++size_;
  } else {
    Count(it->second, -1);
  }
  entry.serial = next_serial_++;
  it->second = entry;
  Count(entry, 1);
}

void LiveSet::Remove(ThreadId process, uint64_t address) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  const auto it = found->second.find(address);
  if (it == found->second.end()) return;
  Count(it->second, -1);
  --size_;
  found->second.erase(it);
}

LiveSet::Entry* LiveSet::Find(ThreadId process, uint64_t address, uint64_t serial) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return nullptr;
  const auto it = found->second.find(address);
  return it != found->second.end() && it->second.serial == serial ? &it->second : nullptr;
}

void LiveSet::RemoveIfSame(ThreadId process, uint64_t address, uint64_t serial) {
  if (Find(process, address, serial) != nullptr) Remove(process, address);
}

void LiveSet::Reweigh(ThreadId process, uint64_t address, uint64_t serial, int64_t bytes,
                      uint32_t one_in) {
  Entry* entry = Find(process, address, serial);
  if (entry == nullptr) return;
  Count(*entry, -1);
  entry->bytes = bytes;
  entry->one_in = one_in;
  Count(*entry, 1);
}

bool LiveSet::HasSince(ThreadId process, uint64_t address, uint64_t serial) const {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return false;
  const auto entry = found->second.find(address);
  return entry != found->second.end() && entry->second.serial >= serial;
}

void LiveSet::RemoveProcess(ThreadId process) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  for (const auto& [address, entry] : found->second) Count(entry, -1);
  size_ -= found->second.size();
  processes_.erase(found);
}

void LiveSet::Finish(ProfileDelta& delta) {
  for (const auto& [place, change] : changes_) {
    if (change.bytes == 0 && change.count == 0) continue;
    delta.samples.push_back({.key = {.thread = place.first, .stack = place.second, .kind = kind_},
                             .weight = change.bytes,
                             .ticks = change.count});
  }
  changes_.clear();
}

}  // namespace profd
