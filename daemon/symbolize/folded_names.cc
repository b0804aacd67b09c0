#include "daemon/symbolize/folded_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "daemon/symbolize/short_name.h"
#include "daemon/symbolize/symbol_name.h"
#include "daemon/symbolize/symbolizer.h"

namespace profd::symbolize {
namespace {

struct Ranked {
  PlaceName name;
  std::string text;  // demangled, without underscores at its start
  size_t group_size = 0;

  auto Key() const {
    return std::tuple(!name.exported, -static_cast<ptrdiff_t>(group_size),
                      LeadingUnderscores(name.symbol), name.weak);
  }
};

bool ComesBefore(const Ranked& a, const Ranked& b) {
  if (a.Key() != b.Key()) return a.Key() < b.Key();
  return BetterName(a.name.symbol, b.name.symbol);
}

}  // namespace

void OrderNames(std::vector<PlaceName>* names) {
  if (names->size() < 2) return;
  std::vector<Ranked> ranked;
  std::map<std::string, std::set<std::string>> groups;
  for (PlaceName& name : *names) {
    Ranked& added = ranked.emplace_back();
    added.text = Demangle(name.symbol);
    added.text.erase(0, LeadingUnderscores(added.text));
    added.name = std::move(name);
    groups[ShortName(added.text)].insert(added.text);
  }
  for (Ranked& one : ranked) one.group_size = groups[ShortName(one.text)].size();
  std::sort(ranked.begin(), ranked.end(), ComesBefore);
  names->clear();
  std::set<std::string_view> seen;
  for (Ranked& one : ranked) {
    if (seen.insert(one.text).second) names->push_back(std::move(one.name));
  }
}

}  // namespace profd::symbolize
