#include "daemon/probes/takers.h"

#include <optional>
#include <utility>

#include "daemon/base/start_thread.h"

namespace profd {

Takers::Takers(size_t threads) {
  for (size_t i = 0; i < threads; ++i) {
    std::optional<std::thread> thread = StartThread([this] { Work(); });
    if (!thread) break;
    threads_.push_back(*std::move(thread));
  }
}

Takers::~Takers() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void Takers::Work() {
  const auto woken = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || next_ < count_;
  };
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(&woken));
    if (stopping_) return;
    Help();
  }
}

void Takers::Help() {
  while (next_ < count_) {
    const size_t number = next_++;
    const std::function<void(size_t)>* const task = &task_;  // unchanged until all are done
    mutex_.Unlock();
    (*task)(number);
    mutex_.Lock();
    ++done_;
  }
}

void Takers::Run(size_t count, std::function<void(size_t)> task) {
  const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_ == count_; };
  absl::MutexLock lock(&mutex_);
  task_ = std::move(task);
  done_ = next_ = 0;
  count_ = count;
  Help();
  mutex_.Await(absl::Condition(&over));
  count_ = next_ = done_ = 0;
}

void Takers::Remove(std::vector<Probe> probes) {
  // A probe may have one link for each of its places.
  std::vector<PlaceLinks> links;
  for (Probe& probe : probes) {
    if (probe.links.multi.ok()) links.emplace_back().multi = std::move(probe.links.multi);
    for (UniqueLink& link : probe.links.single) {
      links.emplace_back().single.push_back(std::move(link));
    }
    probe.links.single.clear();
  }
  Run(links.size(), [&links](size_t i) { links[i] = {}; });
  // The guards last.
  Run(probes.size(), [&probes](size_t i) { probes[i] = {}; });
}

}  // namespace profd
