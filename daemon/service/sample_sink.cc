#include "daemon/service/sample_sink.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/wrapping.h"
#include "daemon/profile/sample_type.h"
#include "daemon/profile/waker_estimate.h"
#include "daemon/service/messages.h"
#include "daemon/service/sync_use.h"

namespace profd {
namespace {

// An error stays one that can be added up.
constexpr double kLargestError = 4e18;

}  // namespace

bool SampleSink::KeepsObjects() const {
  const std::vector<v1::GroupKey>& keys = context_.plan.group_by;
  return keys.empty() || std::count(keys.begin(), keys.end(), v1::GROUP_KEY_OBJECT) > 0;
}

SampleSink::Key SampleSink::KeyOf(const SampleTypeInfo& type, const EstimatedSample& sample,
                                  const Meaning& meaning) {
  Key key;
  const bool woken = sample.key.kind == Kind::kWaker;
  key.stack = woken
                  ? context_.stacks.NumberOfWoken(WaiterOf(sample.key), process_, sample.key.stack)
                  : context_.stacks.NumberOf(sample.key.stack, process_);
  const bool waits = woken || sample.key.kind == Kind::kWait;
  const bool has_reason = woken || HasReason(sample.key.kind);
  const bool ran = type.kind == Kind::kWall && !waits;
  std::string object;
  if (has_reason) key.reason = ToProto(sample.key.reason);
  if (waits) {
    if (!meaning.idle.empty()) {
      key.attributes.push_back(tables_->TextAttribute("idle", meaning.idle));
    }
    if (KeepsObjects() && sample.key.syscall >= 0) {
      key.attributes.push_back(tables_->NumberAttribute("syscall", sample.key.syscall));
    }
    // Without the objects themselves, too: profctl judges the wait anew when it knows more names.
    const std::string_view turn = TurnName(context_.objects->TurnOf(ObjectOf(sample.key)));
    if (!turn.empty()) key.attributes.push_back(tables_->TextAttribute(kTurnKey, turn));
    // Who waits for a CPU need not be in a system call.
    const bool queues = sample.key.reason == Reason::kRunQueue;
    if ((KeepsObjects() && (queues || sample.key.syscall >= 0)) || type.kind == Kind::kRunQueue) {
      object = context_.objects->TextOf(sample.key);
      if (!object.empty()) key.attributes.push_back(tables_->TextAttribute("object", object));
    }
    if (meaning.lock != nullptr) {
      object = meaning.lock->name;
      key.attributes.push_back(tables_->TextAttribute("lock", object));
      key.attributes.push_back(tables_->TextAttribute("lock_kind", meaning.lock->kind));
    } else if (!woken) {
      const NamedStack& stack = context_.stacks.stacks()[key.stack];
      if (sample.key.reason == Reason::kLock && !stack.lock.kind.empty()) {
        key.attributes.push_back(tables_->TextAttribute("lock_kind", stack.lock.kind));
      }
      if (meaning.idle.empty() && !stack.idle.task.empty()) {
        key.attributes.push_back(tables_->TextAttribute("task", stack.idle.task));
      }
    }
  }
  if (IsDisk(sample.key.kind) && KeepsObjects()) {
    object = context_.disks->Describe(sample.key.argument);
    key.attributes.push_back(tables_->TextAttribute("object", object));
  }
  if (sample.key.kind == Kind::kSync && KeepsObjects()) {
    object = DescribeSync(sample.key, *context_.objects);
    key.attributes.push_back(tables_->TextAttribute("object", object));
  }
  if (ran) key.reason = v1::REASON_ON_CPU;
  if (IsGrouped()) {
    key.group = tables_->Group(context_.grouping.Labels({.thread = thread_,
                                                         .stack = key.stack,
                                                         .reason = sample.key.reason,
                                                         .waits = has_reason,
                                                         .ran = ran,
                                                         .object = object}));
  }
  return key;
}

void SampleSink::AddAs(size_t type, Key key, const EstimatedSample& sample) {
  const auto [it, fresh] = indexes_.try_emplace(key, rows_.size());
  if (fresh) {
    rows_.emplace_back(std::move(key), Row());
    rows_.back().second.values.resize(context_.plan.types.size());
  }
  Row& row = rows_[it->second].second;
  // Threads come one after the other.
  if (row.threads.empty() || row.threads.back() != thread_) row.threads.push_back(thread_);
  Value& value = row.values[type];
  const auto error = static_cast<double>(sample.error);
  value.amount = WrappingAdd(value.amount, sample.amount);
  value.variance += error * error;
  value.weight = WrappingAdd(value.weight, sample.weight);
  value.count = WrappingAdd(value.count, sample.ticks);
  value.growth = WrappingAdd(value.growth, sample.growth);
}

void SampleSink::EndThread() {
  if (!IsGrouped()) Flush();
}

void SampleSink::Flush() {
  const std::vector<const SampleTypeInfo*>& types = context_.plan.types;
  const bool levels = std::any_of(types.begin(), types.end(),
                                  [](const SampleTypeInfo* type) { return type->level; });
  for (const auto& [key, row] : rows_) {
    if (parts_->client_left()) break;
    v1::Sample* sample = parts_->part().add_samples();
    sample->set_stack(key.stack);
    sample->mutable_threads()->Add(row.threads.begin(), row.threads.end());
    sample->set_group(key.group);
    sample->set_reason(key.reason);
    sample->mutable_attributes()->Add(key.attributes.begin(), key.attributes.end());
    for (const Value& value : row.values) {
      sample->add_values(value.amount);
      sample->add_errors(std::llround(std::min(std::sqrt(value.variance), kLargestError)));
      sample->add_weights(value.weight);
      sample->add_counts(Count(value.count));
      if (levels) sample->add_growth(value.growth);
    }
    parts_->Added(*sample);
  }
  rows_.clear();
  indexes_.clear();
}

}  // namespace profd
