// Several names of one place: aliases, and functions that the linker folded as their code is equal.
#ifndef PROFD_DAEMON_SYMBOLIZE_FOLDED_NAMES_H_
#define PROFD_DAEMON_SYMBOLIZE_FOLDED_NAMES_H_

#include <string>
#include <vector>

#include "daemon/symbolize/name_source.h"

namespace profd::symbolize {

struct PlaceName {
  std::string symbol;  // mangled, without version
  bool exported = false;
  bool weak = false;
  NameSource source = NameSource::kNone;
};

// Orders `names`, the likeliest first, and drops those that say the same as an earlier one: they
// read the same when demangled, or differ only in underscores at their start. The rule:
// 1. A name that is exported comes before one that is local to its file.
// 2. Names that differ only in the arguments of generics or templates are a group; the larger group
//    comes first. Of equal functions each may have been called, so its name is right most often.
// 3. Fewer underscores at the start; then names that are not weak; then the shortest; then by
//    alphabet.
void OrderNames(std::vector<PlaceName>* names);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_FOLDED_NAMES_H_
