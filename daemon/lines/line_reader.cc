#include "daemon/lines/line_reader.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/start_thread.h"
#include "daemon/lines/descriptor_message.h"

namespace profd {
namespace {

// Addresses on order; more are not read before these.
constexpr size_t kMostPending = 64 << 10;
constexpr size_t kMostResting = 256;
// How long the end of profd may have to wait for an answer.
constexpr int64_t kLookMs = 100;
constexpr int64_t kLongestRestNs = 3600ll * 1'000'000'000;

int64_t ToNs(std::chrono::milliseconds time) { return std::chrono::nanoseconds(time).count(); }

int64_t CpuOf(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return 0;
  }
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

uint64_t ResidentBytes(pid_t pid) {
  if (pid <= 0) return 0;
  const absl::StatusOr<std::string> text =
      ReadWholeFile(absl::StrCat("/proc/", pid, "/statm"), 4096);
  if (!text.ok()) return 0;
  const std::vector<std::string> fields = absl::StrSplit(*text, ' ');
  uint64_t pages = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &pages)) return 0;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

LineReader::LineReader(std::optional<LineLauncher> launcher, std::atomic<int64_t>* cpu_ns,
                       LineReaderOptions options)
    : options_(options),
      cpu_ns_(cpu_ns),
      launcher_(std::move(launcher)),
      cache_(options.cache_bytes),
      launcher_pid_(launcher_ ? launcher_->pid() : 0) {
  if (launcher_) thread_ = StartThread([this] { Run(); });
  absl::MutexLock lock(&mutex_);
  if (!thread_) status_.note = "the process that reads debug info could not be started";
}

LineReader::~LineReader() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    ordered_.SignalAll();
    answered_.SignalAll();
  }
  if (thread_) thread_->join();
}

void LineReader::Find(std::span<LineQuery> queries, std::chrono::milliseconds patience) {
  for (LineQuery& query : queries) {
    query.states.assign(query.addresses.size(), LineQuery::State::kPending);
    query.chains.assign(query.addresses.size(), {});
  }
  const absl::Time deadline = absl::Now() + absl::FromChrono(patience);
  absl::MutexLock lock(&mutex_);
  while (Look(queries) > 0 && !stopping_) {
    if (answered_.WaitWithDeadline(&mutex_, deadline)) {
      Look(queries);
      return;
    }
  }
}

size_t LineReader::Look(std::span<LineQuery> queries) {
  const int64_t now = MonotonicNs();
  size_t on_order = 0;
  for (LineQuery& query : queries) {
    LookForCompanions(query.file, now);
    const auto rest = resting_.find(query.file);
    const bool resting = !thread_ || (rest != resting_.end() && now < rest->second.until_ns);
    std::vector<uint64_t> missing;
    for (size_t i = 0; i < query.addresses.size(); ++i) {
      if (query.states[i] != LineQuery::State::kPending) continue;
      const uint64_t address = query.addresses[i];
      if (cache_.Get(query.file, address, &query.chains[i])) {
        query.states[i] = LineQuery::State::kKnown;
      } else if (resting) {
        query.states[i] = LineQuery::State::kFailed;
      } else if (pending_.contains({query.file, address})) {
        ++on_order;
      } else {
        missing.push_back(address);
      }
    }
    const size_t room = kMostPending - std::min(kMostPending, pending_.size());
    if (missing.size() > room) missing.resize(room);
    on_order += missing.size();
    Order(query, missing);
  }
  return on_order;
}

void LineReader::Order(const LineQuery& query, const std::vector<uint64_t>& addresses) {
  Job job;
  const auto add = [&] {
    if (!job.addresses.empty()) jobs_.push_back(job);
    job = {.file = query.file,
           .contents = query.contents,
           .companions = query.companions,
           .addresses = {},
           .number = ++jobs_made_};
  };
  add();
  for (const uint64_t address : addresses) {
    if (!pending_.try_emplace({query.file, address}, job.number).second) continue;
    job.addresses.push_back(address);
    if (job.addresses.size() == kMaxLineAddresses) add();
  }
  add();
  ordered_.Signal();
}

void LineReader::Run() {
  for (;;) {
    Job job;
    bool idle = false;
    bool reopen = false;
    {
      absl::MutexLock lock(&mutex_);
      while (jobs_.empty() && !stopping_ && !idle) {
        idle = ordered_.WaitWithTimeout(&mutex_, absl::FromChrono(options_.idle));
      }
      if (stopping_) break;
      if (!jobs_.empty()) {
        idle = false;
        job = std::move(jobs_.front());
        jobs_.pop_front();
        reopen = std::exchange(reopen_, false);
      }
    }
    if (idle || reopen) StopWorker();  // whatever it has read goes with it
    if (idle) continue;
    Finish(job, Read(job));
  }
  StopWorker();
}

LineReader::Outcome LineReader::Read(const Job& job) {
  for (;;) {
    const bool fresh = !worker_;
    if (!EnsureWorker()) return Outcome::kLost;
    const LineRequest request = {.id = ++requests_, .file = job.file, .addresses = job.addresses};
    lacks_companion_ = false;
    Outcome outcome = Outcome::kLost;
    if (SendWithDescriptor(worker_->socket(), EncodeLineRequest(request), job.contents->get(),
                           false)) {
      outcome = Receive(request.id, job);
    }
    CountCpu();
    if (outcome != Outcome::kLost) return outcome;
    StopWorker();
    // An old one may have died of something else.
    if (fresh || IsStopping()) return outcome;
  }
}

LineReader::Outcome LineReader::Receive(uint64_t id, const Job& job) {
  const int64_t deadline = MonotonicNs() + ToNs(options_.patience);
  std::vector<uint8_t> buffer(kMaxLineMessage);
  int questions = 0;
  for (;;) {
    const int64_t left_ms = std::max<int64_t>((deadline - MonotonicNs()) / 1'000'000, 0);
    // Also of one that never stops talking.
    if (left_ms == 0 || IsStopping()) return Outcome::kLost;
    pollfd poll_for = {.fd = worker_->socket(), .events = POLLIN, .revents = 0};
    const int ready = poll(&poll_for, 1, static_cast<int>(std::min(left_ms, kLookMs)));
    if (ready < 0 && errno != EINTR) return Outcome::kLost;
    if (ready != 1) continue;
    const ssize_t size = ReceiveWithDescriptor(worker_->socket(), buffer, nullptr);
    if (size <= 0) return Outcome::kLost;
    const std::span<const uint8_t> message(buffer.data(), static_cast<size_t>(size));
    if (const std::optional<FileQuestion> question = DecodeFileQuestion(message)) {
      if (question->id != id || ++questions > kMaxFileQuestions || !Reply(*question, job)) {
        return Outcome::kLost;
      }
      continue;
    }
    const std::optional<LineAnswer> answer = DecodeLineAnswer(message);
    if (!answer || answer->id != id) return Outcome::kLost;
    if (answer->unusable) return Outcome::kUnusable;
    absl::MutexLock lock(&mutex_);
    for (const auto& [address, chain] : answer->chains) {
      // It may say anything, but only of what it was asked for.
      if (!TakePending(job, address)) continue;
      cache_.Put(job.file, address, chain);
      ++status_.read;
    }
    answered_.SignalAll();
    if (answer->last) return Outcome::kAnswered;
  }
}

bool LineReader::Reply(const FileQuestion& question, const Job& job) {
  const UniqueFd fd = job.companions ? job.companions->Open(question) : UniqueFd();
  lacks_companion_ |= !fd.ok();
  const uint8_t reply = 1;
  // A worker that was taken over may ask and never read.
  return SendWithDescriptor(worker_->socket(), {&reply, 1}, fd.get(), false);
}

void LineReader::Postpone(uint64_t file, Rests& rests) {
  if (!rests.contains(file) && rests.size() >= kMostResting) rests.erase(rests.begin());
  Rest& rest = rests[file];
  rest.length_ns = std::clamp(2 * rest.length_ns, ToNs(options_.first_rest), kLongestRestNs);
  rest.until_ns = MonotonicNs() + rest.length_ns;
}

bool LineReader::TakePending(const Job& job, uint64_t address) {
  const auto pending = pending_.find({job.file, address});
  if (pending == pending_.end() || pending->second != job.number) return false;
  pending_.erase(pending);
  return true;
}

void LineReader::LookForCompanions(uint64_t file, int64_t now) {
  const auto lacking = lacking_.find(file);
  if (lacking == lacking_.end() || now < lacking->second.until_ns) return;
  // What is being read now is read without them, and would come after it was forgotten.
  for (const auto& [place, job] : pending_) {
    if (place.first == file) return;
  }
  lacking->second.until_ns = INT64_MAX;  // until a later job has read it again
  lacking->second.last_job = jobs_made_;
  cache_.Forget(file);
  // libdw looks for a file only once.
  reopen_ = true;
}

void LineReader::Finish(const Job& job, Outcome outcome) {
  absl::MutexLock lock(&mutex_);
  for (const uint64_t address : job.addresses) TakePending(job, address);
  if (outcome == Outcome::kAnswered) {
    resting_.erase(job.file);
    const auto lacking = lacking_.find(job.file);
    const bool is_news = lacking == lacking_.end() || (lacking->second.until_ns == INT64_MAX &&
                                                       job.number > lacking->second.last_job);
    if (lacks_companion_ && is_news) Postpone(job.file, lacking_);
  } else {
    if (outcome == Outcome::kLost) ++status_.failures;
    Postpone(job.file, resting_);
    // The other requests for the file would fare no better.
    std::erase_if(jobs_, [&](const Job& other) {
      if (other.file != job.file) return false;
      for (const uint64_t address : other.addresses) TakePending(other, address);
      return true;
    });
  }
  answered_.SignalAll();
}

bool LineReader::IsStopping() const {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

bool LineReader::EnsureWorker() {
  if (worker_) return true;
  const int64_t deadline = MonotonicNs() + ToNs(options_.start);
  absl::StatusOr<std::optional<LineWorker>> started;
  do {
    started = launcher_->Launch(std::chrono::milliseconds(kLookMs));
  } while (started.ok() && !*started && MonotonicNs() < deadline && !IsStopping());
  absl::MutexLock lock(&mutex_);
  if (!started.ok()) {
    status_.note = absl::StrCat(started.status().message(), "; restart profd");
    return false;
  }
  if (!*started) {
    status_.note = "the reader of debug info has not started yet; ask again";
    return false;
  }
  worker_.emplace(**std::move(started));
  worker_pid_ = worker_->pid();
  status_.note.clear();
  return true;
}

void LineReader::StopWorker() {
  if (!worker_) return;
  {
    // Before its number can be that of another process.
    absl::MutexLock lock(&mutex_);
    worker_pid_ = 0;
  }
  ended_cpu_ns_ += worker_->Stop();
  worker_.reset();
  CountCpu();
}

void LineReader::CountCpu() {
  const int64_t used = ended_cpu_ns_ + (worker_ ? CpuOf(worker_->pid()) : 0) + CpuOf(launcher_pid_);
  // It never goes back, though a worker's last words are rounded.
  const int64_t counted = std::max(used, cpu_ns_->load(std::memory_order_relaxed));
  cpu_ns_->store(counted, std::memory_order_relaxed);
}

LineReaderStatus LineReader::Status() const {
  absl::MutexLock lock(&mutex_);
  LineReaderStatus status = status_;
  status.cpu_ns = cpu_ns_->load(std::memory_order_relaxed);
  status.cache_bytes = cache_.bytes();
  status.rss_bytes = ResidentBytes(worker_pid_) + ResidentBytes(launcher_pid_);
  return status;
}

}  // namespace profd
