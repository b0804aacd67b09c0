#include "client/answer/profile.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr uint64_t kMaxAnswerBytes = uint64_t{1} << 30;
// The sum of any column stays below this (146 years, 4 EiB), so it cannot overflow.
constexpr int64_t kMaxTotal = int64_t{1} << 62;

absl::Status Damaged(std::string_view what) { return DamagedAnswer(what); }

absl::Status CheckWaitCount(const profd::v1::WaitCount& count) {
  for (const int64_t ns : {count.p50_ns(), count.p50_low_ns(), count.p50_high_ns(), count.p99_ns(),
                           count.p99_low_ns(), count.p99_high_ns()}) {
    if (ns < 0) return Damaged("impossible times or sizes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DamagedAnswer(std::string_view what) {
  return absl::DataLossError(absl::StrCat("the answer is damaged (",
                                          absl::string_view(what.data(), what.size()),
                                          "); check that profd and profctl have the same version"));
}

ProfileBuilder::ProfileBuilder(std::vector<std::string> asked, uint32_t window)
    : asked_(asked.empty() ? std::vector<std::string>{"offcpu"} : std::move(asked)),
      window_(window),
      message_(std::make_shared<profd::v1::Profile>()),
      first_frames_(1) {}

absl::Status ProfileBuilder::Add(const profd::v1::Profile& part) {
  bytes_ += part.ByteSizeLong();
  if (bytes_ > kMaxAnswerBytes) {
    return absl::ResourceExhaustedError(
        "the answer is larger than 1 GiB; use a shorter window or fewer targets");
  }
  if (part.window() != window_) return Damaged("a window that was not asked for");
  if (message_->complete()) return Damaged("parts after the last one");
  const bool first = profiles_.empty();
  const int mappings = message_->mappings_size();
  const int functions = message_->functions_size();
  const int locations = message_->locations_size();
  message_->MergeFrom(part);
  message_->clear_findings();  // of a saved answer: they are found anew
  if (first) {
    RETURN_IF_ERROR(CheckTypes());
  } else if (part.sample_types_size() > 0) {
    return Damaged("sample types after the first part");
  }
  RETURN_IF_ERROR(CheckNames(mappings, functions));
  RETURN_IF_ERROR(AddFrames(locations));
  for (const profd::v1::Stack& stack : part.stacks()) RETURN_IF_ERROR(AddStack(stack));
  for (const profd::v1::Thread& thread : part.threads()) RETURN_IF_ERROR(AddThread(thread));
  for (const profd::v1::Group& group : part.groups()) RETURN_IF_ERROR(AddGroup(group));
  for (const profd::v1::Sample& sample : part.samples()) RETURN_IF_ERROR(AddSample(sample));
  return absl::OkStatus();
}

absl::StatusOr<Answer> ProfileBuilder::Finish() {
  if (!message_->complete()) {
    return absl::DataLossError(
        "the answer is incomplete: the stream ended before its last part; try again, or see "
        "profd's "
        "log");
  }
  RETURN_IF_ERROR(CheckLocks());
  RETURN_IF_ERROR(CheckSyncs());
  Answer answer;
  for (Profile& profile : profiles_) {
    profile.frames = shared_.frames;
    profile.stacks = shared_.stacks;
    profile.groups = shared_.groups;
    profile.message = message_;
    answer.profiles.push_back(std::move(profile));
  }
  return answer;
}

absl::Status ProfileBuilder::Count(int64_t amount, int64_t* total) {
  // Before the addition, so that it cannot overflow.
  const int64_t magnitude = amount < 0 ? -(amount + 1) : amount;
  if (magnitude > kMaxTotal - *total) return Damaged("impossible times or sizes");
  *total += magnitude;
  return absl::OkStatus();
}

absl::Status ProfileBuilder::CountHeap(size_t type, profd::v1::HeapTotal& total) {
  std::array<int64_t, kTypeColumns>& totals = type_totals_[type];
  RETURN_IF_ERROR(Count(total.bytes(), &totals[kHeapBytes]));
  RETURN_IF_ERROR(Count(total.weight_bytes(), &totals[kHeapWeight]));
  RETURN_IF_ERROR(Count(total.unseen_bytes(), &totals[kHeapUnseen]));
  total.set_bytes(std::max<int64_t>(total.bytes(), 0));
  total.set_weight_bytes(std::max<int64_t>(total.weight_bytes(), 0));
  total.set_unseen_bytes(std::max<int64_t>(total.unseen_bytes(), 0));
  total.set_estimated_bytes(std::clamp<int64_t>(total.estimated_bytes(), 0, total.bytes()));
  total.set_late_bytes(std::clamp<int64_t>(total.late_bytes(), 0, total.weight_bytes()));
  return absl::OkStatus();
}

const std::string* ProfileBuilder::Text(uint32_t index) const {
  if (index >= static_cast<uint32_t>(message_->strings_size())) return nullptr;
  return &message_->strings(static_cast<int>(index));
}

absl::Status ProfileBuilder::CheckTypes() {
  const auto& types = message_->sample_types();
  if (types.empty()) return Damaged("its first part has no sample types");
  const bool fits = std::equal(types.begin(), types.end(), asked_.begin(), asked_.end(),
                               [](const profd::v1::SampleType& type, const std::string& name) {
                                 return type.name() == name;
                               });
  if (!fits) return Damaged("it does not have the requested sample types");
  for (const profd::v1::SampleType& type : types) {
    Profile& profile = profiles_.emplace_back();
    profile.kind = FindSampleType(type.name());
    if (profile.kind == nullptr)
      return absl::UnimplementedError(
          "the answer has unknown sample types; check that profd and profctl have the same "
          "version");
    profile.unit = profile.kind->unit;
    profile.type = type;
  }
  type_totals_.resize(profiles_.size());
  return absl::OkStatus();
}

absl::Status ProfileBuilder::CheckNames(int first_mapping, int first_function) const {
  const auto known = [&](uint32_t index) { return Text(index) != nullptr; };
  for (int i = first_mapping; i < message_->mappings_size(); i++) {
    const profd::v1::Mapping& mapping = message_->mappings(i);
    if (!known(mapping.file()) || !known(mapping.build_id()) || !known(mapping.headers_id())) {
      return Damaged("a mapping has an unknown name");
    }
  }
  for (int i = first_function; i < message_->functions_size(); i++) {
    const profd::v1::Function& function = message_->functions(i);
    const auto& others = function.other_names();
    if (!known(function.name()) || !known(function.file()) || !known(function.suffix()) ||
        !std::all_of(others.begin(), others.end(), known)) {
      return Damaged("a function has an unknown name");
    }
  }
  return absl::OkStatus();
}

absl::Status ProfileBuilder::AddFrames(int first_location) {
  for (int i = first_location; i < message_->locations_size(); i++) {
    const profd::v1::Location& location = message_->locations(i);
    if (location.mapping() >= static_cast<uint32_t>(message_->mappings_size())) {
      return Damaged("a location refers to an unknown mapping");
    }
    const profd::v1::Mapping& mapping = message_->mappings(static_cast<int>(location.mapping()));
    if (location.lines().empty()) return Damaged("a location has no function");
    for (const profd::v1::Line& line : location.lines()) {
      if (line.function() >= static_cast<uint32_t>(message_->functions_size())) {
        return Damaged("a location refers to an unknown function");
      }
      const profd::v1::Function& function = message_->functions(static_cast<int>(line.function()));
      std::vector<std::string> others;
      for (const uint32_t other : function.other_names()) others.push_back(*Text(other));
      shared_.frames.push_back({.function = *Text(function.name()),
                                .module = *Text(mapping.file()),
                                .build_id = *Text(mapping.build_id()),
                                .address = location.address(),
                                .file = *Text(function.file()),
                                .line = std::max<int64_t>(line.line(), 0),
                                .inlined = &line != &*location.lines().rbegin(),
                                .kind = function.kind(),
                                .common = function.common(),
                                .found_by = function.found_by(),
                                .other_names = std::move(others),
                                .more_names = function.more_names(),
                                .suffix = *Text(function.suffix())});
    }
    first_frames_.push_back(static_cast<uint32_t>(shared_.frames.size()));
  }
  return absl::OkStatus();
}

absl::Status ProfileBuilder::AddStack(const profd::v1::Stack& sent) {
  Stack stack;
  stack.complete = sent.complete();
  stack.frames.reserve(static_cast<size_t>(sent.locations_size()));
  for (int i = 0; i < sent.locations_size(); i++) {
    const uint32_t location = sent.locations(i);
    if (location + size_t{1} >= first_frames_.size()) {
      return Damaged("a stack refers to an unknown location");
    }
    const uint32_t first = first_frames_[location];
    const uint32_t end = first_frames_[location + 1];
    for (uint32_t f = first; f < end; f++) stack.frames.push_back(f);
    if (static_cast<uint32_t>(i) == sent.origin()) {
      if (sent.origin_line() >= end - first) return Damaged("the origin of a stack is not in it");
      stack.origin = first + sent.origin_line();
    }
  }
  if (!stack.frames.empty() && stack.origin == kUnsampled) {
    return Damaged("the origin of a stack lies outside of it");
  }
  shared_.stacks.push_back(std::move(stack));
  return absl::OkStatus();
}

absl::Status ProfileBuilder::AddThread(const profd::v1::Thread& sent) {
  if (sent.process() >= static_cast<uint32_t>(message_->processes_size())) {
    return Damaged("a thread refers to an unknown process");
  }
  const profd::v1::Process& process = message_->processes(static_cast<int>(sent.process()));
  RETURN_IF_ERROR(Count(sent.wall_ns(), &totals_[kWall]));
  RETURN_IF_ERROR(Count(sent.on_cpu_ns(), &totals_[kOnCpu]));
  RETURN_IF_ERROR(Count(sent.estimated_ns(), &totals_[kEstimated]));
  RETURN_IF_ERROR(Count(sent.idle_ns(), &totals_[kIdle]));
  RETURN_IF_ERROR(Count(sent.books_on_cpu_ns(), &totals_[kBooks]));
  RETURN_IF_ERROR(Count(sent.books_runqueue_ns(), &totals_[kBooks]));
  for (const profd::v1::ReasonTotal& total : sent.off()) {
    RETURN_IF_ERROR(Count(total.time_ns(), &totals_[kOff]));
  }
  for (size_t type = 0; type < profiles_.size(); type++) {
    Profile& profile = profiles_[type];
    Thread& thread = profile.threads.emplace_back();
    thread.pid = process.pid();
    thread.tid = sent.tid();
    thread.name = sent.name();
    thread.group = sent.group();
    thread.process = process.name();
    thread.ledger = sent;
    if (profile.kind->kind == profd::Kind::kAlloc && sent.has_allocated()) {
      thread.heap = sent.allocated();
    } else if (profile.kind->kind == profd::Kind::kFree && sent.has_freed()) {
      thread.heap = sent.freed();
    }
    if (thread.heap) RETURN_IF_ERROR(CountHeap(type, *thread.heap));
  }
  return absl::OkStatus();
}

absl::Status ProfileBuilder::AddGroup(const profd::v1::Group& sent) {
  const bool first = shared_.groups.empty();
  if (sent.labels_size() != (first ? 0 : message_->group_by_size())) {
    return Damaged("a group has a wrong number of labels");
  }
  std::vector<std::string>& labels = shared_.groups.emplace_back();
  for (const uint32_t label : sent.labels()) {
    const std::string* text = Text(label);
    if (text == nullptr) return Damaged("a group has an unknown label");
    labels.push_back(*text);
  }
  return absl::OkStatus();
}

absl::StatusOr<Attributes> ReadAttributes(
    const profd::v1::Profile& message,
    const google::protobuf::RepeatedField<uint32_t>& attributes) {
  Attributes read;
  const auto strings = static_cast<uint32_t>(message.strings_size());
  for (const uint32_t index : attributes) {
    if (index >= static_cast<uint32_t>(message.attributes_size())) {
      return Damaged("a sample refers to an unknown attribute");
    }
    const profd::v1::Attribute& attribute = message.attributes(static_cast<int>(index));
    if (attribute.key() >= strings || attribute.text() >= strings) {
      return Damaged("an attribute has an unknown text");
    }
    const std::string& key = message.strings(static_cast<int>(attribute.key()));
    const std::string& text = message.strings(static_cast<int>(attribute.text()));
    if (key == "idle") read.idle = text;
    if (key == "object") read.object = text;
    if (key == "lock") read.lock = text;
    if (key == "lock_kind") read.lock_kind = text;
    if (key == "task") read.task = text;
    if (key == "syscall") read.syscall = static_cast<int32_t>(attribute.number());
  }
  return read;
}

absl::Status ProfileBuilder::CheckLocks() {
  int64_t locks = message_->locks_left_out_ns(), places = 0, errors = 0;
  if (locks < 0) return Damaged("impossible times or sizes");
  for (const profd::v1::LockUse& lock : message_->locks()) {
    if (lock.process() >= static_cast<uint32_t>(message_->processes_size())) {
      return Damaged("a lock refers to an unknown process");
    }
    RETURN_IF_ERROR(Count(lock.time_ns(), &locks));
    RETURN_IF_ERROR(Count(lock.error_ns(), &errors));
    RETURN_IF_ERROR(Count(lock.release_unknown_ns(), &places));
    RETURN_IF_ERROR(Count(lock.release_left_out_ns(), &places));
    for (const auto* list : {&lock.waiters(), &lock.releasers()}) {
      for (const profd::v1::LockPlace& place : *list) {
        RETURN_IF_ERROR(Count(place.time_ns(), &places));
        RETURN_IF_ERROR(Count(place.error_ns(), &errors));
        RETURN_IF_ERROR(CheckWaitCount(place.waits()));
      }
    }
    RETURN_IF_ERROR(CheckWaitCount(lock.waits()));
  }
  return absl::OkStatus();
}

absl::Status ProfileBuilder::CheckSyncs() {
  int64_t total = message_->syncs_left_out_ns();
  if (total < 0) return Damaged("impossible times or sizes");
  for (const profd::v1::FileSync& sync : message_->syncs()) {
    if (sync.stack() >= shared_.stacks.size()) {
      return Damaged("a file sync refers to an unknown stack");
    }
    RETURN_IF_ERROR(Count(sync.total_ns(), &total));
  }
  return absl::OkStatus();
}

absl::Status ProfileBuilder::AddSample(const profd::v1::Sample& sent) {
  Sample sample;
  const auto threads = static_cast<uint32_t>(profiles_.front().threads.size());
  for (const uint32_t thread : sent.threads()) {
    if (thread >= threads) return Damaged("a sample refers to an unknown thread");
    sample.threads.push_back(thread);
  }
  if (sample.threads.empty()) return Damaged("a sample is of no thread");
  if (sent.stack() >= shared_.stacks.size()) return Damaged("a sample refers to an unknown stack");
  if (sent.stack() != 0) sample.stack = sent.stack();
  if (sent.group() >= shared_.groups.size()) return Damaged("a sample refers to an unknown group");
  sample.group = sent.group();
  const auto types = static_cast<int>(profiles_.size());
  if (sent.values_size() != types || sent.errors_size() != types || sent.weights_size() != types ||
      sent.counts_size() != types || (sent.growth_size() != types && sent.growth_size() != 0)) {
    return Damaged("a sample has a wrong number of values");
  }
  if (sent.reason() != profd::v1::REASON_UNSPECIFIED) {
    sample.reason = DescribeReason(sent.reason()).reason;
  }
  ASSIGN_OR_RETURN(Attributes attributes, ReadAttributes(*message_, sent.attributes()));
  sample.syscall = attributes.syscall;
  sample.object = std::move(attributes.object);
  sample.idle = std::move(attributes.idle);
  sample.lock = std::move(attributes.lock);
  sample.lock_kind = std::move(attributes.lock_kind);
  sample.task = std::move(attributes.task);
  for (int type = 0; type < types; type++) {
    std::array<int64_t, kTypeColumns>& totals = type_totals_[static_cast<size_t>(type)];
    RETURN_IF_ERROR(Count(sent.values(type), &totals[kValue]));
    RETURN_IF_ERROR(Count(sent.errors(type), &totals[kError]));
    RETURN_IF_ERROR(Count(sent.weights(type), &totals[kWeight]));
    sample.value = std::max<int64_t>(sent.values(type), 0);
    sample.error = std::max<int64_t>(sent.errors(type), 0);
    sample.weight = sent.weights(type);
    sample.count = sent.counts(type);
    sample.growth = sent.growth().empty() ? 0 : sent.growth(type);
    RETURN_IF_ERROR(Count(sample.growth, &totals[kGrowth]));
    if (sent.values(type) == 0 && sample.error == 0 && sample.weight == 0 && sample.count == 0 &&
        sample.growth == 0) {
      continue;
    }
    profiles_[static_cast<size_t>(type)].samples.push_back(sample);
  }
  return absl::OkStatus();
}

int64_t WindowNs(const Profile& profile) {
  const int64_t begin = profile.coverage().begin_ns();
  const int64_t end = profile.coverage().end_ns();
  return begin >= 0 && end > begin ? end - begin : 0;
}

bool HasSamples(const Profile& profile) { return profile.type.count() > 0; }

int64_t SumGrowth(const Profile& profile) {
  int64_t sum = 0;
  for (const Sample& sample : profile.samples) sum += sample.growth;
  return sum;
}

void AddHeap(const profd::v1::HeapTotal& heap, profd::v1::HeapTotal& sum) {
  sum.set_bytes(sum.bytes() + heap.bytes());
  sum.set_events(sum.events() + heap.events());
  sum.set_weight_bytes(sum.weight_bytes() + heap.weight_bytes());
  sum.set_gaps(sum.gaps() + heap.gaps());
  sum.set_unseen_bytes(sum.unseen_bytes() + heap.unseen_bytes());
  sum.set_estimated_bytes(sum.estimated_bytes() + heap.estimated_bytes());
  sum.set_late_bytes(sum.late_bytes() + heap.late_bytes());
}

std::optional<profd::v1::HeapTotal> SumHeap(const Profile& profile) {
  std::optional<profd::v1::HeapTotal> sum;
  for (const Thread& thread : profile.threads) {
    if (!thread.heap) continue;
    if (!sum) sum.emplace();
    AddHeap(*thread.heap, *sum);
  }
  return sum;
}

}  // namespace profctl
