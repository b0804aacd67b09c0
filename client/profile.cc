#include "client/profile.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/text.h"
#include "daemon/base/status.h"

namespace profctl {
namespace {

constexpr uint64_t kMaxAnswerBytes = uint64_t{1} << 30;
// The sum of any column stays below this (146 years, 4 EiB), so it cannot overflow.
constexpr int64_t kMaxTotal = int64_t{1} << 62;

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(absl::StrCat("the answer is damaged (",
                                          absl::string_view(what.data(), what.size()),
                                          "); are profd and profctl of the same version?"));
}

}  // namespace

absl::Status ProfileBuilder::Add(const profd::v1::FetchResponse& part) {
  bytes_ += part.ByteSizeLong();
  if (bytes_ > kMaxAnswerBytes) {
    return absl::ResourceExhaustedError(
        "the answer is larger than 1 GiB; ask for a shorter window or fewer targets");
  }
  if (trailer_seen_) return Damaged("parts after the trailer");
  if (!header_seen_ && part.part_case() != profd::v1::FetchResponse::kHeader) {
    return Damaged("it does not begin with a header");
  }
  switch (part.part_case()) {
    case profd::v1::FetchResponse::kHeader:
      return AddHeader(part.header());
    case profd::v1::FetchResponse::kDictionary:
      return AddDictionary(part.dictionary());
    case profd::v1::FetchResponse::kThreads:
      return AddThreads(part.threads());
    case profd::v1::FetchResponse::kSamples:
      return AddSamples(part.samples());
    case profd::v1::FetchResponse::kTrailer:
      trailer_seen_ = true;
      profile_.trailer = part.trailer();
      return absl::OkStatus();
    case profd::v1::FetchResponse::PART_NOT_SET:
      break;
  }
  // A kind of part that a newer daemon sends: the protocol only grows, so it can be passed over.
  return absl::OkStatus();
}

absl::StatusOr<Profile> ProfileBuilder::Finish() {
  if (!trailer_seen_) {
    return absl::DataLossError(
        "answer incomplete: the stream ended before its trailer; ask again, and see the log of "
        "profd if it stays so");
  }
  return std::move(profile_);
}

absl::Status ProfileBuilder::Count(Column column, int64_t amount) {
  int64_t& total = totals_[column];
  // Before the addition, so that it cannot overflow.
  const int64_t magnitude = amount < 0 ? -(amount + 1) : amount;
  if (magnitude > kMaxTotal - total) return Damaged("impossible times or sizes");
  total += magnitude;
  return absl::OkStatus();
}

absl::Status ProfileBuilder::CountHeap(profd::v1::HeapTotal& total) {
  RETURN_IF_ERROR(Count(kHeapBytes, total.bytes()));
  RETURN_IF_ERROR(Count(kHeapWeight, total.weight_bytes()));
  RETURN_IF_ERROR(Count(kHeapUnseen, total.unseen_bytes()));
  total.set_bytes(std::max<int64_t>(total.bytes(), 0));
  total.set_weight_bytes(std::max<int64_t>(total.weight_bytes(), 0));
  total.set_unseen_bytes(std::max<int64_t>(total.unseen_bytes(), 0));
  total.set_estimated_bytes(std::clamp<int64_t>(total.estimated_bytes(), 0, total.bytes()));
  total.set_late_bytes(std::clamp<int64_t>(total.late_bytes(), 0, total.weight_bytes()));
  return absl::OkStatus();
}

absl::Status ProfileBuilder::AddHeader(const profd::v1::Header& header) {
  if (header_seen_) return Damaged("two headers");
  header_seen_ = true;
  // A daemon that knows no kinds answers with its only one, and does not say so.
  const ProfileKind kind = header.kind() == profd::v1::PROFILE_KIND_UNSPECIFIED
                               ? profd::v1::PROFILE_KIND_OFFCPU
                               : header.kind();
  if (kind != asked_.kind) {
    if (asked_.unit != Unit::kBytes) return Damaged("it is not of the kind that was asked for");
    return absl::UnimplementedError("this profd does not know profiles of that kind; update it");
  }
  profile_.header = header;
  profile_.unit = asked_.unit;
  return absl::OkStatus();
}

absl::Status ProfileBuilder::AddDictionary(const profd::v1::Dictionary& dictionary) {
  for (const profd::v1::Frame& frame : dictionary.frames()) {
    const auto index = static_cast<uint32_t>(profile_.frames.size());
    if (frame.id() == 0 || !frame_index_.emplace(frame.id(), index).second) {
      return Damaged("a frame's id is zero or used twice");
    }
    profile_.frames.push_back(frame);
  }
  for (const profd::v1::Stack& sent : dictionary.stacks()) {
    const auto index = static_cast<uint32_t>(profile_.stacks.size());
    if (sent.id() == 0 || !stack_index_.emplace(sent.id(), index).second) {
      return Damaged("a stack's id is zero or used twice");
    }
    Stack stack;
    stack.complete = sent.complete();
    stack.frames.reserve(static_cast<size_t>(sent.frames_size()));
    for (const uint32_t id : sent.frames()) {
      const auto it = frame_index_.find(id);
      if (it == frame_index_.end()) return Damaged("a stack refers to an unknown frame");
      stack.frames.push_back(it->second);
    }
    profile_.stacks.push_back(std::move(stack));
  }
  return absl::OkStatus();
}

absl::Status ProfileBuilder::AddThreads(const profd::v1::ThreadBatch& batch) {
  for (const profd::v1::Thread& thread : batch.threads()) {
    const auto index = static_cast<uint32_t>(profile_.threads.size());
    if (thread.id() == 0 || !thread_index_.emplace(thread.id(), index).second) {
      return Damaged("a thread's id is zero or used twice");
    }
    RETURN_IF_ERROR(Count(kWall, thread.wall_ns()));
    RETURN_IF_ERROR(Count(kOnCpu, thread.on_cpu_ns()));
    RETURN_IF_ERROR(Count(kEstimated, thread.estimated_ns()));
    RETURN_IF_ERROR(Count(kBooks, thread.books_on_cpu_ns()));
    RETURN_IF_ERROR(Count(kBooks, thread.books_runqueue_ns()));
    for (const profd::v1::ReasonTotal& total : thread.off()) {
      RETURN_IF_ERROR(Count(kOff, total.time_ns()));
    }
    profile_.threads.push_back(thread);
    if (thread.has_heap()) {
      RETURN_IF_ERROR(CountHeap(*profile_.threads.back().mutable_heap()));
    }
  }
  return absl::OkStatus();
}

absl::Status ProfileBuilder::AddSamples(const profd::v1::SampleBatch& batch) {
  for (const profd::v1::Sample& sent : batch.samples()) {
    const auto thread = thread_index_.find(sent.thread());
    if (thread == thread_index_.end()) return Damaged("a sample refers to an unknown thread");
    Sample sample;
    sample.thread = thread->second;
    if (sent.stack() != 0) {
      const auto stack = stack_index_.find(sent.stack());
      if (stack == stack_index_.end()) return Damaged("a sample refers to an unknown stack");
      sample.stack = stack->second;
    }
    switch (profile_.unit) {
      case Unit::kNanoseconds:
        sample.reason = DescribeReason(sent.reason()).reason;
        sample.syscall = sent.syscall();
        sample.argument = sent.argument();
        sample.value = sent.time_ns();
        sample.error = sent.error_ns();
        sample.weight = sent.weight_ns();
        sample.count = sent.ticks();
        break;
      case Unit::kBytes:
        sample.value = sent.bytes();
        sample.error = sent.error_bytes();
        sample.weight = sent.weight_bytes();
        sample.count = sent.events();
        sample.growth = sent.growth_bytes();
        break;
    }
    RETURN_IF_ERROR(Count(kValue, sample.value));
    RETURN_IF_ERROR(Count(kError, sample.error));
    RETURN_IF_ERROR(Count(kWeight, sample.weight));
    RETURN_IF_ERROR(Count(kGrowth, sample.growth));
    sample.value = std::max<int64_t>(sample.value, 0);
    sample.error = std::max<int64_t>(sample.error, 0);
    profile_.samples.push_back(sample);
  }
  return absl::OkStatus();
}

std::string ThreadGroup(std::string_view name) {
  size_t end = name.size();
  while (end > 0 && absl::ascii_isdigit(static_cast<unsigned char>(name[end - 1]))) --end;
  if (end == name.size()) return std::string(name);
  while (end > 0 && std::string_view("-_:#./ ").find(name[end - 1]) != std::string_view::npos) {
    --end;
  }
  return std::string(end == 0 ? name : name.substr(0, end));
}

std::vector<std::string> ThreadGroups(const Profile& profile) {
  // By process name and group: the one name in it, or the group's where there are several.
  std::map<std::pair<std::string, std::string>, std::string> labels;
  for (const profd::v1::Thread& thread : profile.threads) {
    const std::string name = CleanName(thread.name());
    const std::string group = ThreadGroup(name);
    const auto [it, added] = labels.try_emplace({thread.process(), group}, name);
    if (!added && it->second != name) it->second = group;
  }
  std::vector<std::string> groups;
  groups.reserve(profile.threads.size());
  for (const profd::v1::Thread& thread : profile.threads) {
    groups.push_back(labels[{thread.process(), ThreadGroup(CleanName(thread.name()))}]);
  }
  return groups;
}

bool HasManyProcesses(const Profile& profile) {
  return std::any_of(profile.threads.begin(), profile.threads.end(),
                     [&](const profd::v1::Thread& thread) {
                       return thread.pid() != profile.threads.front().pid();
                     });
}

std::string DescribeProcesses(const Profile& profile) {
  std::set<int32_t> pids;
  std::set<std::string> names;
  for (const profd::v1::Thread& thread : profile.threads) {
    pids.insert(thread.pid());
    names.insert(CleanName(thread.process()));
  }
  if (pids.empty()) {
    if (profile.header.processes_size() == 1) return CleanName(profile.header.processes(0));
    return absl::StrCat(profile.header.process_count(), " processes");
  }
  if (pids.size() == 1) return absl::StrCat(*names.begin(), " (", *pids.begin(), ")");
  if (names.size() == 1) return absl::StrCat(*names.begin(), " (", pids.size(), " processes)");
  std::string text = absl::StrCat(pids.size(), " processes: ");
  size_t named = 0;
  for (const std::string& name : names) {
    if (named == 3) {
      text += " ...";
      break;
    }
    absl::StrAppend(&text, named++ == 0 ? "" : ", ", name);
  }
  return text;
}

int64_t WindowNs(const Profile& profile) {
  const int64_t begin = profile.header.begin_ns();
  const int64_t end = profile.header.end_ns();
  return begin >= 0 && end > begin ? end - begin : 0;
}

bool HasSamples(const Profile& profile) {
  if (profile.unit == Unit::kNanoseconds) return profile.trailer.samples() > 0;
  return std::any_of(profile.samples.begin(), profile.samples.end(),
                     [](const Sample& sample) { return sample.count > 0; });
}

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
  for (const profd::v1::Thread& thread : profile.threads) {
    if (!thread.has_heap()) continue;
    if (!sum) sum.emplace();
    AddHeap(thread.heap(), *sum);
  }
  return sum;
}

}  // namespace profctl
