// Unwind rules of programs by Go, which have no .eh_frame of their own code.
#ifndef PROFD_DAEMON_UNWIND_GO_RULES_H_
#define PROFD_DAEMON_UNWIND_GO_RULES_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "daemon/unwind/elf_image.h"
#include "daemon/unwind/go_table.h"

namespace profd {

// The table of a Go program, which reads the bytes of `image` (these must outlive it); none if it
// is none.
std::optional<GoTable> FindGoTable(const ElfImage& image);

// Calls `rule(address, rule)` where a rule begins (PROFD_RULE_*), in rising order.
//
// Go code needs no rbp to find its callers: the table says how deep the stack is. It ends at the
// functions that the linker marks as roots, and where a thread leaves a goroutine for the stack of
// the scheduler for good. Functions that run others on another stack have their own frame at rbp.
void CompileGoFunction(const GoTable& table, const GoFunction& function,
                       absl::FunctionRef<void(uint64_t, uint32_t)> rule);

}  // namespace profd

#endif  // PROFD_DAEMON_UNWIND_GO_RULES_H_
