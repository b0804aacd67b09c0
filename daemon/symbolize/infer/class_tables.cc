#include "daemon/symbolize/infer/class_tables.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace profd::symbolize {
namespace {

constexpr uint64_t kWord = sizeof(uint64_t);
constexpr size_t kMaxReferences = 64 << 10;
// Of a function that a thousand classes inherit, these tell as much.
constexpr size_t kMaxEntries = 512;
constexpr uint32_t kMaxNumber = 2048;
constexpr size_t kMaxTypes = 16 << 10;
constexpr size_t kMaxTypeName = 1024;
constexpr size_t kMaxBases = 32;
constexpr size_t kMaxAncestors = 64;
constexpr std::string_view kPlainTable = "__class_type_info";
constexpr std::string_view kSingleTable = "__si_class_type_info";
constexpr std::string_view kMultipleTable = "__vmi_class_type_info";
constexpr std::string_view kRuntimeType = "N10__cxxabiv1";

}  // namespace

std::vector<std::optional<VirtualFunction>> ClassTables::Find(std::span<const uint64_t> functions) {
  std::vector<std::optional<VirtualFunction>> found(functions.size());
  std::vector<std::pair<uint64_t, uint64_t>> places =
      pointers_.FindReferences(functions, kMaxReferences);
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < places.size();) {
    const uint64_t function = places[i].first;
    std::vector<Entry> entries;
    for (; i < places.size() && places[i].first == function; ++i) {
      if (entries.size() == kMaxEntries) continue;
      if (const std::optional<Entry> entry = EntryAt(places[i].second)) entries.push_back(*entry);
    }
    const auto at = std::lower_bound(functions.begin(), functions.end(), function);
    found[static_cast<size_t>(at - functions.begin())] = Choose(entries);
  }
  return found;
}

std::optional<ClassTables::Entry> ClassTables::EntryAt(uint64_t place) {
  for (uint32_t number = 0; number < kMaxNumber && place > 2 * kWord; ++number) {
    place -= kWord;
    const std::optional<Pointer> word = pointers_.At(place);
    if (!word) return std::nullopt;
    // Functions of other files are in the table too, as the one for pure virtual functions.
    if (word->imported || IsCode(word->address)) continue;
    const std::optional<Pointer> to_top = pointers_.At(place - kWord);
    if (!to_top || to_top->address != 0 || to_top->imported || !Describe(word->address).valid) {
      return std::nullopt;
    }
    return Entry{.type = word->address, .number = number};
  }
  return std::nullopt;
}

const ClassTables::TypeInfo& ClassTables::Describe(Type type) {
  if (types_.size() >= kMaxTypes && !types_.contains(type)) type = 0;
  const auto [it, fresh] = types_.try_emplace(type);
  if (fresh && type != 0) it->second = ReadType(type);
  return it->second;
}

ClassTables::TypeInfo ClassTables::ReadType(Type type) {
  TypeInfo info;
  const Kind kind = KindOf(type);
  if (kind == Kind::kNone) return info;
  const std::optional<Pointer> name = pointers_.At(type + kWord);
  if (!name || name->address == 0) return info;
  info.name = pointers_.StringAt(name->address, kMaxTypeName);
  // A type that only this file knows.
  if (info.name.starts_with('*')) info.name.erase(0, 1);
  info.valid = !info.name.empty();
  const auto add_base = [&](uint64_t place) {
    const std::optional<Pointer> base = pointers_.At(place);
    if (base && base->address != 0) info.bases.push_back(base->address);
  };
  if (kind == Kind::kSingle) add_base(type + 2 * kWord);
  if (kind == Kind::kMultiple) {
    const std::optional<Pointer> head = pointers_.At(type + 2 * kWord);
    const uint64_t count = head ? std::min<uint64_t>(head->address >> 32, kMaxBases) : 0;
    for (uint64_t i = 0; i < count; ++i) add_base(type + (3 + 2 * i) * kWord);
  }
  return info;
}

ClassTables::Kind ClassTables::KindOf(Type type) {
  const std::optional<Pointer> table = pointers_.At(type);
  if (!table) return Kind::kNone;
  std::string name(table->symbol);
  // A program with the runtime in it: that table is like any other, behind its own type.
  if (name.empty() && table->address > kWord) {
    const std::optional<Pointer> own = pointers_.At(table->address - kWord);
    const std::optional<Pointer> text =
        own && own->address != 0 ? pointers_.At(own->address + kWord) : std::nullopt;
    if (!text || text->address == 0) return Kind::kNone;
    name = pointers_.StringAt(text->address, kMaxTypeName);
    if (!name.starts_with(kRuntimeType)) return Kind::kNone;
  }
  const auto is = [&](std::string_view which) { return name.find(which) != std::string::npos; };
  if (is(kSingleTable)) return Kind::kSingle;
  if (is(kMultipleTable)) return Kind::kMultiple;
  return is(kPlainTable) ? Kind::kPlain : Kind::kNone;
}

std::vector<ClassTables::Type> ClassTables::Ancestors(Type type) {
  std::vector<Type> ancestors = {type};
  for (size_t i = 0; i < ancestors.size() && ancestors.size() < kMaxAncestors; ++i) {
    // A copy, as describing a base may move what is known.
    const std::vector<Type> bases = Describe(ancestors[i]).bases;
    for (const Type base : bases) {
      if (std::find(ancestors.begin(), ancestors.end(), base) == ancestors.end() &&
          ancestors.size() < kMaxAncestors) {
        ancestors.push_back(base);
      }
    }
  }
  return ancestors;
}

std::optional<VirtualFunction> ClassTables::Choose(std::span<const Entry> entries) {
  std::map<Type, uint32_t> numbers;  // by class
  for (const Entry& entry : entries) {
    const auto [it, fresh] = numbers.try_emplace(entry.type, entry.number);
    if (!fresh) it->second = std::min(it->second, entry.number);
  }
  if (numbers.empty()) return std::nullopt;
  // What all of them are, the nearest to the first one first.
  std::vector<Type> common = Ancestors(numbers.begin()->first);
  uint32_t number = numbers.begin()->second;
  for (const auto& [type, own_number] : numbers) {
    const std::vector<Type> ancestors = Ancestors(type);
    std::erase_if(common, [&](Type candidate) {
      return std::find(ancestors.begin(), ancestors.end(), candidate) == ancestors.end();
    });
    number = std::min(number, own_number);
  }
  if (common.empty()) return std::nullopt;
  const TypeInfo& chosen = Describe(common.front());
  if (!chosen.valid) return std::nullopt;
  return VirtualFunction{.type = chosen.name, .number = number};
}

}  // namespace profd::symbolize
