// What the raw names of ELF files and kallsyms have in common.
#ifndef PROFD_DAEMON_SYMBOLIZE_SYMBOL_NAME_H_
#define PROFD_DAEMON_SYMBOLIZE_SYMBOL_NAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace profd::symbolize {

// Leading underscores of a name; a mangled name counts as having none.
size_t LeadingUnderscores(std::string_view name);

// True when `a` is the better of two names for one address: fewer leading underscores, then the
// shorter, then the first by alphabet. A strict order.
bool BetterName(std::string_view a, std::string_view b);

// "pthread_create@@GLIBC_2.34" → "pthread_create".
std::string_view WithoutVersion(std::string_view name);

// `name` as valid UTF-8 without control characters: what is neither becomes '?'. Names reach
// protobuf strings and line-based formats, and come from files anybody may have written.
std::string Printable(std::string_view name);

// "libc.so.6" of "/usr/lib/libc.so.6 (deleted)"; "[unknown]" where the path names nothing.
std::string ModuleName(std::string_view path);

// "module+0x1f".
std::string ModuleOffset(std::string_view module, uint64_t offset);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_SYMBOL_NAME_H_
