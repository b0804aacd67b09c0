#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/base/varint.h"
#include "daemon/store/blob.h"
#include "daemon/store/header_fields.h"
#include "daemon/store/ledger_fields.h"
#include "daemon/store/segment_codec.h"
#include "daemon/store/wire.h"
#include "profd/store/segment.pb.h"

namespace profd {
namespace {

class Writer {
 public:
  explicit Writer(const Segment& segment) : segment_(segment) {
    out_.set_version(kSegmentVersion);
    StringOf("");
  }

  std::string Serialize() && {
    for (const auto& thread : segment_.threads) PutThread(*thread);
    PutStacks();
    PutSites();
    PutIdentities();
    std::string slices;
    for (const Slice& slice : segment_.slices) PutSlice(slice, &slices);
    // Last, as slices add to the strings, and to no copy of the slices, which are large.
    out_.AppendToString(&slices);
    return slices;
  }

 private:
  uint32_t StringOf(const std::string& text) {
    const auto [it, fresh] = strings_.try_emplace(text, static_cast<uint32_t>(strings_.size()));
    if (fresh) out_.add_strings(text);
    return it->second;
  }

  void PutThread(const ThreadInfo& info) {
    store::Thread* thread = out_.add_threads();
    thread->set_id(static_cast<uint64_t>(info.id));
    thread->set_pid(info.pid);
    thread->set_tid(info.tid);
    thread->set_target(info.target);
    thread->set_name(StringOf(info.name));
    thread->set_process(StringOf(info.process));
    thread->set_exited(info.exited);
    thread->set_start_ns(info.start_ns);
    thread->set_process_start_ns(info.process_start_ns);
    thread->set_only_levels(info.only_levels);
  }

  void PutStacks() {
    std::vector<uint64_t> frames;
    for (const auto& stack : segment_.stacks) {
      frames.insert(frames.end(), stack->frames.begin(), stack->frames.end());
    }
    std::sort(frames.begin(), frames.end());
    frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
    absl::flat_hash_map<uint64_t, uint32_t> place;
    place.reserve(frames.size());
    uint64_t last = 0;
    for (const uint64_t frame : frames) {
      place.emplace(frame, static_cast<uint32_t>(place.size()));
      out_.add_frames(frame - std::exchange(last, frame));
    }
    for (const auto& stack : segment_.stacks) {
      if (!stacks_.try_emplace(stack->id, static_cast<uint32_t>(stacks_.size())).second) continue;
      out_.add_stack_id(static_cast<uint64_t>(stack->id));
      out_.add_stack_walk(static_cast<uint32_t>(stack->walk));
      out_.add_stack_kernel_frames(stack->kernel_frames);
      out_.add_stack_length(static_cast<uint32_t>(stack->frames.size()));
      for (const uint64_t frame : stack->frames) out_.add_stack_frames(place[frame]);
    }
  }

  void PutSites() {
    for (const Site& site : segment_.sites) {
      const auto stack = stacks_.find(site.stack);
      out_.add_site_stack(stack == stacks_.end() ? 0 : stack->second + 1);
      if (stack == stacks_.end()) out_.add_site_unknown_stack(static_cast<uint64_t>(site.stack));
      out_.add_site_argument(site.argument);
      out_.add_site_syscall(site.syscall);
      out_.add_site_reason(static_cast<uint32_t>(site.reason));
      out_.add_site_kind(static_cast<uint32_t>(site.kind));
    }
  }

  void PutIdentities() {
    for (const auto& [id, identity] : segment_.modules) {
      store::Module* module = out_.add_modules();
      module->set_id(static_cast<uint32_t>(id));
      module->set_path(StringOf(identity->path));
      module->set_build_id(StringOf(identity->build_id));
      module->set_headers_id(StringOf(identity->headers_id));
    }
    if (segment_.boot == nullptr) return;
    store::Boot* boot = out_.mutable_boot();
    boot->set_id(StringOf(segment_.boot->boot_id));
    boot->set_kernel_build_id(StringOf(segment_.boot->kernel_build_id));
    boot->set_kernel_text(segment_.boot->kernel_text);
  }

  void PutHeader(const SliceHeader& h, store::SliceHeader* out) {
    out->set_begin_ns(h.span.begin_ns);
    out->set_length_ns(h.LengthNs());
    WriteNumbers(kHeaderFields, h, out);
    WriteNumbers(kCostFields, h.cost, out->mutable_cost());
    for (const TargetCost& target : h.cost.targets) {
      store::TargetCost* to = out->add_targets();
      to->set_target(target.target);
      WriteNumbers(kTargetCostFields, target, to);
    }
    for (size_t i = 0; i < kLossCount; i++) {
      if (h.losses[i] == 0) continue;
      out->add_loss_name(StringOf(DescribeLoss(i).cause));
      out->add_loss_count(h.losses[i]);
    }
  }

  // Columns as bytes from the start: as lists of numbers they would take several times as much.
  struct Columns {
    std::string row_thread, row_mask, ledger_value, row_samples;
    std::string sample_site, sample_count, sample_weight, sample_squares;
  };

  void PutSlice(const Slice& slice, std::string* slices) {
    store::Slice header;
    PutHeader(slice.header, header.mutable_header());
    last_wall_ = slice.header.LengthNs();
    Columns columns;
    const SiteSample* sample = slice.samples.data();
    uint32_t next_thread = 0;
    for (const Row& row : slice.rows) {
      PutVarint(row.thread - next_thread, &columns.row_thread);
      next_thread = row.thread + 1;
      PutLedger(LedgerOf(slice, row), &columns);
      PutVarint(row.samples, &columns.row_samples);
      uint32_t next_site = 0;
      for (uint32_t i = 0; i < row.samples; i++, sample++) {
        PutVarint(sample->site - next_site, &columns.sample_site);
        next_site = sample->site + 1;
        const bool histogram = IsHistogram(segment_.sites[sample->site].kind);
        PutSample(*sample, histogram ? 0 : slice.header.tick_interval_ns, &columns);
      }
    }
    columns.sample_squares.assign(reinterpret_cast<const char*>(slice.squares.data()),
                                  slice.squares.size() * sizeof(double));
    store::Slice waits;
    for (const StoredWait& wait : slice.waits) PutWait(wait, slice.header.span.begin_ns, &waits);
    std::string out = header.SerializeAsString();
    PutField(store::Slice::kRowThreadFieldNumber, columns.row_thread, &out);
    PutField(store::Slice::kRowMaskFieldNumber, columns.row_mask, &out);
    PutField(store::Slice::kLedgerValueFieldNumber, columns.ledger_value, &out);
    PutField(store::Slice::kRowSamplesFieldNumber, columns.row_samples, &out);
    PutField(store::Slice::kSampleSiteFieldNumber, columns.sample_site, &out);
    PutField(store::Slice::kSampleCountFieldNumber, columns.sample_count, &out);
    PutField(store::Slice::kSampleWeightFieldNumber, columns.sample_weight, &out);
    PutField(store::Slice::kSampleSquaresFieldNumber, columns.sample_squares, &out);
    PutField(store::Segment::kSlicesFieldNumber, out + waits.SerializeAsString(), slices);
  }

  void PutWait(const StoredWait& wait, int64_t slice_begin_ns, store::Slice* out) {
    const auto waker = stacks_.find(wait.waker);
    out->add_wait_thread(wait.thread);
    out->add_wait_site(wait.site);
    out->add_wait_begin(WrappingSubtract(wait.begin_ns, slice_begin_ns));
    out->add_wait_duration(wait.duration_ns);
    out->add_wait_doubt(wait.doubt_ns);
    out->add_wait_similar(wait.similar);
    out->add_wait_waker(waker == stacks_.end() ? 0 : waker->second + 1);
    out->add_wait_flags((wait.earlier ? kWaitEarlier : 0U) | (wait.lasts ? kWaitLasts : 0U));
  }

  void PutLedger(const LedgerDelta& ledger, Columns* columns) {
    const LedgerFields fields = ToFields(ledger);
    const uint64_t mask = MaskOf(fields);
    PutVarint(mask, &columns->row_mask);
    // Threads are read one after another, so that the seconds of those that waited all the time
    // differ little from each other.
    if (IsRest(mask)) {
      const int64_t wall = fields[static_cast<size_t>(__builtin_ctzll(mask))];
      PutZigzag(WrappingSubtract(wall, std::exchange(last_wall_, wall)), &columns->ledger_value);
      return;
    }
    for (const int64_t value : fields) {
      if (value != 0) PutZigzag(value, &columns->ledger_value);
    }
  }

  static void PutSample(const SiteSample& sample, int64_t interval_ns, Columns* columns) {
    const auto usual = static_cast<int64_t>(static_cast<uint64_t>(sample.ticks) *
                                            static_cast<uint64_t>(interval_ns));
    const int64_t rest = WrappingSubtract(sample.weight, usual);
    PutVarint(ToZigzag(sample.ticks) << 1 | (rest != 0 ? 1 : 0), &columns->sample_count);
    if (rest != 0) PutZigzag(rest, &columns->sample_weight);
  }

  const Segment& segment_;
  store::Segment out_;
  absl::flat_hash_map<std::string, uint32_t> strings_;
  absl::flat_hash_map<StackId, uint32_t> stacks_;
  int64_t last_wall_ = 0;
};

}  // namespace

std::string SerializeSegment(const Segment& segment) { return Writer(segment).Serialize(); }

std::string EncodeSegment(const Segment& segment) { return PackBlob(SerializeSegment(segment)); }

}  // namespace profd
