#include "daemon/service/worker_pool.h"

#include <utility>

namespace profd {

WorkerPool::WorkerPool(size_t threads, size_t queue) : queue_limit_(queue) {
  threads_.reserve(threads);
  try {
    for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  } catch (...) {
    Stop();
    throw;
  }
}

WorkerPool::~WorkerPool() { Stop(); }

void WorkerPool::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool WorkerPool::Add(Job job) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || jobs_.size() >= queue_limit_) return false;
  jobs_.push_back(std::move(job));
  return true;
}

void WorkerPool::Work() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !jobs_.empty();
  };
  while (true) {
    Job job;
    bool stopping = false;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (jobs_.empty()) return;
      stopping = stopping_;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job(stopping);
  }
}

}  // namespace profd
