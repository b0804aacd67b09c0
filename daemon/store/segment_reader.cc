#include <cassert>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/store/blob.h"
#include "daemon/store/header_fields.h"
#include "daemon/store/segment_codec.h"
#include "daemon/store/wire.h"
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

// Each column is in one piece, as it was written. False if there are two of it.
bool TakeColumn(const WireFields::Field& field, EncodedSlice* slice) {
  if (field.number == store::Slice::kSampleSquaresFieldNumber) {
    return std::exchange(slice->sample_squares, field.bytes).empty();
  }
  Varints* const columns[] = {&slice->row_thread,   &slice->row_mask,    &slice->ledger_value,
                              &slice->row_samples,  &slice->sample_site, &slice->sample_count,
                              &slice->sample_weight};
  Varints* const column = columns[field.number - store::Slice::kRowThreadFieldNumber];
  return std::exchange(*column, Varints(field.bytes)).empty();
}

}  // namespace

absl::StatusOr<SegmentReader> SegmentReader::Open(std::string_view blob, const Known& known,
                                                  Sealed sealed) {
  ASSIGN_OR_RETURN(std::string message, UnpackBlob(blob));
  auto content = std::make_unique<const std::string>(std::move(message));
  ASSIGN_OR_RETURN(SegmentReader reader, Parse(*content, known));
  reader.content_ = std::move(content);
  reader.sealed_ = sealed;
  return reader;
}

void SegmentReader::Unload() {
  message_ = {};
  content_.reset();
}

absl::Status SegmentReader::Load(std::string_view blob) {
  ASSIGN_OR_RETURN(std::string message, UnpackBlob(blob));
  const bool same = slices_.empty() || slices_.back().begin + slices_.back().size <= message.size();
  if (!same) return Damaged("message");
  content_ = std::make_unique<const std::string>(std::move(message));
  message_ = *content_;
  return absl::OkStatus();
}

absl::StatusOr<SegmentReader> SegmentReader::Parse(std::string_view message, const Known& known) {
  if (message.size() > kMaxBlobContent) return Damaged("message");
  SegmentReader reader;
  reader.message_ = message;
  std::string rest;
  WireFields fields(message);
  for (WireFields::Field field; fields.Next(&field);) {
    if (field.number != store::Segment::kSlicesFieldNumber) {
      rest += field.whole;
    } else if (field.has_bytes) {
      const auto begin = static_cast<size_t>(field.bytes.data() - message.data());
      reader.slices_.push_back({begin, field.bytes.size()});
    } else {
      return Damaged("message");
    }
  }
  store::Segment dictionaries;
  if (fields.damaged() || !dictionaries.ParseFromString(rest)) return Damaged("message");
  if (dictionaries.version() != kSegmentVersion) {
    return absl::DataLossError(absl::StrCat("stored segment: version ", dictionaries.version(),
                                            " instead of ", kSegmentVersion));
  }
  RETURN_IF_ERROR(reader.ReadDictionaries(dictionaries, known));
  return reader;
}

absl::Status SegmentReader::ReadDictionaries(const store::Segment& message, const Known& known) {
  const auto& strings = message.strings();
  for (const std::string& text : strings) loss_of_string_.push_back(LossNamed(text));
  const auto size = static_cast<uint32_t>(strings.size());
  dictionaries_.threads.reserve(static_cast<size_t>(message.threads_size()));
  for (const store::Thread& thread : message.threads()) {
    if (thread.name() >= size || thread.process() >= size) return Damaged("thread");
    ThreadInfo info{.id = ThreadId{thread.id()},
                    .pid = thread.pid(),
                    .tid = thread.tid(),
                    .target = thread.target(),
                    .name = strings[static_cast<int>(thread.name())],
                    .process = strings[static_cast<int>(thread.process())],
                    .exited = thread.exited(),
                    .start_ns = thread.start_ns(),
                    .process_start_ns = thread.process_start_ns(),
                    .only_levels = thread.only_levels()};
    std::shared_ptr<const ThreadInfo> same = known.thread ? known.thread(info.id) : nullptr;
    if (same == nullptr || *same != info)
      same = std::make_shared<const ThreadInfo>(std::move(info));
    dictionaries_.threads.push_back(std::move(same));
  }
  RETURN_IF_ERROR(ReadStacks(message, known));
  RETURN_IF_ERROR(ReadSites(message));
  return ReadIdentities(message);
}

absl::Status SegmentReader::ReadStacks(const store::Segment& message, const Known& known) {
  std::vector<uint64_t> frames;
  frames.reserve(static_cast<size_t>(message.frames_size()));
  uint64_t last = 0;
  for (const uint64_t step : message.frames()) frames.push_back(last += step);
  Column ids(message.stack_id());
  Column walks(message.stack_walk());
  Column kernel_frames(message.stack_kernel_frames());
  Column lengths(message.stack_length());
  Column places(message.stack_frames());
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
    std::shared_ptr<const StackTrace> stack = known.stack ? known.stack(StackId{id}) : nullptr;
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

absl::Status SegmentReader::ReadSites(const store::Segment& message) {
  Column stacks(message.site_stack());
  Column unknown(message.site_unknown_stack());
  Column arguments(message.site_argument());
  Column syscalls(message.site_syscall());
  Column reasons(message.site_reason());
  Column kinds(message.site_kind());
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
  traits_.reserve(dictionaries_.sites.size());
  for (const Site& site : dictionaries_.sites) traits_.push_back(TraitsOf(site));
  return absl::OkStatus();
}

absl::Status SegmentReader::ReadIdentities(const store::Segment& message) {
  const auto& strings = message.strings();
  const auto known = [&](uint32_t string) {
    return string < static_cast<uint32_t>(strings.size());
  };
  for (const store::Module& module : message.modules()) {
    if (!known(module.path()) || !known(module.build_id()) || !known(module.headers_id())) {
      return Damaged("module");
    }
    dictionaries_.modules.emplace(
        ModuleId{module.id()}, std::make_shared<const ModuleIdentity>(ModuleIdentity{
                                   .path = strings[static_cast<int>(module.path())],
                                   .build_id = strings[static_cast<int>(module.build_id())],
                                   .headers_id = strings[static_cast<int>(module.headers_id())]}));
  }
  if (!message.has_boot()) return absl::OkStatus();
  const store::Boot& boot = message.boot();
  if (!known(boot.id()) || !known(boot.kernel_build_id())) return Damaged("boot");
  dictionaries_.boot = std::make_shared<const BootIdentity>(
      BootIdentity{.boot_id = strings[static_cast<int>(boot.id())],
                   .kernel_build_id = strings[static_cast<int>(boot.kernel_build_id())],
                   .kernel_text = boot.kernel_text()});
  return absl::OkStatus();
}

absl::StatusOr<SliceCursor> SegmentReader::Read(size_t index) const {
  if (index >= slices() || message_.empty()) return Damaged("slice");
  auto slice = std::make_unique<EncodedSlice>();
  slice->threads = dictionaries_.threads.size();
  slice->sites = traits_;
  std::string rest;
  WireFields fields(message_.substr(slices_[index].begin, slices_[index].size));
  for (WireFields::Field field; fields.Next(&field);) {
    if (field.number < store::Slice::kRowThreadFieldNumber ||
        field.number > store::Slice::kSampleSquaresFieldNumber) {
      rest += field.whole;
    } else if (!field.has_bytes || !TakeColumn(field, slice.get())) {
      return Damaged("column");
    }
  }
  store::Slice message;
  if (fields.damaged() || !message.ParseFromString(rest)) return Damaged("slice");
  RETURN_IF_ERROR(ReadHeader(message.header(), &slice->header));
  RETURN_IF_ERROR(ReadWaits(message, slice.get()));
  if (sealed_ == Sealed::kHere) {
    assert(slice->Check());
  } else if (!slice->Check()) {
    return Damaged("row");
  }
  return SliceCursor(std::move(slice));
}

absl::Status SegmentReader::ReadHeader(const store::SliceHeader& in, SliceHeader* header) const {
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

absl::Status SegmentReader::ReadWaits(const store::Slice& from, EncodedSlice* slice) const {
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

}  // namespace profd
