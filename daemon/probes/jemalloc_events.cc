#include "daemon/probes/jemalloc_events.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/log.h"

namespace profd {
namespace {

// Of a place that looks like an event's, until it is known for one or for none.
constexpr uint64_t kHitsThatTell = 8;
constexpr char kNoEvents[] =
    "jemalloc's event function was not found: what looks like it has other arguments; keep the "
    "module's symbols or install its debug file";

// Where the registers of an instruction, by their numbers there, lie in struct pt_regs.
constexpr std::array<uint8_t, 16> kPtRegsWords = {10, 11, 12, 5, 19, 4, 13, 14,
                                                  9,  8,  7,  6, 3,  2, 1,  0};

// Whether a copy of the event counts what is freed; empty when it does not tell.
std::optional<bool> Frees(const InlinedEvent& event, const std::set<int32_t>& fields) {
  // Of the two counts in a thread's data that of allocations lies first.
  if (fields.size() == 2) return event.last_event != *fields.begin();
  if (event.last_event == kAllocatedAtLastEvent) return false;
  if (event.last_event == kFreedAtLastEvent) return true;
  return std::nullopt;
}

}  // namespace

EventPlaces EventPlacesOf(const JemallocInfo& info, WatchId module) {
  const auto id = static_cast<uint64_t>(module);
  EventPlaces all;
  const auto add = [&all](uint64_t offset, uint64_t cookie) {
    if (all.places.size() == PROFD_HEAP_NUMBERS) {
      ++all.more;
      return;
    }
    all.places.push_back(
        {.offset = offset, .cookie = PROFD_HEAP_NUMBERED(cookie, all.places.size())});
  };
  for (const EventFunction& event : info.events) {
    add(event.offset + event.point.skip,
        PROFD_PROBE_COOKIE(PROFD_HEAP_JEMALLOC_EVENT, event.point.stepped, id));
  }
  std::set<int32_t> fields;
  for (const InlinedEvent& event : info.inlined) fields.insert(event.last_event);
  const auto word = [](uint8_t number) { return kPtRegsWords.at(number & 15); };
  for (const InlinedEvent& event : info.inlined) {
    const std::optional<bool> frees = Frees(event, fields);
    if (!frees) continue;
    const auto place =
        *frees ? PROFD_HEAP_JEMALLOC_INLINED_FREE : PROFD_HEAP_JEMALLOC_INLINED_ALLOC;
    const std::optional<uint8_t> growth = event.growth_register;
    add(event.offset, PROFD_HEAP_INLINED_COOKIE(place, !growth, id, word(event.value_register),
                                                growth ? word(*growth) : PROFD_NO_REGISTER,
                                                word(event.thread_register), event.last_event));
  }
  return all;
}

void JemallocEvents::Choose(Module& module) {
  std::vector<ProbePlace> places;
  for (size_t number = 0; number < module.all.places.size(); ++number) {
    if (!module.wrong.test(number)) places.push_back(module.all.places[number]);
  }
  if (places.empty() && (!module.all.places.empty() || module.wanted.why_none.empty())) {
    module.wanted.why_none = kNoEvents;
  }
  module.wanted.places = std::make_shared<const std::vector<ProbePlace>>(std::move(places));
}

void JemallocEvents::Want(const ProbedModule& where, const JemallocInfo& info) {
  const auto [at, is_new] = modules_.try_emplace(where.second);
  Module& module = at->second;
  if (is_new) {
    module.all = EventPlacesOf(info, where.second);
    module.wanted.why_none = info.note;
    Choose(module);
  }
  reconciler_->Want({.set = ProbeSet::kEvents, .pid = where.first, .module = where.second},
                    module.wanted);
}

void JemallocEvents::Unwant(const ProbedModule& where) {
  reconciler_->Unwant({.set = ProbeSet::kEvents, .pid = where.first, .module = where.second});
}

void JemallocEvents::KeepOnly(absl::FunctionRef<bool(WatchId)> is_known) {
  std::erase_if(modules_, [&](const auto& entry) {
    if (is_known(entry.first)) return false;
    kernel_->ForgetHeapTallies(entry.first);
    return true;
  });
}

void JemallocEvents::Judge() {
  const uint64_t refusals = kernel_->HeapRefusals();
  if (refusals < refusals_ + kHitsThatTell) return;
  refusals_ = refusals;
  std::set<WatchId> changed;
  for (const HeapTally& tally : kernel_->HeapTallies()) {
    // So many events are none by chance: where they come by is the right place, whatever else does.
    if (tally.refused < kHitsThatTell || tally.held >= kHitsThatTell) continue;
    const auto at = modules_.find(tally.module);
    if (at == modules_.end() || at->second.wrong.test(tally.number)) continue;
    at->second.wrong.set(tally.number);
    changed.insert(tally.module);
    LogInfo("what looked like an event of jemalloc in module ", static_cast<uint32_t>(tally.module),
            " is none: its probe goes");
  }
  if (changed.empty()) return;
  for (const WatchId module : changed) Choose(modules_.at(module));
  std::vector<ProbeKey> keys;
  reconciler_->ForEach(ProbeSet::kEvents, [&](const ProbeKey& key, const ProbeState&) {
    if (changed.contains(key.module)) keys.push_back(key);
  });
  for (const ProbeKey& key : keys) reconciler_->Want(key, modules_.at(key.module).wanted);
}

void JemallocEvents::Describe(WatchId module, AllocatorState& state) const {
  const auto at = modules_.find(module);
  if (at == modules_.end()) return;
  state.places = at->second.all.places.size();
  state.more_places = at->second.all.more;
  state.wrong_places = at->second.wrong.count();
  if (state.more_places > 0 && state.note.empty()) {
    state.note =
        absl::StrCat(state.more_places, " more places look like jemalloc's events than the ",
                     state.places, " that can be watched: what they allocate has no stacks");
  }
}

}  // namespace profd
