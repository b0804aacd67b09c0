#include "daemon/source/visits.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

namespace profd {
namespace {

// A quiet thread is visited all the same once in so many ticks, at least this often. Neighbours are
// visited at the same tick: most ticks visit nobody.
constexpr int64_t kMostTicks = 128;
constexpr int64_t kLookAgainNs = 2'000'000'000;
constexpr size_t kNeighbours = 64;
// With very many threads, each is visited less often: this many visits take 0.25 % of a CPU.
constexpr uint64_t kMostLooksPerSecond = 2'048;

// So many marks are looked at together.
using Word = uint64_t;

// How many ticks there are from one look at a quiet thread to the next.
size_t TicksToLook(size_t quiet, int64_t interval_ns) {
  constexpr uint64_t kSecond = 1'000'000'000;
  const uint64_t of_one = kMostLooksPerSecond * static_cast<uint64_t>(interval_ns);
  // A power of two: where this changes, some wait longer for their turn.
  const uint64_t of_many = std::bit_ceil((quiet * kSecond + of_one - 1) / of_one);
  const auto of_few =
      static_cast<uint64_t>(std::clamp<int64_t>(kLookAgainNs / interval_ns, 1, kMostTicks));
  return std::max(of_many, of_few);
}

Word WordAt(const uint8_t* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

}  // namespace

void Visits::Add(ThreadId id, int32_t kernel_tid) {
  const auto number = static_cast<uint64_t>(id);
  const auto [it, fresh] = index_.try_emplace(number, 0);
  if (!fresh) {
    threads_[it->second].kernel_tid = kernel_tid;
    return;
  }
  if (free_.empty()) {
    free_.push(threads_.size());
    threads_.emplace_back();
    if (quiet_.size() < threads_.size()) quiet_.resize(quiet_.size() + sizeof(Word));
  }
  it->second = free_.top();
  free_.pop();
  active_.push_back(it->second);
  Thread& thread = threads_[it->second];
  thread = {};
  thread.id = number;
  thread.due = tick_ + 1;
  thread.block_end = tick_ + 2;
  thread.kernel_tid = kernel_tid;
}

void Visits::SettleOne(Thread& thread, Rested rested) const {
  const TickSum ticks = {.ns = ticks_.ns - thread.counted.ns,
                         .ticks = ticks_.ticks - thread.counted.ticks};
  if (ticks.ticks == 0) return;
  thread.counted = ticks_;
  profd_visit visit{};
  visit.thread_id = thread.id;
  visit.stack = thread.stack;
  visit.arg0 = thread.arg0;
  visit.kernel_tid = thread.kernel_tid;
  visit.sysno = thread.sysno;
  visit.reason = thread.reason;
  visit.outcome = PROFD_VISIT_STILL;
  visit.followed = thread.kept.trace.followed ? PROFD_FOLLOWED : 0;
  rested(visit, ticks, thread.kept);
}

size_t Visits::Settle(size_t place, size_t most, Rested rested) {
  size_t settled = 0;
  for (; place < quiet_.size(); ++place) {
    if (quiet_[place] == 0) continue;
    if (settled++ == most) return place;
    SettleOne(threads_[place], rested);
  }
  return 0;
}

void Visits::Rouse(size_t slot, Rested rested) {
  Thread& thread = threads_[slot];
  SettleOne(thread, rested);
  quiet_[slot] = 0;
  --quiet_count_;
  thread.stride = 1;
  thread.due = tick_;
  thread.block_end = tick_ + 1;
  active_.push_back(slot);
}

void Visits::Begin(const WokenMarks& woken, int64_t interval_ns, Rested rested) {
  ++tick_;
  next_ = 0;
  const bool kept_on = woken.turn != 0 && woken.turn == woken_.turn;
  woken_ = woken;
  if (quiet_count_ == 0) return;
  const size_t ticks = kept_on ? TicksToLook(quiet_count_, interval_ns) : 1;
  for (size_t group = tick_ % ticks; group * kNeighbours < quiet_.size(); group += ticks) {
    const size_t end = std::min((group + 1) * kNeighbours, quiet_.size());
    for (size_t slot = group * kNeighbours; slot < end; ++slot) {
      if (quiet_[slot] != 0) Rouse(slot, rested);
    }
  }
  // Both are whole words. Who has no mark is never quiet.
  const size_t marked = std::min(quiet_.size(), woken_.marks.size());
  for (size_t first = 0; first + sizeof(Word) <= marked; first += sizeof(Word)) {
    if ((WordAt(&quiet_[first]) & WordAt(&woken_.marks[first])) == 0) continue;
    for (size_t slot = first; slot < first + sizeof(Word); ++slot) {
      if ((quiet_[slot] & woken_.marks[slot]) != 0) Rouse(slot, rested);
    }
  }
}

bool Visits::WatchMark(size_t slot) {
  Thread& thread = threads_[slot];
  if (woken_.turn == 0 || slot >= woken_.marks.size()) return false;
  const std::atomic_ref mark(woken_.marks[slot]);
  const bool clear = mark.load(std::memory_order_relaxed) == 0;
  if (thread.cleared == woken_.turn && clear) return thread.known && thread.stride == 1;
  // Before the visit looks at the thread, for the programs on all CPUs.
  mark.exchange(0);
  thread.cleared = woken_.turn;
  return false;
}

size_t Visits::Next(std::span<profd_visit> table) {
  due_.clear();
  for (; next_ < active_.size() && due_.size() < table.size(); ++next_) {
    const size_t slot = active_[next_];
    const Thread& thread = threads_[slot];
    if (thread.due != tick_) continue;
    profd_visit& visit = table[due_.size()];
    visit.thread_id = thread.id;
    visit.kernel_tid = thread.kernel_tid;
    visit.outcome = PROFD_VISIT_NONE;
    visit.followed = 0;
    visit.since = 0;
    visit.known = thread.known ? 1 : 0;
    visit.stride = thread.stride;
    visit.slot = slot < woken_.marks.size() ? static_cast<uint32_t>(slot) : 0;
    visit.quiet = WatchMark(slot) ? 1 : 0;
    due_.push_back(slot);
  }
  return due_.size();
}

void Visits::CountTick(int64_t weight_ns) {
  ticks_.ns += static_cast<uint64_t>(weight_ns);
  ++ticks_.ticks;
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

void Visits::BecomeQuiet(size_t slot) {
  quiet_[slot] = 1;
  ++quiet_count_;
  threads_[slot].counted = ticks_;
  fewer_ = true;
}

void Visits::Learn(std::span<profd_visit> table, Sampled sampled) {
  for (size_t i = 0; i < due_.size(); ++i) {
    Thread& thread = threads_[due_[i]];
    if (table[i].outcome == PROFD_VISIT_GONE) {
      thread.gone = fewer_ = true;
      sampled(table[i], thread.stride, thread.kept);
      continue;
    }
    Remember(thread, table[i]);
    sampled(table[i], thread.stride, thread.kept);
    const bool same = table[i].outcome == PROFD_VISIT_SAME || table[i].outcome == PROFD_VISIT_STILL;
    if (same) idle_ticks_ += thread.stride;
    if (table[i].outcome == PROFD_VISIT_STILL && table[i].quiet != 0) {
      BecomeQuiet(due_[i]);
      continue;
    }
    // Who may become quiet at the next visit does not wait for it.
    const bool watched = woken_.turn != 0 && thread.cleared == woken_.turn;
    BeginBlock(thread, same && !watched ? thread.stride * 2 : 1);
  }
  due_.clear();
}

void Visits::End() {
  if (!std::exchange(fewer_, false)) return;
  std::erase_if(active_, [&](size_t slot) {
    if (quiet_[slot] != 0) return true;
    if (!threads_[slot].gone) return false;
    index_.erase(threads_[slot].id);
    free_.push(slot);
    return true;
  });
}

}  // namespace profd
