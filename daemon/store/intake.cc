#include "daemon/store/intake.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/store/long_waits.h"

namespace profd {
namespace {

// An allocation's own cost: malloc's header and the shared_ptr's control block.
constexpr size_t kHeapOverhead = 48;

size_t HeapBytes(const ThreadInfo& info) {
  return sizeof(info) + kHeapOverhead + info.name.capacity() + info.process.capacity();
}
size_t HeapBytes(const StackTrace& stack) {
  return sizeof(stack) + 2 * kHeapOverhead + stack.frames.capacity() * sizeof(uint64_t);
}

}  // namespace

// Builds one segment.
class Intake::Builder {
 public:
  Builder(Intake* intake, const ProfileDelta& delta)
      : intake_(*intake), delta_(delta), now_ns_(delta.end_ns) {}

  // Adds to `shared_bytes` those of infos that the segment alone holds.
  Segment Build(size_t* shared_bytes) && {
    Slice& slice = segment_.slices.emplace_back();
    slice.header = HeaderOf(delta_);
    size_t ledgers = 0;
    for (const ThreadLedger& ledger : delta_.ledgers) {
      Parts& parts = PartsOf(ledger.thread);
      if (parts.ledger == nullptr) {
        parts.ledger = &ledger.delta;
        ++ledgers;
      } else {
        parts.more.push_back(&ledger.delta);
      }
    }
    for (const RestingThread& rest : delta_.resting) PartsOf(rest.thread).rest = &rest;
    std::vector<std::vector<SiteSample>> samples = Samples();
    for (const LongWait& wait : delta_.long_waits) NumberOf(wait.key.thread);
    samples.resize(parts_.size());
    slice.rows.reserve(parts_.size());
    slice.ledgers.reserve(ledgers);
    slice.samples.reserve(delta_.samples.size());
    for (uint32_t thread = 0; thread < parts_.size(); thread++) {
      Row& row = slice.rows.emplace_back(Row{.thread = thread});
      AddNumbers(parts_[thread], &row, &slice);
      row.samples = AddSamples(&samples[thread], &slice);
    }
    AddWaits(&slice);
    MarkLevels(slice);
    for (const StackTrace& stack : delta_.stacks) AddStack(stack.id);
    slice.samples.shrink_to_fit();
    *shared_bytes += marked_bytes_;
    return std::move(segment_);
  }

 private:
  struct Parts {
    const LedgerDelta* ledger = nullptr;
    std::vector<const LedgerDelta*> more;
    const RestingThread* rest = nullptr;
  };

  uint32_t NumberOf(ThreadId id) {
    const auto [it, fresh] = threads_.try_emplace(id, static_cast<uint32_t>(parts_.size()));
    if (fresh) {
      parts_.emplace_back();
      auto info = intake_.threads_.Use(id, now_ns_);
      if (info == nullptr) {
        info = std::make_shared<const ThreadInfo>(ThreadInfo{.id = id});
        intake_.threads_.Put(id, info, HeapBytes(*info), now_ns_);
      }
      segment_.threads.push_back(std::move(info));
    }
    return it->second;
  }
  Parts& PartsOf(ThreadId id) { return parts_[NumberOf(id)]; }

  bool AddStack(StackId id) {
    const auto [it, fresh] = stacks_.try_emplace(id, false);
    if (!fresh) return it->second;
    auto stack = intake_.stacks_.Use(id, now_ns_);
    it->second = stack != nullptr;
    if (stack != nullptr) segment_.stacks.push_back(std::move(stack));
    return it->second;
  }

  void AddObject(const SampleKey& key) {
    if (const StackId object = ObjectOf(key); object != StackId{}) AddStack(object);
  }

  uint32_t SiteNumber(const Site& site) {
    const auto [it, fresh] = sites_.try_emplace(site, static_cast<uint32_t>(segment_.sites.size()));
    if (fresh) segment_.sites.push_back(site);
    return it->second;
  }

  // By thread.
  std::vector<std::vector<SiteSample>> Samples() {
    std::vector<std::vector<SiteSample>> samples(parts_.size());
    for (const Sample& sample : delta_.samples) {
      const Site site = SiteOf(sample.key);
      const uint32_t number = SiteNumber(site);
      if (site.stack != StackId{} && !AddStack(site.stack) && !IsHistogram(site.kind)) {
        intake_.unknown_stacks_ += static_cast<uint64_t>(std::max<int64_t>(sample.ticks, 0));
      }
      AddObject(sample.key);
      const uint32_t thread = NumberOf(sample.key.thread);
      if (thread >= samples.size()) samples.resize(thread + 1);
      samples[thread].push_back({{sample.weight, sample.ticks}, number});
    }
    return samples;
  }

  void AddWaits(Slice* slice) {
    for (const LongWait& wait : delta_.long_waits) {
      const Site site = SiteOf(wait.key);
      AddStack(site.stack);
      AddObject(wait.key);
      if (wait.waker != StackId{}) AddStack(wait.waker);
      slice->waits.push_back({.thread = NumberOf(wait.key.thread),
                              .site = SiteNumber(site),
                              .begin_ns = wait.begin_ns,
                              .duration_ns = wait.duration_ns,
                              .doubt_ns = wait.doubt_ns,
                              .waker = wait.waker,
                              .earlier = wait.earlier,
                              .lasts = wait.lasts});
    }
    slice->header.losses[PROFD_LOSS_LONG_WAIT] +=
        KeepLongest({segment_.threads, segment_.sites}, kLongWaitsOfSlice, &slice->waits);
    slice->waits.shrink_to_fit();
  }

  // Threads that ended earlier and whose levels change: other segments have what they did.
  void MarkLevels(const Slice& slice) {
    std::vector<bool> waited(parts_.size(), false);
    for (const StoredWait& wait : slice.waits) waited[wait.thread] = true;
    auto sample = slice.samples.begin();
    for (const Row& row : slice.rows) {
      const auto begin = std::exchange(sample, sample + row.samples);
      auto& info = segment_.threads[row.thread];
      if (!info->exited || row.samples == 0 || row.ledger != Row::kNoLedger || row.rest_ns != 0 ||
          waited[row.thread] || !std::all_of(begin, sample, [this](const SiteSample& s) {
            return IsLevel(segment_.sites[s.site].kind);
          })) {
        continue;
      }
      auto marked = std::make_shared<ThreadInfo>(*info);
      marked->only_levels = true;
      marked_bytes_ += HeapBytes(*marked);
      info = std::move(marked);
    }
  }

  // Returns how many were added.
  uint32_t AddSamples(std::vector<SiteSample>* samples, Slice* slice) const {
    std::sort(samples->begin(), samples->end(),
              [](const SiteSample& a, const SiteSample& b) { return a.site < b.site; });
    const size_t before = slice->samples.size();
    for (const SiteSample& sample : *samples) {
      if (slice->samples.size() > before && slice->samples.back().site == sample.site) {
        AddAmount(sample, segment_.sites[sample.site].kind, &slice->samples.back());
      } else {
        slice->samples.push_back(sample);
      }
    }
    return static_cast<uint32_t>(slice->samples.size() - before);
  }

  static void AddNumbers(const Parts& parts, Row* row, Slice* slice) {
    if (parts.ledger != nullptr) {
      row->ledger = static_cast<uint32_t>(slice->ledgers.size());
      LedgerDelta& ledger = slice->ledgers.emplace_back(*parts.ledger);
      for (const LedgerDelta* more : parts.more) AddLedger(*more, &ledger);
    }
    if (parts.rest == nullptr) return;
    row->rest_ns = parts.rest->wall_ns;
    if (parts.rest->reason) row->rest_reason = static_cast<uint8_t>(*parts.rest->reason);
  }

  Intake& intake_;
  const ProfileDelta& delta_;
  const int64_t now_ns_;
  Segment segment_;
  std::vector<Parts> parts_;
  absl::flat_hash_map<ThreadId, uint32_t> threads_;
  absl::flat_hash_map<Site, uint32_t> sites_;
  absl::flat_hash_map<StackId, bool> stacks_;  // whether it is known
  size_t marked_bytes_ = 0;
};

SegmentPtr Intake::Take(ProfileDelta delta) {
  // They are held by the segment too, even if the tables forget them.
  size_t shared_bytes = 0;
  for (ThreadInfo& info : delta.threads) {
    const ThreadId id = info.id;
    auto value = std::make_shared<const ThreadInfo>(std::move(info));
    const size_t bytes = HeapBytes(*value);
    shared_bytes += bytes;
    threads_.Put(id, std::move(value), bytes, delta.end_ns);
  }
  for (StackTrace& stack : delta.stacks) {
    if (stacks_.Use(stack.id, delta.end_ns) != nullptr) continue;
    stack.frames.shrink_to_fit();
    const size_t bytes = HeapBytes(stack);
    shared_bytes += bytes;
    auto kept = std::make_shared<const StackTrace>(std::move(stack));
    // The id is read again below.
    stack = StackTrace();
    stack.id = kept->id;
    stacks_.Put(stack.id, std::move(kept), bytes, delta.end_ns);
  }
  Segment segment = Builder(this, delta).Build(&shared_bytes);
  return RawSegment(std::move(segment), shared_bytes);
}

void Intake::Forget(int64_t threads_before_ns, int64_t stacks_before_ns) {
  threads_.ForgetBefore(threads_before_ns);
  stacks_.ForgetBefore(stacks_before_ns);
}

void Intake::Shrink(size_t max_bytes) {
  // What is in use was named by the last drain: in a storm, threads that ended go first. Stacks
  // before threads of the same time: without its thread nothing can be told of a row.
  while (bytes() > max_bytes) {
    const bool stack = stacks_.oldest_ns() <= threads_.oldest_ns();
    if (!(stack ? stacks_.ForgetOldest() : threads_.ForgetOldest())) return;
  }
}

}  // namespace profd
