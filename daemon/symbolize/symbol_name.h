// Common handling of raw names from ELF files and kallsyms.
#ifndef PROFD_DAEMON_SYMBOLIZE_SYMBOL_NAME_H_
#define PROFD_DAEMON_SYMBOLIZE_SYMBOL_NAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace profd::symbolize {

// The number of leading underscores; a mangled name counts as having none.
size_t LeadingUnderscores(std::string_view name);

// Whether `a` is a better name than `b` for the same address: fewer leading underscores, then
// shorter, then first in alphabetical order. A strict order.
bool BetterName(std::string_view a, std::string_view b);

// "pthread_create@@GLIBC_2.34" → "pthread_create".
std::string_view WithoutVersion(std::string_view name);

// `name` as valid UTF-8 without control characters; invalid bytes become '?'. Names go to protobuf
// strings and line-based formats, and come from files that anybody may have written.
std::string Printable(std::string_view name);

// "libc.so.6" for "/usr/lib/libc.so.6 (deleted)"; "[unknown]" if the path has no file name.
std::string ModuleName(std::string_view path);

// "module:fn_85e80", of the function that begins at a virtual address.
std::string FunctionAt(std::string_view module, uint64_t address);

// "module+0x1f".
std::string ModuleOffset(std::string_view module, uint64_t offset);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_SYMBOL_NAME_H_
