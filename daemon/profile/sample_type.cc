#include "daemon/profile/sample_type.h"

#include <algorithm>
#include <array>

namespace profd {
namespace {

constexpr std::array<SampleTypeInfo, kKindCount> kTypes = {{
    {Kind::kWait, "offcpu", Unit::kNanoseconds, false, ErrorFormula::kLedgerShare, Layer::kTick,
     "ticks", "Off-CPU time", "off-CPU", "waits", "off-CPU time, by reason of the wait"},
    {Kind::kAlloc, "alloc", Unit::kBytes, false, ErrorFormula::kAllocatorShare, Layer::kAllocations,
     "events", "Memory allocated", "allocated", "allocations",
     "bytes allocated in the window, by the stack that allocated them"},
    {Kind::kFree, "free", Unit::kBytes, false, ErrorFormula::kAllocatorShare, Layer::kAllocations,
     "events", "Memory freed", "freed", "frees",
     "bytes freed in the window, by the stack that freed them"},
    {Kind::kInuse, "inuse", Unit::kBytes, true, ErrorFormula::kPoisson, Layer::kAllocations,
     "objects", "Memory in use", "in use", "live objects",
     "memory in use at the end of the window, by the stack that allocated it"},
    {Kind::kResident, "rss", Unit::kBytes, true, ErrorFormula::kPoisson, Layer::kFaults, "pages",
     "Resident memory", "resident", "page faults",
     "memory resident at the end of the window, by the stack that touched it first"},
    {Kind::kMapped, "mapped", Unit::kBytes, false, ErrorFormula::kBinomial, Layer::kMappings,
     "calls", "Address space mapped", "mapped", "mapping calls",
     "private address space mapped by mmap, mremap and brk"},
    {Kind::kUnmapped, "unmapped", Unit::kBytes, false, ErrorFormula::kBinomial, Layer::kMappings,
     "calls", "Address space unmapped", "unmapped", "mapping calls",
     "private address space unmapped by munmap, mremap and brk"},
    {Kind::kReturned, "returned", Unit::kBytes, false, ErrorFormula::kBinomial, Layer::kMappings,
     "calls", "Memory returned", "returned", "mapping calls",
     "pages given back by madvise; the address range stays mapped"},
    {Kind::kCpu, "cpu", Unit::kNanoseconds, false, ErrorFormula::kLedgerShare, Layer::kCpu,
     "samples", "On-CPU time", "running", "samples", "time on a CPU, by the code that ran"},
    {Kind::kDisk, "disk", Unit::kNanoseconds, false, ErrorFormula::kExact, Layer::kDisk, "requests",
     "Time of disk requests", "requested", "disk requests",
     "time that disk requests took, by the stack that made them"},
    {Kind::kDiskQueue, "disk-queue", Unit::kNanoseconds, false, ErrorFormula::kExact, Layer::kDisk,
     "requests", "Time of disk requests in queues", "queued", "disk requests",
     "part of disk until the driver got the requests"},
    {Kind::kDiskBytes, "disk-bytes", Unit::kBytes, false, ErrorFormula::kExact, Layer::kDisk,
     "requests", "Bytes of disk requests", "requested", "disk requests",
     "bytes read, written and discarded by disk requests"},
    {Kind::kWaker, "wakers", Unit::kNanoseconds, false, ErrorFormula::kLedgerShare,
     Layer::kTickAndWakers, "ticks", "Off-CPU time by waker", "off-CPU", "waits",
     "off-CPU time, by the stack of the waiter and of who woke it"},
    {Kind::kSync, "fsync", Unit::kNanoseconds, false, ErrorFormula::kExact, Layer::kDisk, "calls",
     "Time of file syncs", "synced", "file syncs",
     "time that fsync, fdatasync, msync and the like took, by file"},
    {Kind::kSwitch, "switches", Unit::kCount, false, ErrorFormula::kCountShare,
     Layer::kSwitchStacks, "samples", "Context switches", "switches", "context switches",
     "context switches, by where threads left their CPU, and why"},
    {Kind::kWall, "wall", Unit::kNanoseconds, false, ErrorFormula::kLedgerShare, Layer::kTickAndCpu,
     "samples", "Wall-clock time", "of wall time", "samples",
     "all time of threads: on a CPU, on the run queue, waiting"},
    {Kind::kLocks, "locks", Unit::kNanoseconds, false, ErrorFormula::kLedgerShare, Layer::kTick,
     "ticks", "Lock contention", "off-CPU", "waits for locks",
     "part of offcpu: waits for locks that other threads hold"},
    {Kind::kRunQueue, "runqueue", Unit::kNanoseconds, false, ErrorFormula::kLedgerShare,
     Layer::kTick, "ticks", "Time in the run queue", "in the run queue", "waits for a CPU",
     "part of offcpu: waits for a CPU, by who had it"},
}};

constexpr bool IsInOrder() {
  for (size_t i = 0; i < kTypes.size(); i++) {
    if (kTypes[i].kind != static_cast<Kind>(i) || kTypes[i].level != IsLevel(kTypes[i].kind) ||
        kTypes[i].IsOfCalls() !=
            (IsMapping(kTypes[i].kind) || kTypes[i].IsOfDisk() || kTypes[i].IsOfSyncs())) {
      return false;
    }
  }
  return true;
}
static_assert(IsInOrder());

}  // namespace

std::span<const SampleTypeInfo> AllSampleTypes() { return kTypes; }

const SampleTypeInfo& DescribeSampleType(Kind kind) { return kTypes[static_cast<size_t>(kind)]; }

const SampleTypeInfo* FindSampleType(std::string_view name) {
  const auto* it = std::find_if(kTypes.begin(), kTypes.end(),
                                [&](const SampleTypeInfo& info) { return info.name == name; });
  return it == kTypes.end() ? nullptr : &*it;
}

std::string_view UnitName(Unit unit) {
  switch (unit) {
    case Unit::kNanoseconds:
      return "nanoseconds";
    case Unit::kBytes:
      return "bytes";
    case Unit::kCount:
      return "count";
  }
  return "";
}

}  // namespace profd
