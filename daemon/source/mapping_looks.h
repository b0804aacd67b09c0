// When it is looked who maps the modules that probes may want to stand in.
#ifndef PROFD_DAEMON_SOURCE_MAPPING_LOOKS_H_
#define PROFD_DAEMON_SOURCE_MAPPING_LOOKS_H_

#include <cstddef>
#include <cstdint>

namespace profd {

// How many modules were found so far.
struct FoundModules {
  size_t allocators = 0;
  size_t libcs = 0;
  size_t glibcs = 0;  // whose malloc is traced in bursts

  size_t all() const { return allocators + libcs + glibcs; }
  friend bool operator==(const FoundModules&, const FoundModules&) = default;
};

// A look goes through all mappings of all targets, so there is one at a drain only where something
// may be new. Between drains there are more, as a program that nobody has seen before takes two:
// one finds its modules, and one who maps them once they were read. Times are monotonic. Not
// thread-safe.
class MappingLooks {
 public:
  // By when after an exec most programs have mapped their libraries; how long it is from one early
  // look to the next at least, and how many times as long as the look took.
  static constexpr int64_t kAfterExecNs = 50'000'000;
  static constexpr int64_t kLeastPauseNs = 200'000'000;
  static constexpr int64_t kRarity = 500;
  // From one look that only bursts want to the next.
  static constexpr int64_t kBurstPauseNs = 4'000'000'000;

  const FoundModules& found() const { return found_; }

  // Something may be mapped that is not known of.
  void Want() { wanted_ = true; }
  // A target became another program.
  void OnExec(int64_t now_ns);
  // At a drain, with the modules found so far; `more_processes`: than at the last one.
  void OnDrain(const FoundModules& found, bool more_processes, int64_t now_ns);
  // Whether one is due now, at a drain.
  bool wanted() const { return wanted_; }
  // `began_ns`: what was executed shortly before has not mapped its libraries yet.
  void Looked(bool ok, int64_t began_ns);

  // Whether one is due between drains. What was found is left to the drains while other modules are
  // still being read: stacks through those would not be whole.
  bool IsEarlyDue(const FoundModules& found, bool reading, int64_t now_ns);
  void LookedEarly(bool ok, int64_t began_ns, int64_t took_ns);

 private:
  // A module that is new may be mapped by anybody. True when there is one.
  bool Learn(const FoundModules& found);

  FoundModules found_;
  bool wanted_ = false;
  bool burst_wanted_ = false;  // there are processes that no burst knows yet
  int64_t next_burst_ns_ = 0;
  // The first exec that no early look was late enough for, and the last; 0: none.
  int64_t execed_ns_ = 0;
  int64_t last_exec_ns_ = 0;
  int64_t next_early_ns_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_MAPPING_LOOKS_H_
