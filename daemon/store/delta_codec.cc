#include "daemon/store/delta_codec.h"

#include <array>
#include <limits>

#include "daemon/base/varint.h"

namespace profd {
namespace {

// How the account of a row is written.
enum Form : uint64_t {
  kFormGeneral = 0,
  kFormIdle = 1,          // off for one reason all the time that it was watched
  kFormUnattributed = 2,  // blocked all the time, for a reason that is not known
  kFormNone = 3,          // samples only
};
constexpr uint64_t kFormBits = 2;
constexpr uint64_t kReasonBits = 4;
static_assert(kReasonCount <= 1u << kReasonBits);

constexpr uint64_t kBooksOn = 1, kSwitchOn = 2, kTickOn = 4, kHeapOn = 8, kFaultsOn = 16,
                   kMappingsOn = 32, kBurstsOn = 64, kCpuOn = 128;

// The fields of an account in the order of the mask's bits. `wall_rest` is what the wall clock
// has beyond the parts that it is made of; the books are kept as differences from our own sums.
constexpr size_t kUnattributedField = 2;
constexpr size_t kFirstOffField = 8;
constexpr size_t kFieldCount = 29 + 2 * kReasonCount;
using Fields = std::array<int64_t, kFieldCount>;

int64_t SumOfParts(const LedgerDelta& l) {
  int64_t sum = WrappingAdd(l.on_cpu_ns, l.unattributed_ns);
  for (int64_t off : l.off_ns) sum = WrappingAdd(sum, off);
  return sum;
}

Fields ToFields(const LedgerDelta& l) {
  const auto run_queue = static_cast<size_t>(Reason::kRunQueue);
  Fields f{};
  size_t i = 0;
  f[i++] = WrappingSubtract(l.wall_ns, SumOfParts(l));
  f[i++] = l.on_cpu_ns;
  f[i++] = l.unattributed_ns;
  f[i++] = WrappingSubtract(l.books_on_cpu_ns, l.on_cpu_ns);
  f[i++] = WrappingSubtract(l.books_runqueue_ns, l.off_ns[run_queue]);
  f[i++] = l.voluntary_switches;
  f[i++] = l.involuntary_switches;
  f[i++] = l.minor_faults;
  for (size_t r = 0; r < kReasonCount; r++) f[i++] = l.off_ns[r];
  for (size_t r = 0; r < kReasonCount; r++) f[i++] = l.waits[r];
  f[i++] = l.major_faults;
  f[i++] = l.read_bytes;
  f[i++] = l.write_bytes;
  for (const HeapDelta* heap : {&l.allocated, &l.freed}) {
    f[i++] = heap->bytes;
    f[i++] = heap->seen_bytes;
    f[i++] = heap->unseen_bytes;
    f[i++] = heap->events;
    f[i++] = heap->gaps;
    f[i++] = heap->late_bytes;
  }
  for (const HeapDelta* heap : {&l.allocated, &l.freed}) {
    f[i++] = heap->burst_bytes;
    f[i++] = heap->burst_doubt;
    f[i++] = heap->burst_calls;
  }
  return f;
}

LedgerDelta FromFields(const Fields& f) {
  const auto run_queue = static_cast<size_t>(Reason::kRunQueue);
  LedgerDelta l;
  size_t i = 0;
  const int64_t wall_rest = f[i++];
  l.on_cpu_ns = f[i++];
  l.unattributed_ns = f[i++];
  const int64_t books_on_cpu = f[i++];
  const int64_t books_run_queue = f[i++];
  l.voluntary_switches = f[i++];
  l.involuntary_switches = f[i++];
  l.minor_faults = f[i++];
  for (size_t r = 0; r < kReasonCount; r++) l.off_ns[r] = f[i++];
  for (size_t r = 0; r < kReasonCount; r++) l.waits[r] = f[i++];
  l.major_faults = f[i++];
  l.read_bytes = f[i++];
  l.write_bytes = f[i++];
  for (HeapDelta* heap : {&l.allocated, &l.freed}) {
    heap->bytes = f[i++];
    heap->seen_bytes = f[i++];
    heap->unseen_bytes = f[i++];
    heap->events = f[i++];
    heap->gaps = f[i++];
    heap->late_bytes = f[i++];
  }
  for (HeapDelta* heap : {&l.allocated, &l.freed}) {
    heap->burst_bytes = f[i++];
    heap->burst_doubt = f[i++];
    heap->burst_calls = f[i++];
  }
  l.wall_ns = WrappingAdd(wall_rest, SumOfParts(l));
  l.books_on_cpu_ns = WrappingAdd(books_on_cpu, l.on_cpu_ns);
  l.books_runqueue_ns = WrappingAdd(books_run_queue, l.off_ns[run_queue]);
  return l;
}

uint64_t MaskOf(const Fields& fields) {
  uint64_t mask = 0;
  for (size_t i = 0; i < kFieldCount; i++) mask |= uint64_t{fields[i] != 0} << i;
  return mask;
}

// The header's signed numbers after the times, in their order in the blob.
template <typename Header, typename F>
void ForEachNumber(Header& h, F f) {
  f(h.tick_interval_ns);
  f(h.ticks);
  f(h.ticks_missed);
  f(h.walks);
  f(h.torn_walks);
  f(h.cost.daemon_cpu_ns);
  f(h.cost.tick_cpu_ns);
  f(h.cost.drain_cpu_ns);
  f(h.cost.rules_cpu_ns);
  f(h.cost.answers_cpu_ns);
  f(h.cost.in_path_ns);
  f(h.cost.switches);
  f(h.cost.heap_in_path_ns);
  f(h.cost.heap_events);
  f(h.cost.fault_in_path_ns);
  f(h.cost.faults);
  f(h.cost.map_in_path_ns);
  f(h.cost.map_calls);
  f(h.cost.cpu_in_path_ns);
  f(h.cost.cpu_samples);
  f(h.cost.memory_cpu_ns);
  f(h.cost.burst_in_path_ns);
  f(h.cost.burst_calls);
  f(h.lost_weight_ns);
  f(h.bursts);
  f(h.burst_ns);
  f(h.burst_span_ns);
}

template <typename Target, typename F>
void ForEachTargetNumber(Target& t, F f) {
  f(t.in_path_ns);
  f(t.tick_cpu_ns);
  f(t.drain_cpu_ns);
  f(t.switches);
}

void PutHeader(const DeltaHeader& h, std::string* out) {
  PutVarint((h.books_on ? kBooksOn : 0) | (h.switch_on ? kSwitchOn : 0) |
                (h.tick_on ? kTickOn : 0) | (h.heap_on ? kHeapOn : 0) |
                (h.faults_on ? kFaultsOn : 0) | (h.mappings_on ? kMappingsOn : 0) |
                (h.bursts_on ? kBurstsOn : 0) | (h.cpu_on ? kCpuOn : 0),
            out);
  PutZigzag(h.begin_ns, out);
  PutZigzag(WrappingSubtract(h.end_ns, h.begin_ns), out);
  ForEachNumber(h, [out](int64_t v) { PutZigzag(v, out); });
  PutVarint(h.cost.targets.size(), out);
  for (const TargetCost& target : h.cost.targets) {
    PutVarint(target.target, out);
    ForEachTargetNumber(target, [out](int64_t v) { PutZigzag(v, out); });
  }
  uint64_t mask = 0;
  for (size_t i = 0; i < kLossCount; i++) mask |= uint64_t{h.losses[i] != 0} << i;
  PutVarint(mask, out);
  for (uint64_t count : h.losses) {
    if (count != 0) PutVarint(count, out);
  }
}
static_assert(kLossCount <= 64 && kFieldCount <= 64);

}  // namespace

DeltaWriter::DeltaWriter(const DeltaHeader& header, size_t rows)
    : ticks_(header.ticks),
      tick_interval_ns_(header.tick_interval_ns),
      last_wall_(WrappingSubtract(header.end_ns, header.begin_ns)) {
  out_.reserve(64 + rows * 12);
  PutHeader(header, &out_);
}

void DeltaWriter::Add(const ThreadRow& row) {
  const Fields fields = ToFields(row.ledger);
  const uint64_t mask = MaskOf(fields);
  const bool one_field = mask != 0 && (mask & (mask - 1)) == 0;
  const auto field = static_cast<uint64_t>(__builtin_ctzll(mask | 1ull << 63));
  if (one_field && field == kUnattributedField) {
    PutIdle(row.thread, kFormUnattributed, 0, fields[field], row.samples);
    return;
  }
  if (one_field && field >= kFirstOffField && field < kFirstOffField + kReasonCount) {
    PutIdle(row.thread, kFormIdle, field - kFirstOffField, fields[field], row.samples);
    return;
  }
  PutHead(row.thread, mask == 0 ? kFormNone : kFormGeneral, 0, row.samples.size());
  if (mask != 0) {
    PutVarint(mask, &out_);
    for (int64_t value : fields) {
      if (value != 0) PutZigzag(value, &out_);
    }
  }
  PutSamples(row.samples, false);
}

void DeltaWriter::AddResting(uint32_t thread, const RestingThread& rest,
                             std::span<const SiteSample> samples) {
  if (rest.wall_ns == 0) {
    PutHead(thread, kFormNone, 0, samples.size());
    PutSamples(samples, false);
    return;
  }
  PutIdle(thread, rest.reason ? kFormIdle : kFormUnattributed,
          static_cast<uint64_t>(rest.reason.value_or(Reason{})), rest.wall_ns, samples);
}

void DeltaWriter::PutHead(uint32_t thread, uint64_t form, uint64_t reason, size_t samples) {
  PutVarint(static_cast<uint64_t>(thread - next_thread_), &out_);
  next_thread_ = int64_t{thread} + 1;
  PutVarint(form | reason << kFormBits | samples << (kFormBits + kReasonBits), &out_);
}

void DeltaWriter::PutIdle(uint32_t thread, uint64_t form, uint64_t reason, int64_t wall_ns,
                          std::span<const SiteSample> samples) {
  PutHead(thread, form, reason, samples.size());
  // Threads are read one after another, so their seconds differ from ours and hardly from each
  // other's.
  PutZigzag(WrappingSubtract(wall_ns, last_wall_), &out_);
  last_wall_ = wall_ns;
  PutSamples(samples, true);
}

void DeltaWriter::PutSamples(std::span<const SiteSample> samples, bool idle) {
  for (const SiteSample& sample : samples) {
    const int64_t usual_weight = static_cast<int64_t>(static_cast<uint64_t>(sample.ticks) *
                                                      static_cast<uint64_t>(tick_interval_ns_));
    const int64_t rest = WrappingSubtract(sample.weight, usual_weight);
    const uint64_t ticks = ToZigzag(WrappingSubtract(sample.ticks, idle ? ticks_ : 0));
    PutZigzag(int64_t{sample.site} - last_site_, &out_);
    last_site_ = sample.site;
    PutVarint(ticks << 1 | (rest != 0 ? 1 : 0), &out_);
    if (rest != 0) PutZigzag(rest, &out_);
  }
}

absl::StatusOr<DeltaReader> DeltaReader::Create(std::string_view blob) {
  DeltaReader reader(blob);
  if (!reader.ReadHeader()) return absl::DataLossError("stored delta: damaged header");
  return reader;
}

absl::Status DeltaReader::status() const {
  return damaged_ ? absl::DataLossError("stored delta: damaged row") : absl::OkStatus();
}

bool DeltaReader::Varint(uint64_t* value) {
  uint64_t v = 0;
  for (size_t i = 0; i < rest_.size() && i < 10; i++) {
    const auto byte = static_cast<uint8_t>(rest_[i]);
    v |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      rest_.remove_prefix(i + 1);
      *value = v;
      return true;
    }
  }
  return false;
}

bool DeltaReader::Zigzag(int64_t* value) {
  uint64_t v;
  if (!Varint(&v)) return false;
  *value = FromZigzag(v);
  return true;
}

bool DeltaReader::ReadHeader() {
  uint64_t flags, mask;
  int64_t length;
  if (!Varint(&flags) || !Zigzag(&header_.begin_ns) || !Zigzag(&length)) return false;
  header_.end_ns = WrappingAdd(header_.begin_ns, length);
  header_.books_on = (flags & kBooksOn) != 0;
  header_.switch_on = (flags & kSwitchOn) != 0;
  header_.tick_on = (flags & kTickOn) != 0;
  header_.heap_on = (flags & kHeapOn) != 0;
  header_.faults_on = (flags & kFaultsOn) != 0;
  header_.mappings_on = (flags & kMappingsOn) != 0;
  header_.bursts_on = (flags & kBurstsOn) != 0;
  header_.cpu_on = (flags & kCpuOn) != 0;
  bool ok = true;
  ForEachNumber(header_, [&](int64_t& v) { ok = ok && Zigzag(&v); });
  if (!ok || !ReadTargetCosts() || !Varint(&mask)) return false;
  for (size_t i = 0; i < kLossCount; i++) {
    if ((mask >> i & 1) != 0 && !Varint(&header_.losses[i])) return false;
  }
  last_wall_ = length;
  return true;
}

bool DeltaReader::ReadTargetCosts() {
  uint64_t count;
  // Each takes five bytes at least.
  if (!Varint(&count) || count > rest_.size() / 5) return false;
  header_.cost.targets.resize(count);
  for (TargetCost& target : header_.cost.targets) {
    uint64_t number;
    if (!Varint(&number) || number > std::numeric_limits<uint32_t>::max()) return false;
    target.target = static_cast<uint32_t>(number);
    bool ok = true;
    ForEachTargetNumber(target, [&](int64_t& v) { ok = ok && Zigzag(&v); });
    if (!ok) return false;
  }
  return true;
}

bool DeltaReader::Next(ThreadRow* row) {
  if (rest_.empty() || damaged_) return false;
  damaged_ = !ReadRow(row);
  return !damaged_;
}

bool DeltaReader::ReadRow(ThreadRow* row) {
  uint64_t gap, head;
  if (!Varint(&gap) || !Varint(&head)) return false;
  constexpr auto kMax = std::numeric_limits<uint32_t>::max();
  if (gap > kMax || static_cast<uint64_t>(next_thread_) + gap > kMax) return false;
  row->thread = static_cast<uint32_t>(static_cast<uint64_t>(next_thread_) + gap);
  next_thread_ = int64_t{row->thread} + 1;

  const uint64_t form = head & ((1 << kFormBits) - 1);
  const uint64_t reason = head >> kFormBits & ((1 << kReasonBits) - 1);
  const uint64_t samples = head >> (kFormBits + kReasonBits);
  // A sample takes two bytes at least; more of them than that cannot be true.
  if (samples > rest_.size() / 2) return false;
  if (!ReadLedger(form, reason, &row->ledger)) return false;
  row->samples.resize(samples);
  for (SiteSample& sample : row->samples) {
    if (!ReadSample(form == kFormIdle || form == kFormUnattributed, &sample)) return false;
  }
  return true;
}

bool DeltaReader::ReadLedger(uint64_t form, uint64_t reason, LedgerDelta* ledger) {
  switch (static_cast<Form>(form)) {
    case kFormNone:
      *ledger = {};
      return true;
    case kFormIdle:
    case kFormUnattributed: {
      int64_t difference;
      if (reason >= kReasonCount || !Zigzag(&difference)) return false;
      last_wall_ = WrappingAdd(last_wall_, difference);
      *ledger = {};
      ledger->wall_ns = last_wall_;
      (form == kFormIdle ? ledger->off_ns[reason] : ledger->unattributed_ns) = last_wall_;
      // The books agree in this form: waiting for a CPU is in both.
      if (form == kFormIdle && reason == static_cast<uint64_t>(Reason::kRunQueue)) {
        ledger->books_runqueue_ns = last_wall_;
      }
      return true;
    }
    case kFormGeneral: {
      uint64_t mask;
      if (!Varint(&mask) || mask >> kFieldCount != 0) return false;
      Fields fields{};
      for (size_t i = 0; i < kFieldCount; i++) {
        if ((mask >> i & 1) != 0 && !Zigzag(&fields[i])) return false;
      }
      *ledger = FromFields(fields);
      return true;
    }
  }
  return false;
}

bool DeltaReader::ReadSample(bool idle, SiteSample* sample) {
  int64_t site_difference;
  uint64_t ticks;
  if (!Zigzag(&site_difference) || !Varint(&ticks)) return false;
  const int64_t site = WrappingAdd(last_site_, site_difference);
  if (site < 0 || site > std::numeric_limits<uint32_t>::max()) return false;
  sample->site = last_site_ = static_cast<uint32_t>(site);
  sample->ticks = WrappingAdd(FromZigzag(ticks >> 1), idle ? header_.ticks : 0);
  int64_t rest = 0;
  if ((ticks & 1) != 0 && !Zigzag(&rest)) return false;
  sample->weight =
      WrappingAdd(static_cast<int64_t>(static_cast<uint64_t>(sample->ticks) *
                                       static_cast<uint64_t>(header_.tick_interval_ns)),
                  rest);
  return true;
}

void AddLedger(const LedgerDelta& delta, LedgerDelta* sum) {
  const auto add = [](int64_t value, int64_t* to) { *to = WrappingAdd(*to, value); };
  add(delta.wall_ns, &sum->wall_ns);
  add(delta.on_cpu_ns, &sum->on_cpu_ns);
  for (size_t r = 0; r < kReasonCount; r++) {
    add(delta.off_ns[r], &sum->off_ns[r]);
    add(delta.waits[r], &sum->waits[r]);
  }
  add(delta.unattributed_ns, &sum->unattributed_ns);
  add(delta.books_on_cpu_ns, &sum->books_on_cpu_ns);
  add(delta.books_runqueue_ns, &sum->books_runqueue_ns);
  add(delta.voluntary_switches, &sum->voluntary_switches);
  add(delta.involuntary_switches, &sum->involuntary_switches);
  add(delta.minor_faults, &sum->minor_faults);
  add(delta.major_faults, &sum->major_faults);
  add(delta.read_bytes, &sum->read_bytes);
  add(delta.write_bytes, &sum->write_bytes);
  AddHeap(delta.allocated, &sum->allocated);
  AddHeap(delta.freed, &sum->freed);
}

}  // namespace profd
