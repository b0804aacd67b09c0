// The objects that sources use.
#ifndef PROFD_DAEMON_SOURCE_CONTEXT_H_
#define PROFD_DAEMON_SOURCE_CONTEXT_H_

#include "daemon/base/clock.h"
#include "daemon/base/cpu_meter.h"
#include "daemon/base/cpu_use.h"
#include "daemon/kernel/kernel.h"
#include "daemon/memory/memory_watch.h"
#include "daemon/source/ring.h"
#include "daemon/target/targets.h"

namespace profd {

// All must outlive the sources.
struct SourceContext {
  Kernel* kernel = nullptr;
  const Clock* clock = nullptr;
  CpuMeter* cpu = nullptr;  // for the collector's thread
  CpuUse* cpu_use = nullptr;
  MemoryWatch* memory = nullptr;
  Targets* targets = nullptr;
  Ring* ring = nullptr;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_CONTEXT_H_
