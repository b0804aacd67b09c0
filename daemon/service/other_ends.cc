#include "daemon/service/other_ends.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/memory/process_memory.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr size_t kMostQuestions = 4096;
constexpr size_t kMostNetworks = 64;
constexpr std::string_view kOutOfTime = "[not found in time]";

NamelessFile Socket(uint64_t inode) {
  return {.kind = NamelessFile::Kind::kSocket, .inode = inode};
}
NamelessFile Pipe(uint64_t inode) { return {.kind = NamelessFile::Kind::kPipe, .inode = inode}; }

// NotFound if another process has its PID by now.
absl::StatusOr<ProcessDirectory> OpenProcess(const std::string& proc, const ProcessId& process) {
  if (process.start_ns == 0) return ProcessDirectory::Open(proc, process.pid);
  return ProcessDirectory::Open(proc, process.pid, process.start_ns);
}

std::string WithWord(std::string_view word, std::string_view names) {
  if (names.empty()) return "";
  return absl::StrCat(" ", std::string(word), " ", std::string(names));
}

}  // namespace

// Who has the other end, each process once. Those that asked are meant only if there is nobody
// else: after a fork, both processes may have both ends.
class OtherEnds::Answer {
 public:
  void Add(const FileHolder& holder, bool asked) {
    if (pids_.insert(holder.pid).second) (asked ? own_ : others_).push_back(&holder);
  }
  const std::vector<const FileHolder*>& others() const { return others_; }
  const std::vector<const FileHolder*>& own() const { return own_; }

 private:
  std::set<int32_t> pids_;
  std::vector<const FileHolder*> others_, own_;
};

std::optional<size_t> OtherEnds::Ask(const NearEnd& end, Waiters waiters,
                                     std::optional<int32_t> descriptor) {
  if (questions_.size() >= kMostQuestions) return std::nullopt;
  questions_.push_back({.end = end, .waiters = std::move(waiters), .descriptor = descriptor});
  return questions_.size() - 1;
}

const std::string& OtherEnds::NetworkOf(const ProcessId& process) {
  const auto [it, fresh] = network_of_.try_emplace(process);
  if (!fresh) return it->second;
  const absl::StatusOr<ProcessDirectory> directory = OpenProcess(sources_.proc, process);
  if (directory.ok()) it->second = directory->ReadLink("ns/net").value_or("");
  return it->second;
}

void OtherEnds::ReadNetworks() {
  absl::flat_hash_map<std::string, int32_t> readers;
  for (const Question& question : questions_) {
    if (question.end.pipe != 0) continue;
    for (const ProcessId& process : question.waiters) {
      if (!budget_->Left()) break;
      const std::string& name = NetworkOf(process);
      if (name.empty()) continue;
      if (networks_.size() < kMostNetworks || networks_.contains(name)) {
        networks_[name].Want(question.end.connection);
        readers.try_emplace(name, process.pid);
      } else {
        complete_ = false;
      }
    }
  }
  for (auto& [name, network] : networks_) {
    if (!network.Read(sources_.proc, readers.at(name), &*budget_)) complete_ = false;
    for (const TcpSocket& socket : network.sockets()) {
      if (socket.inode != 0) search_->Want(Socket(socket.inode));
    }
  }
}

void OtherEnds::FindDescriptors() {
  for (Question& question : questions_) {
    if (!question.descriptor || question.end.pipe != 0 || !budget_->Left()) continue;
    const absl::StatusOr<ProcessDirectory> directory =
        OpenProcess(sources_.proc, *question.waiters.begin());
    if (!directory.ok()) continue;
    const auto link = directory->ReadLink(absl::StrCat("fd/", *question.descriptor));
    if (link.ok()) question.file = ParseNamelessFile(*link);
  }
}

void OtherEnds::Find(const std::set<int32_t>& targets) {
  if (questions_.empty()) return;
  const int64_t begin_ns = sources_.clock->ThreadCpuNs();
  budget_.emplace(sources_.allowance->Left(), sources_.clock);
  search_.emplace(sources_.proc, &*budget_);
  ReadNetworks();
  FindDescriptors();
  std::set<int32_t> waiters;
  for (const Question& question : questions_) {
    if (question.end.pipe != 0) search_->Want(Pipe(question.end.pipe));
    for (const ProcessId& process : question.waiters) waiters.insert(process.pid);
  }
  if (!search_->Run(waiters, targets) || !budget_->Left()) complete_ = false;
  sources_.allowance->Took(sources_.clock->ThreadCpuNs() - begin_ns);
}

bool OtherEnds::Asked(const Question& question, const FileHolder& holder) {
  return question.waiters.contains({holder.pid, holder.start_ns}) ||
         question.waiters.contains({holder.pid, 0});
}

void OtherEnds::Add(const NamelessFile& file, const Question& question, Answer* answer) const {
  for (const FileHolder& holder : search_->HoldersOf(file)) {
    if (holder.start_ns > latest_start_ns_) continue;
    answer->Add(holder, Asked(question, holder));
  }
}

std::string OtherEnds::FindPipe(const Question& question) const {
  const std::vector<FileHolder>& holders = search_->HoldersOf(Pipe(question.end.pipe));
  bool reads = question.end.reads;
  if (reads == question.end.writes) {
    // Who polls has one end, mostly.
    bool may_read = false, may_write = false;
    for (const FileHolder& holder : holders) {
      if (!Asked(question, holder)) continue;
      may_read = may_read || holder.reads;
      may_write = may_write || holder.writes;
    }
    if (may_read == may_write) return "";
    reads = may_read;
  }
  Answer answer;
  for (const FileHolder& holder : holders) {
    if (holder.start_ns > latest_start_ns_) continue;
    if (reads ? holder.writes : holder.reads) answer.Add(holder, Asked(question, holder));
  }
  return WithWord(reads ? "from" : "to", Names(answer));
}

bool OtherEnds::IsNear(const Question& question, const TcpSocket& socket) const {
  if (socket.inode == 0) return false;
  if (question.descriptor) return question.file == Socket(socket.inode);
  const std::vector<FileHolder>& holders = search_->HoldersOf(Socket(socket.inode));
  return std::any_of(holders.begin(), holders.end(),
                     [&](const FileHolder& holder) { return Asked(question, holder); });
}

std::string OtherEnds::FindConnection(const Question& question) const {
  std::set<std::string> names;
  for (const ProcessId& process : question.waiters) {
    const auto name = network_of_.find(process);
    if (name != network_of_.end()) names.insert(name->second);
  }
  Answer answer;
  // Time is of no help where there is no connection any more.
  bool there = false;
  for (const std::string& name : names) {
    const auto network = networks_.find(name);
    if (network == networks_.end()) continue;
    there = there || !network->second.complete();
    for (const uint32_t index : network->second.NearEnds(question.end.connection)) {
      const TcpSocket& near = network->second.sockets()[index];
      const bool is_near = IsNear(question, near);
      if (!is_near && (complete_ || question.descriptor)) continue;
      for (const uint64_t inode : network->second.OtherEnds(near)) {
        there = true;
        if (is_near) Add(Socket(inode), question, &answer);
      }
    }
  }
  return there ? WithWord("of", Names(answer)) : std::string();
}

std::string OtherEnds::Names(const Answer& answer) const {
  const bool alone = answer.others().empty() && complete_;
  const std::vector<const FileHolder*>& holders = alone ? answer.own() : answer.others();
  if (holders.empty()) return std::string(complete_ ? std::string_view() : kOutOfTime);
  const std::string first =
      absl::StrCat(CleanText(holders.front()->name, kMaxNameText), " (", holders.front()->pid, ")");
  // Whom we may not read may be the one who is meant.
  if (!complete_ || (alone && search_->denied())) return absl::StrCat(first, " and maybe more");
  return holders.size() == 1 ? first : absl::StrCat(first, " and ", holders.size() - 1, " more");
}

std::string OtherEnds::Phrase(size_t question) const {
  if (!search_) return "";
  const Question& asked = questions_[question];
  return asked.end.pipe != 0 ? FindPipe(asked) : FindConnection(asked);
}

}  // namespace profd
