#include "daemon/probes/trap.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "daemon/base/clock.h"
#include "daemon/base/fd.h"
#include "daemon/base/maps_line.h"
#include "daemon/base/quantile.h"

// What probes are put into: of a compiler's functions it is not known what they begin with.
extern "C" void ProfdProbeMeasure();
extern "C" void ProfdProbeMeasureStepped();
asm(R"(
  .text
  .globl ProfdProbeMeasure
  .type ProfdProbeMeasure, @function
ProfdProbeMeasure:
  .cfi_startproc
  nop
  ret
  .cfi_endproc
  .size ProfdProbeMeasure, .-ProfdProbeMeasure
  .globl ProfdProbeMeasureStepped
  .type ProfdProbeMeasureStepped, @function
ProfdProbeMeasureStepped:
  .cfi_startproc
  test %rdi, %rdi
  ret
  .cfi_endproc
  .size ProfdProbeMeasureStepped, .-ProfdProbeMeasureStepped
)");

namespace profd {
namespace {

constexpr size_t kRounds = 9;
constexpr int kCalls = 16;
constexpr double kUnknown = 1;

// Where an instruction of this program lies in its file.
std::optional<uint64_t> OwnFileOffset(uint64_t address) {
  const auto maps = ReadWholeFile("/proc/self/maps");
  if (!maps.ok()) return std::nullopt;
  for (const absl::string_view line : absl::StrSplit(*maps, '\n')) {
    const std::optional<MapsLine> mapping = ParseMapsLine(line);
    if (mapping && address >= mapping->begin && address < mapping->end) {
      return address - mapping->begin + mapping->file_offset;
    }
  }
  return std::nullopt;
}

double NsPerCall(void (*function)()) {
  std::vector<int64_t> took(kRounds);
  for (int64_t& round : took) {
    const int64_t begin = MonotonicNs();
    for (int i = 0; i < kCalls; ++i) function();
    round = MonotonicNs() - begin;
  }
  // What comes in between makes some of them slow.
  return Median(took) / kCalls;
}

}  // namespace

TrapGauge::TrapGauge(FirstInstruction first,
                     absl::FunctionRef<absl::StatusOr<Probe>(int file, uint64_t offset)> attach)
    : function_(first == FirstInstruction::kStepped ? &ProfdProbeMeasureStepped
                                                    : &ProfdProbeMeasure) {
  const UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto offset = OwnFileOffset(reinterpret_cast<uintptr_t>(function_));
  if (!self.ok() || !offset) return;
  without_ = NsPerCall(function_);
  absl::StatusOr<Probe> probe = attach(self.get(), *offset);
  if (probe.ok()) probe_ = *std::move(probe);
}

double TrapGauge::Measure() const {
  if (!probe_) return kUnknown;
  return std::max(kUnknown, NsPerCall(function_) - without_);
}

}  // namespace profd
