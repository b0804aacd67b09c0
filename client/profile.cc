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
// The sum of any column of times stays below this (146 years), so it cannot overflow.
constexpr int64_t kMaxTotalNs = int64_t{1} << 62;

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
      if (header_seen_) return Damaged("two headers");
      header_seen_ = true;
      profile_.header = part.header();
      return absl::OkStatus();
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

absl::Status ProfileBuilder::CountTime(Column column, int64_t ns) {
  int64_t& total_ns = totals_ns_[column];
  // Before the addition, so that it cannot overflow.
  const int64_t magnitude = ns < 0 ? -(ns + 1) : ns;
  if (magnitude > kMaxTotalNs - total_ns) return Damaged("impossible times");
  total_ns += magnitude;
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
    RETURN_IF_ERROR(CountTime(kWall, thread.wall_ns()));
    RETURN_IF_ERROR(CountTime(kOnCpu, thread.on_cpu_ns()));
    RETURN_IF_ERROR(CountTime(kEstimated, thread.estimated_ns()));
    RETURN_IF_ERROR(CountTime(kBooks, thread.books_on_cpu_ns()));
    RETURN_IF_ERROR(CountTime(kBooks, thread.books_runqueue_ns()));
    for (const profd::v1::ReasonTotal& total : thread.off()) {
      RETURN_IF_ERROR(CountTime(kOff, total.time_ns()));
    }
    profile_.threads.push_back(thread);
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
    RETURN_IF_ERROR(CountTime(kTime, sent.time_ns()));
    RETURN_IF_ERROR(CountTime(kError, sent.error_ns()));
    RETURN_IF_ERROR(CountTime(kWeight, sent.weight_ns()));
    sample.reason = DescribeReason(sent.reason()).reason;
    sample.syscall = sent.syscall();
    sample.argument = sent.argument();
    sample.time_ns = std::max<int64_t>(sent.time_ns(), 0);
    sample.error_ns = std::max<int64_t>(sent.error_ns(), 0);
    sample.weight_ns = sent.weight_ns();
    sample.ticks = sent.ticks();
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

}  // namespace profctl
