#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/varint.h"
#include "daemon/store/blob.h"
#include "daemon/store/header_fields.h"
#include "daemon/store/ledger_fields.h"
#include "daemon/store/segment_codec.h"
#include "profd/store/segment.pb.h"

namespace profd {
namespace {

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(absl::StrCat("stored segment: damaged ", std::string(what)));
}

// kLossCount: none.
size_t LossNamed(std::string_view name) {
  static const auto* const losses = [] {
    auto* const made = new absl::flat_hash_map<std::string_view, size_t>();
    for (size_t loss = 0; loss < kLossCount; loss++) made->emplace(DescribeLoss(loss).cause, loss);
    return made;
  }();
  const auto it = losses->find(name);
  return it == losses->end() ? kLossCount : it->second;
}

// Takes numbers off a column, one after another.
template <typename T>
class Column {
 public:
  explicit Column(const google::protobuf::RepeatedField<T>& values)
      : next_(values.data()), end_(values.data() + values.size()) {}
  bool Take(T* value) {
    if (next_ == end_) return false;
    *value = *next_++;
    return true;
  }
  size_t left() const { return static_cast<size_t>(end_ - next_); }

 private:
  const T* next_;
  const T* end_;
};

}  // namespace

SegmentReader::SegmentReader()
    : message_(std::make_unique<store::Segment>()), slice_(std::make_unique<store::Slice>()) {}
SegmentReader::SegmentReader(SegmentReader&&) noexcept = default;
SegmentReader& SegmentReader::operator=(SegmentReader&&) noexcept = default;
SegmentReader::~SegmentReader() = default;

absl::StatusOr<SegmentReader> SegmentReader::Open(std::string_view blob, const KnownStacks& known) {
  ASSIGN_OR_RETURN(const std::string message, UnpackBlob(blob));
  return Parse(message, known);
}

absl::StatusOr<SegmentReader> SegmentReader::Parse(std::string_view message,
                                                   const KnownStacks& known) {
  SegmentReader reader;
  if (message.size() > kMaxBlobContent ||
      !reader.message_->ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return Damaged("message");
  }
  if (reader.message_->version() != kSegmentVersion) {
    return absl::DataLossError(absl::StrCat("stored segment: version ", reader.message_->version(),
                                            " instead of ", kSegmentVersion));
  }
  RETURN_IF_ERROR(reader.ReadDictionaries(known));
  return reader;
}

absl::Status SegmentReader::ReadDictionaries(const KnownStacks& known) {
  const auto& strings = message_->strings();
  for (const std::string& text : strings) loss_of_string_.push_back(LossNamed(text));
  const auto size = static_cast<uint32_t>(strings.size());
  dictionaries_.threads.reserve(static_cast<size_t>(message_->threads_size()));
  for (const store::Thread& thread : message_->threads()) {
    if (thread.name() >= size || thread.process() >= size) return Damaged("thread");
    dictionaries_.threads.push_back(std::make_shared<const ThreadInfo>(
        ThreadInfo{.id = ThreadId{thread.id()},
                   .pid = thread.pid(),
                   .tid = thread.tid(),
                   .target = thread.target(),
                   .name = strings[static_cast<int>(thread.name())],
                   .process = strings[static_cast<int>(thread.process())],
                   .exited = thread.exited(),
                   .start_ns = thread.start_ns(),
                   .process_start_ns = thread.process_start_ns()}));
  }
  RETURN_IF_ERROR(ReadStacks(known));
  return ReadSites();
}

absl::Status SegmentReader::ReadStacks(const KnownStacks& known) {
  std::vector<uint64_t> frames;
  frames.reserve(static_cast<size_t>(message_->frames_size()));
  uint64_t last = 0;
  for (const uint64_t step : message_->frames()) frames.push_back(last += step);
  Column ids(message_->stack_id());
  Column walks(message_->stack_walk());
  Column kernel_frames(message_->stack_kernel_frames());
  Column lengths(message_->stack_length());
  Column places(message_->stack_frames());
  uint64_t id = 0;
  while (ids.Take(&id)) {
    uint32_t walk = 0, kernel = 0, length = 0, place = 0;
    if (!walks.Take(&walk) || !kernel_frames.Take(&kernel) || !lengths.Take(&length)) {
      return Damaged("stack");
    }
    if (walk >= PROFD_WALK_COUNT || kernel > length || length > places.left() ||
        length > PROFD_MAX_FRAMES) {
      return Damaged("stack");
    }
    stack_ids_.push_back(StackId{id});
    std::shared_ptr<const StackTrace> stack = known ? known(StackId{id}) : nullptr;
    std::shared_ptr<StackTrace> made;
    if (stack == nullptr) {
      made = std::make_shared<StackTrace>();
      made->id = StackId{id};
      made->walk = WalkResult{static_cast<uint8_t>(walk)};
      made->kernel_frames = static_cast<uint16_t>(kernel);
      made->frames.reserve(length);
    }
    for (uint32_t i = 0; i < length; i++) {
      places.Take(&place);
      if (place >= frames.size()) return Damaged("stack");
      if (made != nullptr) made->frames.push_back(frames[place]);
    }
    dictionaries_.stacks.push_back(made != nullptr ? std::move(made) : std::move(stack));
  }
  return absl::OkStatus();
}

absl::Status SegmentReader::ReadSites() {
  Column stacks(message_->site_stack());
  Column unknown(message_->site_unknown_stack());
  Column arguments(message_->site_argument());
  Column syscalls(message_->site_syscall());
  Column reasons(message_->site_reason());
  Column kinds(message_->site_kind());
  uint32_t stack = 0;
  dictionaries_.sites.reserve(stacks.left());
  while (stacks.Take(&stack)) {
    uint64_t id = 0, argument = 0;
    int32_t syscall = 0;
    uint32_t reason = 0, kind = 0;
    if (!arguments.Take(&argument) || !syscalls.Take(&syscall) || !reasons.Take(&reason) ||
        !kinds.Take(&kind) || reason >= kReasonCount || kind >= kStoredKindCount ||
        stack > stack_ids_.size() || (stack == 0 && !unknown.Take(&id))) {
      return Damaged("site");
    }
    dictionaries_.sites.push_back({.stack = stack == 0 ? StackId{id} : stack_ids_[stack - 1],
                                   .argument = argument,
                                   .syscall = syscall,
                                   .reason = static_cast<Reason>(reason),
                                   .kind = static_cast<Kind>(kind)});
  }
  const auto is_of_bursts = [](const Site& site) { return IsFromBursts(KeyOf({}, site)); };
  const std::vector<Site>& sites = dictionaries_.sites;
  if (std::any_of(sites.begin(), sites.end(), is_of_bursts)) {
    for (const Site& site : sites) of_bursts_.push_back(is_of_bursts(site));
  }
  return absl::OkStatus();
}

size_t SegmentReader::slices() const { return static_cast<size_t>(message_->slices_size()); }

absl::Status SegmentReader::Read(size_t index, Slice* slice) {
  slice->Clear();
  slice_->Clear();
  if (index >= slices() || !slice_->ParseFromString(message_->slices(static_cast<int>(index)))) {
    return Damaged("slice");
  }
  RETURN_IF_ERROR(ReadHeader(*slice_, &slice->header));
  RETURN_IF_ERROR(ReadRows(*slice_, slice));
  return ReadWaits(*slice_, slice);
}

absl::Status SegmentReader::ReadHeader(const store::Slice& from, SliceHeader* header) const {
  const store::SliceHeader& in = from.header();
  if (in.length_ns() < 0) return Damaged("span");
  header->span.begin_ns = in.begin_ns();
  header->span.end_ns = WrappingAdd(in.begin_ns(), in.length_ns());
  if (header->span.end_ns < header->span.begin_ns) return Damaged("span");
  ReadNumbers(kHeaderFields, in, header);
  ReadNumbers(kCostFields, in.cost(), &header->cost);
  for (const store::TargetCost& target : in.targets()) {
    TargetCost& to = header->cost.targets.emplace_back();
    to.target = target.target();
    ReadNumbers(kTargetCostFields, target, &to);
  }
  if (in.loss_name_size() != in.loss_count_size()) return Damaged("losses");
  for (int i = 0; i < in.loss_name_size(); i++) {
    if (in.loss_name(i) >= loss_of_string_.size()) return Damaged("losses");
    const size_t loss = loss_of_string_[in.loss_name(i)];
    if (loss < kLossCount) header->losses[loss] += in.loss_count(i);
  }
  return absl::OkStatus();
}

absl::Status SegmentReader::ReadWaits(const store::Slice& from, Slice* slice) const {
  Column threads(from.wait_thread());
  Column sites(from.wait_site());
  Column begins(from.wait_begin());
  Column durations(from.wait_duration());
  Column doubts(from.wait_doubt());
  Column similar(from.wait_similar());
  Column wakers(from.wait_waker());
  Column flags(from.wait_flags());
  uint32_t thread = 0;
  slice->waits.reserve(threads.left());
  while (threads.Take(&thread)) {
    StoredWait& wait = slice->waits.emplace_back(StoredWait{.thread = thread});
    uint32_t waker = 0, flag = 0;
    if (thread >= dictionaries_.threads.size() || !sites.Take(&wait.site) ||
        wait.site >= dictionaries_.sites.size() || !begins.Take(&wait.begin_ns) ||
        !durations.Take(&wait.duration_ns) || wait.duration_ns < 0 ||
        !doubts.Take(&wait.doubt_ns) || wait.doubt_ns < 0 || !similar.Take(&wait.similar) ||
        !wakers.Take(&waker) || waker > stack_ids_.size() || !flags.Take(&flag)) {
      return Damaged("wait");
    }
    wait.begin_ns = WrappingAdd(wait.begin_ns, slice->header.span.begin_ns);
    if (waker != 0) wait.waker = stack_ids_[waker - 1];
    wait.earlier = (flag & kWaitEarlier) != 0;
    wait.lasts = (flag & kWaitLasts) != 0;
  }
  return absl::OkStatus();
}

absl::Status SegmentReader::ReadRows(const store::Slice& from, Slice* slice) const {
  Column threads(from.row_thread());
  Column masks(from.row_mask());
  Column values(from.ledger_value());
  Column row_samples(from.row_samples());
  Column sites(from.sample_site());
  Column counts(from.sample_count());
  Column weights(from.sample_weight());
  const auto interval = static_cast<uint64_t>(slice->header.tick_interval_ns);
  int64_t last_wall = slice->header.LengthNs();
  uint64_t next_thread = 0;
  uint32_t gap = 0;
  size_t of_bursts = 0;
  slice->rows.reserve(threads.left());
  slice->samples.reserve(sites.left());
  while (threads.Take(&gap)) {
    Row& row = slice->rows.emplace_back();
    const uint64_t thread = next_thread + gap;
    next_thread = thread + 1;
    uint64_t mask = 0;
    if (thread >= dictionaries_.threads.size() || !masks.Take(&mask) ||
        !row_samples.Take(&row.samples) || row.samples > sites.left() ||
        mask >> kLedgerFields != 0) {
      return Damaged("row");
    }
    row.thread = static_cast<uint32_t>(thread);
    if (IsRest(mask)) {
      int64_t step = 0;
      if (!values.Take(&step)) return Damaged("row");
      last_wall = WrappingAdd(last_wall, step);
      const auto field = static_cast<size_t>(__builtin_ctzll(mask));
      if (field == kFirstOffField + static_cast<size_t>(Reason::kRunQueue)) {
        // The books have the same number: FromFields knows.
        LedgerFields fields{};
        fields[field] = last_wall;
        row.ledger = static_cast<uint32_t>(slice->ledgers.size());
        slice->ledgers.push_back(FromFields(fields));
      } else {
        row.rest_ns = last_wall;
        if (field != kUnattributedField) {
          row.rest_reason = static_cast<uint8_t>(field - kFirstOffField);
        }
      }
    } else if (mask != 0) {
      LedgerFields fields{};
      for (uint64_t left = mask; left != 0; left &= left - 1) {
        if (!values.Take(&fields[static_cast<size_t>(__builtin_ctzll(left))])) {
          return Damaged("row");
        }
      }
      row.ledger = static_cast<uint32_t>(slice->ledgers.size());
      slice->ledgers.push_back(FromFields(fields));
    }
    uint64_t next_site = 0;
    for (uint32_t i = 0; i < row.samples; i++) {
      uint64_t count = 0;
      int64_t rest = 0;
      sites.Take(&gap);
      const uint64_t site = next_site + gap;
      next_site = site + 1;
      if (site >= dictionaries_.sites.size() || !counts.Take(&count) ||
          ((count & 1) != 0 && !weights.Take(&rest))) {
        return Damaged("sample");
      }
      SiteSample& sample = slice->samples.emplace_back();
      sample.site = static_cast<uint32_t>(site);
      sample.ticks = FromZigzag(count >> 1);
      const bool histogram = IsHistogram(dictionaries_.sites[site].kind);
      const uint64_t usual = histogram ? 0 : static_cast<uint64_t>(sample.ticks) * interval;
      sample.weight = WrappingAdd(static_cast<int64_t>(usual), rest);
      if (!of_bursts_.empty() && of_bursts_[site]) of_bursts++;
    }
  }
  if (slice->header.drains != 1) {
    if (of_bursts != static_cast<size_t>(from.sample_squares_size())) return Damaged("squares");
    slice->squares.assign(from.sample_squares().begin(), from.sample_squares().end());
  }
  return absl::OkStatus();
}

}  // namespace profd
