#include "daemon/heap/named_symbols.h"

#include <algorithm>

namespace profd {
namespace {

// "opt_lg_prof_sample" is another variable: the initial value of lg_prof_sample.
bool IsNamed(const std::string& name, const std::string& wanted) {
  return name == wanted || (name.ends_with("_" + wanted) && !name.ends_with("opt_" + wanted));
}

}  // namespace

std::vector<uint64_t> AddressesOf(const std::vector<symbolize::NamedSymbol>& symbols,
                                  const std::string& wanted, uint64_t least_size) {
  std::vector<uint64_t> addresses;
  for (const symbolize::NamedSymbol& symbol : symbols) {
    if (symbol.size >= least_size && IsNamed(symbol.name, wanted)) {
      addresses.push_back(symbol.address);
    }
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

}  // namespace profd
