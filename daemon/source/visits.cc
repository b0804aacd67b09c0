#include "daemon/source/visits.h"

#include <algorithm>

namespace profd {

void Visits::Add(ThreadId id, int32_t kernel_tid) {
  const auto number = static_cast<uint64_t>(id);
  const auto [it, fresh] = index_.try_emplace(number, threads_.size());
  if (!fresh) {
    threads_[it->second].kernel_tid = kernel_tid;
    return;
  }
  threads_.push_back({.id = number,
                      .due = tick_ + 1,
                      .block_end = tick_ + 2,
                      .kernel_tid = kernel_tid,
                      .stride = 1});
}

std::span<profd_visit> Visits::Next(int64_t interval_ns) {
  ++tick_;
  due_.clear();
  due_threads_.clear();
  for (size_t i = 0; i < threads_.size(); ++i) {
    const Thread& thread = threads_[i];
    if (thread.due != tick_) continue;
    due_.push_back({.thread_id = thread.id,
                    .weight_ns = static_cast<uint64_t>(interval_ns) * thread.stride,
                    .kernel_tid = thread.kernel_tid,
                    .outcome = PROFD_VISIT_NONE});
    due_threads_.push_back(i);
  }
  return due_;
}

void Visits::BeginBlock(Thread& thread, uint32_t stride) {
  thread.stride = std::clamp<uint32_t>(stride, 1, longest_stride_);
  thread.due = thread.block_end;
  if (thread.stride > 1) {
    thread.due += std::uniform_int_distribution<uint64_t>(0, thread.stride - 1)(random_);
  }
  thread.block_end += thread.stride;
}

void Visits::Learn() {
  // From the last to the first, so that taking one out does not move those still to come.
  for (size_t i = due_.size(); i-- > 0;) {
    Thread& thread = threads_[due_threads_[i]];
    if (due_[i].outcome == PROFD_VISIT_GONE) {
      index_.erase(thread.id);
      if (&thread != &threads_.back()) {
        thread = threads_.back();
        index_[thread.id] = due_threads_[i];
      }
      threads_.pop_back();
      continue;
    }
    const bool same = due_[i].outcome == PROFD_VISIT_SAME;
    if (same) idle_ticks_ += thread.stride;
    BeginBlock(thread, same ? thread.stride * 2 : 1);
  }
  due_.clear();
  due_threads_.clear();
}

}  // namespace profd
