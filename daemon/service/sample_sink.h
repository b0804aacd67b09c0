// Puts estimates into samples of the API: one for each thread, or merged by group.
#ifndef PROFD_DAEMON_SERVICE_SAMPLE_SINK_H_
#define PROFD_DAEMON_SERVICE_SAMPLE_SINK_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/profile/estimator.h"
#include "daemon/profile/identity.h"
#include "daemon/service/disk_use.h"
#include "daemon/service/grouping.h"
#include "daemon/service/lock_table.h"
#include "daemon/service/named_stacks.h"
#include "daemon/service/object_text.h"
#include "daemon/service/part_writer.h"
#include "daemon/service/request.h"
#include "daemon/service/tables.h"

namespace profd {

class SampleSink {
 public:
  // All must outlive this.
  struct Context {
    const FetchPlan& plan;
    const NamedStacks& stacks;
    const Grouping& grouping;
    WaitObjects* objects;
    DiskNames* disks;
  };
  SampleSink(Context context, Tables* tables, PartWriter* parts)
      : context_(context), tables_(tables), parts_(parts) {}

  // What is added from now on is of this thread, an index into those of the profile, and process.
  void BeginThread(uint32_t thread, const ProcessId& process) {
    thread_ = thread;
    process_ = process;
  }
  // `type`: index into the plan's sample types. `idle`: the kind of idle wait, or empty.
  void Add(size_t type, const EstimatedSample& sample, std::string_view idle) {
    AddAs(type, KeyOf(*context_.plan.types[type], sample, {.idle = idle}), sample);
  }
  // Of the type "locks".
  void AddLock(size_t type, const EstimatedSample& sample, const WaitedLock& lock) {
    AddAs(type, KeyOf(*context_.plan.types[type], sample, {.idle = lock.idle, .lock = &lock}),
          sample);
  }
  // Sends the thread's samples, unless they are merged with those of others.
  void EndThread();
  // Sends what is left.
  void Finish() { Flush(); }

 private:
  // What samples have in common that are one.
  struct Key {
    uint32_t group = 0;
    uint32_t stack = 0;
    v1::Reason reason = v1::REASON_UNSPECIFIED;
    std::vector<uint32_t> attributes;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& k) {
      return H::combine(std::move(h), k.group, k.stack, k.reason, k.attributes);
    }
  };
  struct Value {
    int64_t amount = 0;
    double variance = 0;
    int64_t weight = 0;
    int64_t count = 0;
    int64_t growth = 0;
  };
  struct Row {
    std::vector<uint32_t> threads;  // each once
    std::vector<Value> values;      // by sample type
  };

  bool IsGrouped() const { return !context_.plan.group_by.empty(); }
  // Whether samples of different objects stay apart.
  bool KeepsObjects() const;
  // What a wait is, beside what its key says.
  struct Meaning {
    std::string_view idle;
    const WaitedLock* lock = nullptr;
  };
  Key KeyOf(const SampleTypeInfo& type, const EstimatedSample& sample, const Meaning& meaning);
  void AddAs(size_t type, Key key, const EstimatedSample& sample);
  void Flush();

  const Context context_;
  Tables* const tables_;
  PartWriter* const parts_;
  uint32_t thread_ = 0;
  ProcessId process_;
  absl::flat_hash_map<Key, size_t> indexes_;  // into rows_
  std::vector<std::pair<Key, Row>> rows_;     // in the order in which they came
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_SAMPLE_SINK_H_
