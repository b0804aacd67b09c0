// Any bytes given as code, or as the file of a module, are searched within their bounds, and what
// is found has the shape it was found by.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "daemon/base/fd.h"
#include "daemon/heap/event_shape.h"
#include "daemon/heap/glibc.h"
#include "daemon/heap/inlined_events.h"
#include "daemon/heap/jemalloc.h"
#include "daemon/heap/map_calls.h"
#include "daemon/heap/probe_point.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckInfo(const profd::JemallocInfo& info, const uint8_t* data, size_t size) {
  Require(info.version.size() <= 11);  // three numbers of up to three digits
  Require(info.found_by.empty() != info.note.empty());
  Require(info.found_by.empty() == info.events.empty() && info.events.size() <= profd::kMaxEvents);
  for (const profd::EventFunction& event : info.events) {
    Require(event.offset < size);
    Require(profd::HasEventShape({data + event.offset, size - event.offset}));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of the exact size: a read past the end is seen.
  const std::vector<uint8_t> code(data, data + size);
  if (profd::HasEventShape(code)) {
    Require(profd::HasEventShape({code.data(), std::min(size, profd::kEventShapeBytes)}));
  }

  const profd::ProbePoint point = profd::ChooseProbePoint(code);
  Require(point.skip == 0 || point.skip < size);
  for (const profd::InlinedEvent& event : profd::FindInlinedEvents(code)) {
    Require(event.offset < size && event.value_register < 16 && event.thread_register < 16);
    Require(event.growth_register.value_or(0) < 16);
  }

  const profd::UniqueFd fd(memfd_create("fuzz_jemalloc", MFD_CLOEXEC));
  Require(fd.ok());
  Require(write(fd.get(), data, size) == static_cast<ssize_t>(size));
  const auto info = profd::FindJemalloc(fd.get(), "/usr/lib/module.so", "/nonexistent");
  if (info.ok() && info->has_value()) CheckInfo(**info, data, size);
  if (const auto calls = profd::FindMapCalls(fd.get()); calls.ok()) {
    for (const profd::MapCall& call : *calls) Require(call.offset < size);
  }
  const auto glibc = profd::FindGlibc(fd.get());
  if (glibc.ok() && glibc->has_value()) {
    for (const profd::GlibcFunction& function : (*glibc)->functions) {
      Require(function.offset < size);
    }
  }
  return 0;
}
