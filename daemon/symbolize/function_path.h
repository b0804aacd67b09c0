// The path in a demangled name.
#ifndef PROFD_DAEMON_SYMBOLIZE_FUNCTION_PATH_H_
#define PROFD_DAEMON_SYMBOLIZE_FUNCTION_PATH_H_

#include <string>
#include <string_view>

namespace profd {

// A demangled name reduced to its path: generic arguments, "<T as Trait>", parameter lists,
// closures and Rust hashes are cut. "<a::B<T> as a::C>::run::{{closure}}" gives "a::B::run".
std::string FunctionPath(std::string_view function);

}  // namespace profd

#endif  // PROFD_DAEMON_SYMBOLIZE_FUNCTION_PATH_H_
