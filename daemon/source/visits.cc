#include "daemon/source/visits.h"

#include <algorithm>
#include <utility>

namespace profd {

void Visits::Add(ThreadId id, int32_t kernel_tid) {
  const auto number = static_cast<uint64_t>(id);
  const auto [it, fresh] = index_.try_emplace(number, threads_.size());
  if (!fresh) {
    threads_[it->second].kernel_tid = kernel_tid;
    return;
  }
  Thread& thread = threads_.emplace_back();
  thread.id = number;
  thread.due = tick_ + 1;
  thread.block_end = tick_ + 2;
  thread.kernel_tid = kernel_tid;
}

void Visits::Begin() {
  ++tick_;
  next_ = 0;
}

size_t Visits::Next(std::span<profd_visit> table) {
  due_.clear();
  for (; next_ < threads_.size() && due_.size() < table.size(); ++next_) {
    const Thread& thread = threads_[next_];
    if (thread.due != tick_) continue;
    profd_visit& visit = table[due_.size()];
    visit.thread_id = thread.id;
    visit.kernel_tid = thread.kernel_tid;
    visit.outcome = PROFD_VISIT_NONE;
    visit.followed = 0;
    visit.since = 0;
    visit.known = thread.known ? 1 : 0;
    visit.stride = thread.stride;
    due_.push_back(next_);
  }
  return due_.size();
}

void Visits::BeginBlock(Thread& thread, uint32_t stride) {
  thread.stride = std::clamp<uint32_t>(stride, 1, longest_stride_);
  thread.due = thread.block_end;
  if (thread.stride > 1) {
    thread.due += std::uniform_int_distribution<uint64_t>(0, thread.stride - 1)(random_);
  }
  thread.block_end += thread.stride;
}

void Visits::Remember(Thread& thread, profd_visit& visit) {
  if (visit.outcome == PROFD_VISIT_STILL) {
    visit.stack = thread.stack;
    visit.arg0 = thread.arg0;
    visit.sysno = thread.sysno;
    visit.reason = thread.reason;
    return;
  }
  const bool sample = visit.outcome == PROFD_VISIT_SAME || visit.outcome == PROFD_VISIT_NEW;
  thread.known = sample && visit.reason != PROFD_REASON_RUNQUEUE;
  if (!thread.known) return;
  thread.stack = visit.stack;
  thread.arg0 = visit.arg0;
  thread.sysno = visit.sysno;
  thread.reason = visit.reason;
}

void Visits::Learn(std::span<profd_visit> table, Sampled sampled) {
  for (size_t i = 0; i < due_.size(); ++i) {
    Thread& thread = threads_[due_[i]];
    if (table[i].outcome == PROFD_VISIT_GONE) {
      thread.gone = any_gone_ = true;
      sampled(table[i], thread.stride, thread.kept);
      continue;
    }
    Remember(thread, table[i]);
    sampled(table[i], thread.stride, thread.kept);
    const bool same = table[i].outcome == PROFD_VISIT_SAME || table[i].outcome == PROFD_VISIT_STILL;
    if (same) idle_ticks_ += thread.stride;
    BeginBlock(thread, same ? thread.stride * 2 : 1);
  }
  due_.clear();
}

void Visits::End() {
  if (!std::exchange(any_gone_, false)) return;
  for (size_t i = threads_.size(); i-- > 0;) {
    if (!threads_[i].gone) continue;
    index_.erase(threads_[i].id);
    if (i + 1 != threads_.size()) {
      threads_[i] = threads_.back();
      index_[threads_[i].id] = i;
    }
    threads_.pop_back();
  }
}

}  // namespace profd
