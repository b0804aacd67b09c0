// Names of functions without the arguments of generics and templates.
#ifndef PROFD_DAEMON_SYMBOLIZE_SHORT_NAME_H_
#define PROFD_DAEMON_SYMBOLIZE_SHORT_NAME_H_

#include <string>
#include <string_view>

namespace profd::symbolize {

// "walk<...>" for "walk<A, B<C>>" and for "walk::<A>". The type of a qualified path stays:
// "<Vec<...> as Drop>::drop". A demangled name whose brackets do not match is returned as it is.
std::string ShortName(std::string_view name);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_SHORT_NAME_H_
