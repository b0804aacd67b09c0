#include "daemon/store/memory_store.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace profd {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// Share of the byte limit that stacks and threads which no delta names may take.
constexpr size_t kStaleShare = 4;
// An allocation's own cost: malloc's header and the shared_ptr's control block.
constexpr size_t kHeapOverhead = 48;
constexpr uint32_t kNoThread = SlotTable<ThreadId, int>::kNone;

size_t HeapBytes(const ThreadInfo& info) {
  return sizeof(info) + kHeapOverhead + info.name.capacity() + info.process.capacity();
}
size_t HeapBytes(const StackTrace& stack) {
  return sizeof(stack) + 2 * kHeapOverhead + stack.frames.capacity() * sizeof(uint64_t);
}
size_t HeapBytes(const std::string& bytes) {
  return sizeof(std::string) + kHeapOverhead + bytes.size();
}

int64_t CeilSeconds(int64_t ns) { return (ns + kSecondNs - 1) / kSecondNs; }

bool MiddleInside(int64_t begin_ns, int64_t end_ns, Window window) {
  const int64_t middle = begin_ns + (end_ns - begin_ns) / 2;
  return window.begin_ns <= middle && middle < window.end_ns;
}

DeltaHeader HeaderOf(const ProfileDelta& d) {
  return {.begin_ns = d.begin_ns,
          .end_ns = d.end_ns,
          .books_on = d.books_on,
          .switch_on = d.switch_on,
          .tick_on = d.tick_on,
          .heap_on = d.heap_on,
          .faults_on = d.faults_on,
          .mappings_on = d.mappings_on,
          .cpu_on = d.cpu_on,
          .bursts_on = d.bursts_on,
          .tick_interval_ns = d.tick_interval_ns,
          .ticks = d.ticks,
          .ticks_missed = d.ticks_missed,
          .walks = d.walks,
          .torn_walks = d.torn_walks,
          .cost = d.cost,
          .losses = d.losses,
          .lost_weight_ns = d.lost_weight_ns,
          .bursts = d.bursts,
          .burst_ns = d.burst_ns,
          .burst_span_ns = d.burst_span_ns};
}

}  // namespace

MemoryStore::MemoryStore(MemoryStoreOptions options) : options_(options) {}

absl::Status MemoryStore::Append(ProfileDelta delta) {
  absl::MutexLock lock(&mutex_);
  if (delta.end_ns < delta.begin_ns) {
    return absl::InvalidArgumentError("delta ends before it begins");
  }
  if (next_delta_ > 0 && delta.end_ns < newest_end_ns_) {
    return absl::InvalidArgumentError("delta is older than the one before");
  }
  newest_end_ns_ = delta.end_ns;
  LearnThreads(std::move(delta.threads));
  LearnStacks(std::move(delta.stacks));
  auto bytes = std::make_shared<const std::string>(Encode(delta));
  blob_bytes_ += HeapBytes(*bytes) + sizeof(Blob);
  blobs_.push_back({delta.begin_ns, delta.end_ns, std::move(bytes)});
  next_delta_++;
  Shrink();
  return absl::OkStatus();
}

void MemoryStore::LearnThreads(std::vector<ThreadInfo> threads) {
  for (ThreadInfo& info : threads) {
    const ThreadId id = info.id;
    auto value = std::make_shared<const ThreadInfo>(std::move(info));
    const size_t bytes = HeapBytes(*value);
    uint32_t slot = threads_.Find(id);
    if (slot == threads_.kNone) {
      slot = threads_.Insert(id, std::move(value), bytes);
    } else {
      threads_.Replace(slot, std::move(value), bytes);
    }
    threads_.Use(slot, next_delta_, newest_end_ns_);
  }
}

void MemoryStore::LearnStacks(std::vector<StackTrace> stacks) {
  for (StackTrace& stack : stacks) {
    const StackId id = stack.id;
    uint32_t slot = stacks_.Find(id);
    if (slot == stacks_.kNone) {
      stack.frames.shrink_to_fit();
      const size_t bytes = HeapBytes(stack);
      slot = stacks_.Insert(id, std::make_shared<const StackTrace>(std::move(stack)), bytes);
    }
    stacks_.Use(slot, next_delta_, newest_end_ns_);
  }
}

uint32_t MemoryStore::InternThread(ThreadId id) {
  uint32_t slot = threads_.Find(id);
  if (slot == threads_.kNone) {
    auto info = std::make_shared<ThreadInfo>();
    info->id = id;
    const size_t bytes = HeapBytes(*info);
    slot = threads_.Insert(id, std::move(info), bytes);
  }
  threads_.Use(slot, next_delta_, newest_end_ns_);
  return slot;
}

uint32_t MemoryStore::InternSite(const SampleKey& key) {
  const Site site{key.stack, key.argument, key.syscall, key.reason, key.kind};
  uint32_t slot = sites_.Find(site);
  if (slot == sites_.kNone) slot = sites_.Insert(site, site, 0);
  sites_.Use(slot, next_delta_, newest_end_ns_);
  return slot;
}

std::string MemoryStore::Encode(const ProfileDelta& delta) {
  std::vector<std::pair<uint32_t, const LedgerDelta*>> ledgers;
  ledgers.reserve(delta.ledgers.size());
  for (const ThreadLedger& ledger : delta.ledgers) {
    ledgers.emplace_back(InternThread(ledger.thread), &ledger.delta);
  }
  std::vector<std::pair<uint32_t, const RestingThread*>> resting;
  resting.reserve(delta.resting.size());
  for (const RestingThread& rest : delta.resting) {
    resting.emplace_back(InternThread(rest.thread), &rest);
  }
  std::vector<std::pair<uint32_t, SiteSample>> samples;
  samples.reserve(delta.samples.size());
  for (const Sample& sample : delta.samples) {
    const uint32_t stack = stacks_.Find(sample.key.stack);
    if (stack != stacks_.kNone) {
      stacks_.Use(stack, next_delta_, newest_end_ns_);
    } else if (sample.key.stack != StackId{}) {
      unknown_stacks_ += static_cast<uint64_t>(std::max<int64_t>(sample.ticks, 0));
    }
    samples.push_back(
        {InternThread(sample.key.thread), {InternSite(sample.key), sample.weight, sample.ticks}});
  }
  const auto by_thread = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::sort(ledgers.begin(), ledgers.end(), by_thread);
  std::sort(resting.begin(), resting.end(), by_thread);
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.site) < std::tie(b.first, b.second.site);
  });

  DeltaWriter writer(HeaderOf(delta), ledgers.size() + resting.size());
  ThreadRow row;
  auto ledger = ledgers.begin();
  auto rest = resting.begin();
  auto sample = samples.begin();
  const auto thread_at = [](const auto& it, const auto& end) {
    return it == end ? kNoThread : it->first;
  };
  while (true) {
    row.thread = std::min({thread_at(ledger, ledgers.end()), thread_at(rest, resting.end()),
                           thread_at(sample, samples.end())});
    if (row.thread == kNoThread) break;
    row.samples.clear();
    for (; sample != samples.end() && sample->first == row.thread; ++sample) {
      if (!row.samples.empty() && row.samples.back().site == sample->second.site) {
        row.samples.back().weight += sample->second.weight;
        row.samples.back().ticks += sample->second.ticks;
      } else {
        row.samples.push_back(sample->second);
      }
    }
    AddLevels(row);
    if (thread_at(ledger, ledgers.end()) != row.thread &&
        thread_at(rest, resting.end()) == row.thread) {
      writer.AddResting(row.thread, *rest->second, row.samples);
      ++rest;
      continue;
    }
    row.ledger = {};
    for (; ledger != ledgers.end() && ledger->first == row.thread; ++ledger) {
      AddLedger(*ledger->second, &row.ledger);
    }
    if (thread_at(rest, resting.end()) == row.thread) {
      AddRest(*rest->second, &row.ledger);
      ++rest;
    }
    writer.Add(row);
  }
  return std::move(writer).Take();
}

void MemoryStore::AddLevels(const ThreadRow& row) {
  for (const SiteSample& sample : row.samples) {
    if (!IsLevel(sites_.value(sample.site).kind)) continue;
    const auto it = levels_.try_emplace({row.thread, sample.site}).first;
    it->second.weight = WrappingAdd(it->second.weight, sample.weight);
    it->second.ticks = WrappingAdd(it->second.ticks, sample.ticks);
    if (it->second.weight == 0 && it->second.ticks == 0) levels_.erase(it);
  }
}

void MemoryStore::UseLevels() {
  // As if the next delta named them.
  levels_used_ = next_delta_;
  for (const auto& [place, level] : levels_) {
    threads_.Use(place.first, levels_used_, newest_end_ns_);
    sites_.Use(place.second, levels_used_, newest_end_ns_);
    const uint32_t stack = stacks_.Find(sites_.value(place.second).stack);
    if (stack != stacks_.kNone) stacks_.Use(stack, levels_used_, newest_end_ns_);
  }
}

size_t MemoryStore::BytesLocked() const {
  return blob_bytes_ + threads_.bytes() + stacks_.bytes() + sites_.bytes() +
         levels_.capacity() * sizeof(Levels::slot_type);
}

void MemoryStore::DropOldestDelta() {
  blob_bytes_ -= HeapBytes(*blobs_.front().bytes) + sizeof(Blob);
  blobs_.pop_front();
  oldest_delta_++;
  if (levels_used_ < oldest_delta_) UseLevels();
  threads_.Expire(oldest_delta_);
  stacks_.Expire(oldest_delta_);
  sites_.Expire(oldest_delta_);
  while (sites_.DropStale()) {
  }
}

bool MemoryStore::DropOldestStale() { return stacks_.DropStale() || threads_.DropStale(); }

void MemoryStore::Shrink() {
  while (!blobs_.empty() && blobs_.front().end_ns < newest_end_ns_ - options_.max_age_ns) {
    DropOldestDelta();
  }
  const int64_t forget_ns = newest_end_ns_ - options_.grace_ns;
  while (stacks_.DropStaleBefore(forget_ns)) {
  }
  while (threads_.DropStaleBefore(forget_ns)) {
  }
  while (BytesLocked() > options_.max_bytes) {
    const size_t stale = stacks_.stale_bytes() + threads_.stale_bytes();
    const bool last = blobs_.size() <= 1;
    if ((stale > options_.max_bytes / kStaleShare || last) && DropOldestStale()) continue;
    if (blobs_.empty()) return;
    const Blob& oldest = blobs_.front();
    if (dropped_ns_ == 0) dropped_.begin_ns = oldest.begin_ns;
    dropped_.end_ns = oldest.end_ns;
    dropped_ns_ += std::max<int64_t>(oldest.end_ns - oldest.begin_ns, 1);
    DropOldestDelta();
  }
}

int64_t MemoryStore::OldestNs() const {
  absl::MutexLock lock(&mutex_);
  return blobs_.empty() ? 0 : blobs_.front().begin_ns;
}

size_t MemoryStore::Bytes() const {
  absl::MutexLock lock(&mutex_);
  return BytesLocked();
}

LossCounts MemoryStore::Losses() const {
  absl::MutexLock lock(&mutex_);
  LossCounts losses{};
  losses[static_cast<size_t>(Loss::kStoreDropped)] =
      static_cast<uint64_t>(CeilSeconds(dropped_ns_));
  losses[static_cast<size_t>(Loss::kStackUnknown)] = unknown_stacks_;
  return losses;
}

MemoryStore::View MemoryStore::Take(Window window, bool levels) const {
  View view;
  absl::MutexLock lock(&mutex_);
  const auto first = std::partition_point(
      blobs_.begin(), blobs_.end(), [&](const Blob& b) { return b.end_ns < window.begin_ns; });
  std::vector<Blob> overlapping;
  auto it = first;
  for (; it != blobs_.end() && it->begin_ns < window.end_ns; ++it) {
    if (MiddleInside(it->begin_ns, it->end_ns, window)) view.blobs.push_back(*it);
    if (view.blobs.empty() && it->end_ns > window.begin_ns) overlapping.push_back(*it);
  }
  if (view.blobs.empty()) view.blobs = std::move(overlapping);
  if (levels) {
    view.levels = levels_;
    // The last one that overlaps the window need not be part of it.
    if (!view.blobs.empty()) {
      it = std::partition_point(blobs_.begin(), blobs_.end(), [&](const Blob& b) {
        return b.end_ns <= view.blobs.back().end_ns;
      });
    }
    view.later.assign(it, blobs_.end());
  }
  view.threads = threads_.Snapshot();
  view.sites = sites_.Snapshot();
  view.stacks = stacks_.Snapshot();
  // What would be too old by now anyway is no loss.
  view.dropped.begin_ns = std::max(dropped_.begin_ns, newest_end_ns_ - options_.max_age_ns);
  view.dropped.end_ns = dropped_.end_ns;
  return view;
}

// Adds up deltas. Slots are dense, so a thread is found by index.
class MemoryStore::Merger {
 public:
  Merger(const View& view, Window window, const std::function<bool(const ThreadInfo&)>& keep)
      : view_(view), keep_(keep), place_(view.threads.size(), kUnasked) {
    profile_.requested = window;
  }

  absl::Status Add(const Blob& blob) {
    ASSIGN_OR_RETURN(DeltaReader reader, DeltaReader::Create(*blob.bytes));
    AddHeader(reader.header());
    while (reader.Next(&row_)) {
      if (row_.thread >= place_.size() || view_.threads[row_.thread] == nullptr) {
        return absl::DataLossError("stored delta: names a thread that is not known");
      }
      RETURN_IF_ERROR(AddRow());
    }
    return reader.status();
  }

  // Of levels: what there was at the end of the window.
  absl::Status AddLevels() {
    Levels levels = view_.levels;
    for (const Blob& blob : view_.later) {
      ASSIGN_OR_RETURN(DeltaReader reader, DeltaReader::Create(*blob.bytes));
      while (reader.Next(&row_)) {
        for (const SiteSample& later : row_.samples) {
          if (later.site >= view_.sites.size() || row_.thread >= place_.size()) {
            return absl::DataLossError("stored delta: names what is not known");
          }
          if (!IsLevel(view_.sites[later.site].kind)) continue;
          SiteSample& level = levels[{row_.thread, later.site}];
          level.weight = WrappingSubtract(level.weight, later.weight);
          level.ticks = WrappingSubtract(level.ticks, later.ticks);
        }
      }
      RETURN_IF_ERROR(reader.status());
    }
    for (const auto& [place, level] : levels) {
      if (level.weight == 0 && level.ticks == 0) continue;
      Sum* sum = SumOf(place.first);
      if (sum != nullptr) Find(sum, place.second);
    }
    levels_ = std::move(levels);
    with_levels_ = true;
    return absl::OkStatus();
  }

  MergedProfile Finish() && {
    if (profile_.ticks > 0) {
      profile_.tick_interval_ns =
          static_cast<int64_t>(interval_sum_ / static_cast<double>(profile_.ticks));
    }
    AddStoreLosses();
    // What is not in the answer yet; null once it is.
    absl::flat_hash_map<StackId, const std::shared_ptr<const StackTrace>*> known;
    known.reserve(view_.stacks.size());
    for (const auto& stack : view_.stacks) {
      if (stack != nullptr) known.emplace(stack->id, &stack);
    }
    uint64_t unknown = 0;
    profile_.threads.reserve(sums_.size());
    for (Sum& sum : sums_) {
      MergedThread& thread = profile_.threads.emplace_back();
      thread.info = *view_.threads[sum.thread];
      thread.ledger = sum.ledger;
      thread.samples.reserve(sum.samples.size());
      for (const SiteSample& s : sum.samples) {
        const Site& site = view_.sites[s.site];
        Sample& sample = thread.samples.emplace_back(Sample{
            {thread.info.id, site.stack, site.argument, site.syscall, site.reason, site.kind},
            s.weight,
            s.ticks});
        sample.squares = s.squares;
        if (with_levels_ && IsLevel(site.kind)) {
          const auto level = levels_.find({sum.thread, s.site});
          sample.growth = sample.weight;
          sample.weight = level == levels_.end() ? 0 : level->second.weight;
          sample.ticks = level == levels_.end() ? 0 : level->second.ticks;
        }
        if (site.stack == StackId{}) continue;
        const auto it = known.find(site.stack);
        if (it == known.end()) {
          unknown += static_cast<uint64_t>(std::max<int64_t>(s.ticks, 0));
        } else if (it->second != nullptr) {
          profile_.stacks.push_back(*std::exchange(it->second, nullptr));
        }
      }
      sum = {};
    }
    profile_.losses[static_cast<size_t>(Loss::kStackUnknown)] += unknown;
    return std::move(profile_);
  }

 private:
  static constexpr uint32_t kUnasked = 0xffffffff, kLeftOut = 0xfffffffe;
  // More sites than this in one thread are found by hash.
  static constexpr size_t kLinearSites = 8;

  struct Sum {
    uint32_t thread = 0;
    LedgerDelta ledger;
    std::vector<SiteSample> samples;
    size_t last = 0;  // an idle thread names the same site again and again
    absl::flat_hash_map<uint32_t, uint32_t> by_site;
  };

  void AddHeader(const DeltaHeader& h) {
    const int64_t length = h.end_ns - h.begin_ns;
    if (first_) profile_.covered.begin_ns = h.begin_ns;
    first_ = false;
    profile_.covered.end_ns = h.end_ns;
    if (h.books_on) profile_.books_ns += length;
    if (h.switch_on) profile_.switch_ns += length;
    if (h.tick_on) profile_.tick_ns += length;
    if (h.heap_on) profile_.heap_ns += length;
    if (h.faults_on) profile_.faults_ns += length;
    if (h.mappings_on) profile_.mappings_ns += length;
    if (h.cpu_on) profile_.cpu_ns += length;
    if (h.bursts_on) profile_.bursts_on_ns += length;
    profile_.bursts = WrappingAdd(profile_.bursts, h.bursts);
    profile_.burst_ns = WrappingAdd(profile_.burst_ns, h.burst_ns);
    profile_.burst_span_ns = WrappingAdd(profile_.burst_span_ns, h.burst_span_ns);
    profile_.ticks = WrappingAdd(profile_.ticks, h.ticks);
    interval_sum_ += static_cast<double>(h.tick_interval_ns) * static_cast<double>(h.ticks);
    profile_.ticks_missed = WrappingAdd(profile_.ticks_missed, h.ticks_missed);
    profile_.walks = WrappingAdd(profile_.walks, h.walks);
    profile_.torn_walks = WrappingAdd(profile_.torn_walks, h.torn_walks);
    profile_.lost_weight_ns = WrappingAdd(profile_.lost_weight_ns, h.lost_weight_ns);
    AddCost(h.cost, &profile_.cost);
    for (size_t i = 0; i < kLossCount; i++) profile_.losses[i] += h.losses[i];
  }

  // Null for a thread that is left out.
  Sum* SumOf(uint32_t thread) {
    uint32_t& place = place_[thread];
    if (place == kUnasked) {
      place =
          keep_ && !keep_(*view_.threads[thread]) ? kLeftOut : static_cast<uint32_t>(sums_.size());
      if (place != kLeftOut) sums_.emplace_back().thread = thread;
    }
    return place == kLeftOut ? nullptr : &sums_[place];
  }

  absl::Status AddRow() {
    Sum* kept = SumOf(row_.thread);
    if (kept == nullptr) return absl::OkStatus();
    Sum& sum = *kept;
    AddLedger(row_.ledger, &sum.ledger);
    for (const SiteSample& sample : row_.samples) {
      if (sample.site >= view_.sites.size()) {
        return absl::DataLossError("stored delta: names a site that is not known");
      }
      SiteSample& to = Find(&sum, sample.site);
      to.weight = WrappingAdd(to.weight, sample.weight);
      to.ticks = WrappingAdd(to.ticks, sample.ticks);
      to.squares += static_cast<double>(sample.weight) * static_cast<double>(sample.weight);
    }
    return absl::OkStatus();
  }

  SiteSample& Find(Sum* sum, uint32_t site) {
    std::vector<SiteSample>& samples = sum->samples;
    if (sum->last < samples.size() && samples[sum->last].site == site) return samples[sum->last];
    size_t i = samples.size();
    if (samples.size() <= kLinearSites) {
      i = static_cast<size_t>(std::find_if(samples.begin(), samples.end(),
                                           [&](const auto& s) { return s.site == site; }) -
                              samples.begin());
    } else if (const auto it = sum->by_site.find(site); it != sum->by_site.end()) {
      i = it->second;
    }
    if (i == samples.size()) {
      samples.push_back({.site = site});
      if (samples.size() == kLinearSites + 1) {
        for (uint32_t k = 0; k < samples.size(); k++) sum->by_site[samples[k].site] = k;
      } else if (samples.size() > kLinearSites) {
        sum->by_site[site] = static_cast<uint32_t>(i);
      }
    }
    sum->last = i;
    return samples[i];
  }

  void AddStoreLosses() {
    const int64_t begin = std::max(view_.dropped.begin_ns, profile_.requested.begin_ns);
    const int64_t end = std::min(view_.dropped.end_ns, profile_.requested.end_ns);
    if (end > begin) {
      profile_.losses[static_cast<size_t>(Loss::kStoreDropped)] +=
          static_cast<uint64_t>(CeilSeconds(end - begin));
    }
  }

  const View& view_;
  const std::function<bool(const ThreadInfo&)>& keep_;
  std::vector<uint32_t> place_;  // by slot: index into sums_
  std::vector<Sum> sums_;
  Levels levels_;  // at the end of the window
  bool with_levels_ = false;
  ThreadRow row_;
  MergedProfile profile_;
  double interval_sum_ = 0;
  bool first_ = true;
};

absl::StatusOr<MergedProfile> MemoryStore::MergeWindow(
    Window window, const std::function<bool(const ThreadInfo&)>& keep, bool levels) const {
  if (window.end_ns < window.begin_ns) {
    return absl::InvalidArgumentError("window ends before it begins");
  }
  const View view = Take(window, levels);
  Merger merger(view, window, keep);
  for (const Blob& blob : view.blobs) RETURN_IF_ERROR(merger.Add(blob));
  if (levels) RETURN_IF_ERROR(merger.AddLevels());
  return std::move(merger).Finish();
}

absl::StatusOr<MergedProfile> MemoryStore::Merge(
    Window window, const std::function<bool(const ThreadInfo&)>& keep) const {
  return MergeWindow(window, keep, false);
}

absl::StatusOr<MergedProfile> MemoryStore::MergeLevels(
    Window window, const std::function<bool(const ThreadInfo&)>& keep) const {
  return MergeWindow(window, keep, true);
}

}  // namespace profd
