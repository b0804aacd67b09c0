// What threads wait for, from what the kernel programs describe (bpf/abi/object.h).
#ifndef PROFD_DAEMON_SERVICE_OBJECT_TEXT_H_
#define PROFD_DAEMON_SERVICE_OBJECT_TEXT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "daemon/profile/profile.h"
#include "daemon/service/object_turn.h"
#include "daemon/service/other_ends.h"

namespace profd {

// Who had the CPU that a thread waited for.
struct CpuHolder {
  enum class Kind {
    kUnknown,
    kProcess,
    kKernel,
    kIdle,   // nobody: the CPU was about to run the thread
    kQuota,  // nobody: a CPU quota had run out
  };
  Kind kind = Kind::kUnknown;
  std::string name{};    // of the process, the thread of the kernel or the cgroup
  std::string thread{};  // of a process; empty: its main thread
  int32_t pid = 0;       // 0: not known
};

struct WaitObject {
  std::string text;  // "tcp 10.0.0.1 -> 10.0.0.2:5432, reading, request in flight"
  ObjectTurn turn = ObjectTurn::kUnknown;
  CpuHolder holder{};  // of waits for a CPU
  // Of what has another end on this host, which OtherEnds may find: where the text may say so.
  struct Near {
    NearEnd end;
    size_t at = 0;
  };
  std::optional<Near> near{};
};

// The text, with what OtherEnds says of its other end.
std::string WithOtherEnd(const WaitObject& object, std::string_view phrase);

// `description`: any bytes give a text, or an empty one.
WaitObject DescribeObject(const StackTrace& description);

// The objects of an answer. Each is described once. Not thread-safe.
class WaitObjects {
 public:
  // `known` must outlive this.
  explicit WaitObjects(std::span<const std::shared_ptr<const StackTrace>> known);

  // Of what ObjectOf gives. Empty: not known.
  const std::string& TextOf(StackId object) { return Find(object).text; }
  ObjectTurn TurnOf(StackId object) { return Find(object).turn; }
  const CpuHolder& HolderOf(StackId object) { return Find(object).holder; }
  const WaitObject& Of(StackId object) { return Find(object); }
  // From now on the text of the object says who has its other end.
  void SetOtherEnd(StackId object, std::string_view phrase);
  // Of a wait: the same, else the argument of the system call in hexadecimal. Empty: it has none.
  std::string TextOf(const SampleKey& wait);

 private:
  const WaitObject& Find(StackId object);

  absl::flat_hash_map<StackId, const StackTrace*> known_;
  absl::flat_hash_map<StackId, WaitObject> described_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_OBJECT_TEXT_H_
