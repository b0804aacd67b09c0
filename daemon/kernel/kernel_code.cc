#include "daemon/kernel/kernel_code.h"

#include <string>
#include <string_view>

#include "absl/strings/numbers.h"

namespace profd {
namespace {

// As "ffffffff81000d40 T asm_common_interrupt". The entries of exceptions come first, then those of
// devices, then those of the CPUs themselves: Linux 6.1 to 6.18.
constexpr std::string_view kException = " asm_exc_page_fault";
constexpr std::string_view kFirstInterrupt = " asm_common_interrupt";
constexpr std::string_view kEntriesEnd = " __irqentry_text_end";
constexpr std::string_view kTimeout = " hrtimer_wakeup";
// Compilers make a part of one or the other of what calls it.
constexpr std::string_view kSignal = " complete_signal";
constexpr std::string_view kInSignal = " signal_wake_up_state";
constexpr std::string_view kSchedulerBegin = " __sched_text_start";
constexpr std::string_view kSchedulerEnd = " __sched_text_end";
// A longer function is none of them.
constexpr uint64_t kLongestFunction = 1 << 14;

uint64_t AddressIn(std::string_view line) {
  uint64_t address = 0;
  const bool known = absl::SimpleHexAtoi(std::string(line.substr(0, line.find(' '))), &address);
  return known ? address : 0;
}

void ReadAddress(std::string_view line, std::string_view symbol, uint64_t* address) {
  if (line.ends_with(symbol)) *address = AddressIn(line);
}

// A function ends where the next symbol begins: they are in order.
class FunctionSearch {
 public:
  explicit FunctionSearch(std::string_view symbol) : symbol_(symbol) {}

  void Read(std::string_view line) {
    if (done()) return;
    if (range_.begin == 0) {
      ReadAddress(line, symbol_, &range_.begin);
    } else if (const uint64_t address = AddressIn(line); address != range_.begin) {
      range_.end = address;
    }
  }
  bool done() const { return range_.end != 0; }
  CodeRange Found() const {
    const bool likely = range_.begin < range_.end && range_.end - range_.begin <= kLongestFunction;
    return likely ? range_ : CodeRange();
  }

 private:
  const std::string_view symbol_;
  CodeRange range_;
};

}  // namespace

KernelCode FindKernelCode(std::istream& symbols) {
  CodeRange entries, scheduler;
  uint64_t exception = 0;
  FunctionSearch timeout(kTimeout), signal(kSignal), in_signal(kInSignal);
  std::string line;
  while ((exception == 0 || entries.begin == 0 || entries.end == 0 || !timeout.done() ||
          !signal.done() || scheduler.begin == 0 || scheduler.end == 0) &&
         std::getline(symbols, line)) {
    ReadAddress(line, kException, &exception);
    ReadAddress(line, kFirstInterrupt, &entries.begin);
    ReadAddress(line, kEntriesEnd, &entries.end);
    ReadAddress(line, kSchedulerBegin, &scheduler.begin);
    ReadAddress(line, kSchedulerEnd, &scheduler.end);
    timeout.Read(line);
    signal.Read(line);
    in_signal.Read(line);
  }
  const bool ordered = exception != 0 && exception < entries.begin && entries.begin < entries.end;
  return {.interrupts = ordered ? entries : CodeRange(),
          .timeout = timeout.Found(),
          .signal = signal.done() ? signal.Found() : in_signal.Found(),
          .scheduler = scheduler.begin < scheduler.end ? scheduler : CodeRange()};
}

}  // namespace profd
