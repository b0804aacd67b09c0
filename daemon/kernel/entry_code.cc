#include "daemon/kernel/entry_code.h"

#include <string>
#include <string_view>

#include "absl/strings/numbers.h"

namespace profd {
namespace {

// As "ffffffff81000d40 T asm_common_interrupt". The entries of exceptions come first, then those of
// devices, then those of the CPUs themselves: Linux 6.1 to 6.18.
constexpr std::string_view kException = " T asm_exc_page_fault";
constexpr std::string_view kFirstInterrupt = " T asm_common_interrupt";
constexpr std::string_view kEntriesEnd = " T __irqentry_text_end";

void ReadAddress(std::string_view line, std::string_view symbol, uint64_t* address) {
  if (!line.ends_with(symbol)) return;
  line.remove_suffix(symbol.size());
  (void)absl::SimpleHexAtoi(std::string(line), address);
}

}  // namespace

EntryCode FindEntryCode(std::istream& symbols) {
  EntryCode code;
  uint64_t exception = 0;
  std::string line;
  while ((exception == 0 || code.begin == 0 || code.end == 0) && std::getline(symbols, line)) {
    ReadAddress(line, kException, &exception);
    ReadAddress(line, kFirstInterrupt, &code.begin);
    ReadAddress(line, kEntriesEnd, &code.end);
  }
  const bool ordered = exception != 0 && exception < code.begin && code.begin < code.end;
  return ordered ? code : EntryCode();
}

}  // namespace profd
