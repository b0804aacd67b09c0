#include "daemon/source/sample_log.h"

#include <algorithm>
#include <cstring>

namespace profd {
namespace {

// So much is to be gained by merging, else it is not done again until the log was emptied.
constexpr size_t kLeastGain = 8;  // a part of so many

void AddTo(CounterEntry& entry, const profd_sample_value& value) {
  entry.second.weight += value.weight;
  entry.second.count += value.count;
}

int Compare(const profd_sample_key& a, const profd_sample_key& b) {
  return std::memcmp(&a, &b, sizeof(a));
}

}  // namespace

void MergeEntries(std::vector<CounterEntry>& entries) {
  if (entries.empty()) return;
  std::sort(entries.begin(), entries.end(), [](const CounterEntry& a, const CounterEntry& b) {
    return Compare(a.first, b.first) < 0;
  });
  size_t last = 0;
  for (size_t i = 1; i < entries.size(); ++i) {
    if (Compare(entries[last].first, entries[i].first) == 0) {
      AddTo(entries[last], entries[i].second);
    } else {
      entries[++last] = entries[i];
    }
  }
  entries.resize(last + 1);
}

bool SampleLog::MakeRoom() {
  if (full_) return false;
  MergeEntries(entries_);
  ++round_;
  sorted_ = entries_.size();
  full_ = entries_.size() > limit_ - limit_ / kLeastGain;
  return entries_.size() < limit_;
}

bool SampleLog::AddToSorted(const profd_sample_key& key, const profd_sample_value& value,
                            SamplePlace& place) {
  const auto end = entries_.begin() + static_cast<ptrdiff_t>(sorted_);
  const auto it = std::lower_bound(entries_.begin(), end, key,
                                   [](const CounterEntry& entry, const profd_sample_key& k) {
                                     return Compare(entry.first, k) < 0;
                                   });
  if (it == end || Compare(it->first, key) != 0) return false;
  AddTo(*it, value);
  place = {.round = round_, .index = static_cast<uint32_t>(it - entries_.begin())};
  return true;
}

bool SampleLog::Add(const profd_sample_key& key, const profd_sample_value& value,
                    SamplePlace& place) {
  if (place.round == round_) {
    CounterEntry& entry = entries_[place.index];
    if (Compare(entry.first, key) == 0) {
      AddTo(entry, value);
      return true;
    }
  }
  if (AddToSorted(key, value, place)) return true;
  if (entries_.size() >= limit_) {
    const bool room = MakeRoom();
    if (AddToSorted(key, value, place)) return true;
    if (!room) return false;
  }
  place = {.round = round_, .index = static_cast<uint32_t>(entries_.size())};
  entries_.emplace_back(key, value);
  return true;
}

void SampleLog::Swap(std::vector<CounterEntry>& entries) {
  entries.clear();
  entries.reserve(limit_);
  entries_.swap(entries);
  ++round_;
  sorted_ = 0;
  full_ = false;
}

}  // namespace profd
