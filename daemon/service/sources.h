// What the service stands on.
#ifndef PROFD_DAEMON_SERVICE_SOURCES_H_
#define PROFD_DAEMON_SERVICE_SOURCES_H_

#include <string>
#include <vector>

#include "daemon/base/cpu_use.h"
#include "daemon/collect/control.h"
#include "daemon/lines/line_reader.h"
#include "daemon/memory/memory_watch.h"
#include "daemon/store/store.h"
#include "daemon/symbolize/kernel_image.h"
#include "daemon/symbolize/module_source.h"

namespace profd {

// All must outlive the service.
struct ServiceSources {
  const Store* store = nullptr;
  CollectorControl* collector = nullptr;
  const ModuleSource* modules = nullptr;
  MemoryWatch* memory = nullptr;
  CpuUse* cpu_use = nullptr;  // where answers report what they took
  symbolize::KernelFiles kernel_files{};
  std::vector<std::string> debug_directories;  // more places for debug files
  LineReader* lines = nullptr;                 // null: no lines
  std::string proc = "/proc";
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_SOURCES_H_
