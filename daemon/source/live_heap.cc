#include "daemon/source/live_heap.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace profd {
namespace {

// jemalloc's clock may be as coarse as the kernel's timer, so it may be late by this much.
constexpr int64_t kClockStep = 20'000'000;
// Number of stacks with the same context and size.
constexpr size_t kMostAlike = 64;
// Bounds sums; no real value is as large.
constexpr double kLargest = 4e18;

// When an object was allocated, monotonic. jemalloc uses that clock by default, or the wall clock
// if configured.
int64_t BornNs(uint64_t born, int64_t wall_offset_ns) {
  const auto ns = static_cast<int64_t>(std::min<uint64_t>(born, INT64_MAX));
  return wall_offset_ns > 0 && ns >= wall_offset_ns ? ns - wall_offset_ns : ns;
}

}  // namespace

int64_t RoundedSum(double value) { return std::llround(std::clamp(value, -kLargest, kLargest)); }

ObjectWeight WeighObject(uint64_t size, uint64_t sample_bytes) {
  const auto bytes = static_cast<double>(size);
  const double sampled = -std::expm1(-bytes / static_cast<double>(sample_bytes));
  // With an interval of one byte every object is sampled; with a huge one, `sampled` may be zero.
  if (sample_bytes == 0 || !(sampled > 0)) return {.bytes = bytes, .objects = 1};
  return {.bytes = bytes / sampled, .objects = 1 / sampled};
}

void LiveHeap::Apply(const profd_live_heap_record& record, const LiveSampling& source,
                     int64_t wall_offset_ns) {
  // From earlier probes.
  if (static_cast<int64_t>(record.time) < source.since_ns) return;
  Heap& heap = HeapOf({record.pid, WatchId{static_cast<uint16_t>(record.watch_id)}}, source);
  if (record.stack != 0) {
    Add(heap, record, source.sample_bytes);
  } else if (record.born == 0 ||
             BornNs(record.born, wall_offset_ns) >= heap.attached_ns - kClockStep) {
    Remove(heap, record);
  }
}

LiveHeap::Heap& LiveHeap::HeapOf(const Place& place, const LiveSampling& source) {
  Heap& heap = heaps_[place];
  if (heap.attached_ns != source.since_ns) {
    Clear(heap);
    heap.attached_ns = heap.since_ns = source.since_ns;
  }
  return heap;
}

void LiveHeap::Put(const Place& place, const LiveSampling& source, uint64_t address,
                   const WeighedObject& object) {
  Heap& heap = HeapOf(place, source);
  const Group group = {.context = address, .size = 0};
  Take(heap, group);
  if (kept_ >= limit_) {
    ++dropped_;
    return;
  }
  ++kept_;
  Alike& alike = heap.groups[group].emplace_back();
  alike = {.owner = {.thread = object.thread,
                     .stack = object.stack,
                     .sample_bytes = object.sample_bytes},
           .weight = object.weight,
           .count = 1};
  Change(heap, alike, 1, true);
}

std::optional<ObjectWeight> LiveHeap::Take(const Place& place, const LiveSampling& source,
                                           uint64_t address) {
  return Take(HeapOf(place, source), {.context = address, .size = 0});
}

std::optional<ObjectWeight> LiveHeap::Take(Heap& heap, const Group& group) {
  const auto found = heap.groups.find(group);
  if (found == heap.groups.end()) return std::nullopt;
  const Alike alike = found->second.front();
  heap.groups.erase(found);
  Change(heap, alike, alike.count, false);
  --kept_;
  return alike.weight;
}

void LiveHeap::OnExec(int32_t pid, int64_t now_ns) {
  for (auto it = heaps_.lower_bound({pid, WatchId{0}});
       it != heaps_.end() && it->first.first == pid; ++it) {
    Clear(it->second);
    it->second.since_ns = now_ns;
  }
}

void LiveHeap::KeepOnly(const std::map<Place, LiveSampling>& sources) {
  for (auto it = heaps_.begin(); it != heaps_.end();) {
    const auto source = sources.find(it->first);
    if (source != sources.end() && source->second.since_ns == it->second.attached_ns) {
      ++it;
      continue;
    }
    Clear(it->second);
    it = heaps_.erase(it);
  }
}

void LiveHeap::Add(Heap& heap, const profd_live_heap_record& record, uint64_t sample_bytes) {
  const Owner owner = {.thread = ThreadId{record.thread_id},
                       .stack = StackId{record.stack},
                       .sample_bytes = sample_bytes};
  const Group group = {.context = record.context, .size = record.size};
  const auto found = heap.groups.find(group);
  size_t members = 0;
  if (found != heap.groups.end()) {
    members = found->second.size();
    for (Alike& alike : found->second) {
      if (alike.owner != owner) continue;
      ++alike.count;
      Change(heap, alike, 1, true);
      return;
    }
  }
  if (kept_ >= limit_ || members >= kMostAlike) {
    ++dropped_;
    return;
  }
  ++kept_;
  Alike& alike = heap.groups[group].emplace_back();
  alike = {.owner = owner, .weight = WeighObject(record.size, sample_bytes), .count = 1};
  Change(heap, alike, 1, true);
}

void LiveHeap::Remove(Heap& heap, const profd_live_heap_record& record) {
  const auto group = heap.groups.find(Group{.context = record.context, .size = record.size});
  if (group == heap.groups.end()) return;
  Alike& oldest = group->second.front();
  Change(heap, oldest, 1, false);
  if (--oldest.count != 0) return;
  --kept_;
  group->second.erase(group->second.begin());
  if (group->second.empty()) heap.groups.erase(group);
}

void LiveHeap::Change(Heap& heap, const Alike& alike, uint64_t count, bool more) {
  Sum& sum = sums_[alike.owner];
  const double signed_count = (more ? 1.0 : -1.0) * static_cast<double>(count);
  for (auto* total : {&sum.bytes, &heap.bytes}) *total += signed_count * alike.weight.bytes;
  for (auto* total : {&sum.objects, &heap.objects}) *total += signed_count * alike.weight.objects;
  sum.count += more ? count : -count;
  heap.count += more ? count : -count;
  // Without objects the sum is zero; drop rounding errors.
  if (sum.count == 0) sum.bytes = sum.objects = 0;
  if (heap.count == 0) heap.bytes = heap.objects = 0;
  if (!sum.changed) changed_.push_back(alike.owner);
  sum.changed = true;
}

void LiveHeap::Clear(Heap& heap) {
  for (const auto& [group, members] : heap.groups) {
    for (const Alike& alike : members) Change(heap, alike, alike.count, false);
    kept_ -= members.size();
  }
  heap.groups.clear();
}

void LiveHeap::Finish(ProfileDelta& delta) {
  for (const Owner& owner : changed_) {
    const auto it = sums_.find(owner);
    Sum& sum = it->second;
    sum.changed = false;
    const int64_t now_bytes = RoundedSum(sum.bytes);
    const int64_t now_objects = RoundedSum(sum.objects);
    const int64_t bytes = now_bytes - std::exchange(sum.told_bytes, now_bytes);
    const int64_t objects = now_objects - std::exchange(sum.told_objects, now_objects);
    if (bytes != 0 || objects != 0) {
      delta.samples.push_back({.key = {.thread = owner.thread,
                                       .stack = owner.stack,
                                       .argument = owner.sample_bytes,
                                       .kind = Kind::kInuse},
                               .weight = bytes,
                               .ticks = objects});
    }
    if (sum.count == 0) sums_.erase(it);
  }
  changed_.clear();
}

std::map<WatchId, LiveTotals> LiveHeap::Totals() const {
  std::map<WatchId, LiveTotals> totals;
  for (const auto& [place, heap] : heaps_) {
    LiveTotals& total = totals[place.second];
    total.since_ns = std::max(total.since_ns, heap.since_ns);
    total.bytes += heap.bytes;
    total.objects += heap.objects;
  }
  return totals;
}

}  // namespace profd
