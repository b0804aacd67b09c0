#include "client/symbolize/late_names.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "client/answer/name_source.h"
#include "client/answer/string_table.h"
#include "client/symbolize/late_rules.h"
#include "client/text/text.h"
#include "daemon/base/status.h"
#include "daemon/service/waker_frames.h"
#include "daemon/symbolize/debug_file.h"
#include "daemon/symbolize/elf_symbols.h"
#include "daemon/symbolize/symbol_name.h"
#include "daemon/symbolize/symbolizer.h"

namespace profctl {
namespace {

using profd::LineChain;
using profd::LineQuery;
using profd::symbolize::CoveringSymbol;

// In all, for what debug info says of an answer.
constexpr std::chrono::minutes kLinePatience(1);
constexpr size_t kMaxName = 4096;

profd::v1::FrameKind ToProto(profd::FrameKind kind) {
  switch (kind) {
    case profd::FrameKind::kKernel:
      return profd::v1::FRAME_KIND_KERNEL;
    case profd::FrameKind::kLibc:
      return profd::v1::FRAME_KIND_LIBC;
    case profd::FrameKind::kRuntime:
      return profd::v1::FRAME_KIND_RUNTIME;
    case profd::FrameKind::kApplication:
      return profd::v1::FRAME_KIND_APPLICATION;
    case profd::FrameKind::kSynthetic:
      return profd::v1::FRAME_KIND_SYNTHETIC;
  }
  return profd::v1::FRAME_KIND_UNSPECIFIED;
}

// Another file may know more: a function that is not exported, for one.
bool IsWanted(profd::v1::NameSource source) {
  return source == profd::v1::NAME_SOURCE_NONE || source == profd::v1::NAME_SOURCE_BOUNDS ||
         source == profd::v1::NAME_SOURCE_INFERRED || source == profd::v1::NAME_SOURCE_RTTI ||
         source == profd::v1::NAME_SOURCE_DYNAMIC_SYMBOLS;
}

std::string Text(std::string_view name) {
  return profd::symbolize::Printable(name.substr(0, kMaxName));
}

class Renamer {
 public:
  explicit Renamer(profd::v1::Profile* message)
      : message_(message), strings_(message), changed_(Locations()) {
    for (int i = 0; i < message->locations_size(); ++i) {
      by_mapping_[message->locations(i).mapping()].push_back(static_cast<uint32_t>(i));
    }
  }

  // `companions`: what the debug info of `source` refers to.
  void NameMapping(uint32_t mapping, const DebugSource& source,
                   std::shared_ptr<const profd::CompanionFiles> companions,
                   profd::LineReader* lines) {
    std::vector<uint32_t> named;      // locations
    std::vector<uint64_t> addresses;  // of these, in the order of `named`
    for (const uint32_t location : by_mapping_[mapping]) {
      if (!Wants(location)) continue;
      const std::optional<uint64_t> address = AddressOf(location, mapping, source);
      if (!address) continue;
      named.push_back(location);
      addresses.push_back(*address);
    }
    if (named.empty()) return;
    NameBySymbols(named, addresses, source);
    if (lines != nullptr && profd::symbolize::HasDebugInfo(source.elf)) {
      AddLines(named, addresses, source, std::move(companions), lines);
    }
  }

  // Whether some location of a mapping may get a better name.
  // `*unnamed`: some has none.
  bool Wants(uint32_t mapping, std::string* build_id, std::string* code_id, bool* unnamed) {
    const auto it = by_mapping_.find(mapping);
    if (mapping == 0 || it == by_mapping_.end()) return false;
    const profd::v1::Mapping& sent = message_->mappings(static_cast<int>(mapping));
    *build_id = message_->strings(static_cast<int>(sent.build_id()));
    *code_id = sent.code_id() < static_cast<uint32_t>(message_->strings_size())
                   ? message_->strings(static_cast<int>(sent.code_id()))
                   : "";
    const std::vector<uint32_t>& mine = it->second;
    *unnamed = std::any_of(mine.begin(), mine.end(), [&](uint32_t location) {
      return profctl::IsPlaceOnly(
          FunctionOf(message_->locations(static_cast<int>(location))).found_by());
    });
    return std::any_of(mine.begin(), mine.end(),
                       [&](uint32_t location) { return Wants(location); });
  }

  const std::vector<bool>& changed() const { return changed_; }
  // Texts that became others.
  const std::map<std::string, std::string>& renamed() const { return renamed_; }

 private:
  size_t Locations() const { return static_cast<size_t>(message_->locations_size()); }
  const profd::v1::Function& FunctionOf(const profd::v1::Location& location) const {
    return message_->functions(
        static_cast<int>(location.lines(location.lines_size() - 1).function()));
  }
  std::string ModuleOf(uint32_t location) const {
    const uint32_t mapping = message_->locations(static_cast<int>(location)).mapping();
    return message_->strings(
        static_cast<int>(message_->mappings(static_cast<int>(mapping)).file()));
  }

  bool Wants(uint32_t index) const {
    const profd::v1::Location& location = message_->locations(static_cast<int>(index));
    const profd::v1::Function& function = FunctionOf(location);
    return IsWanted(function.found_by()) ||
           (function.kind() != profd::v1::FRAME_KIND_KERNEL && location.lines_size() == 1 &&
            location.lines(0).line() == 0 && function.file() == 0);
  }

  std::optional<uint64_t> AddressOf(uint32_t index, uint32_t mapping,
                                    const DebugSource& source) const {
    const profd::v1::Location& location = message_->locations(static_cast<int>(index));
    const uint64_t offset =
        location.address() - (location.exact() || location.address() == 0 ? 0 : 1);
    const profd::v1::Mapping& sent = message_->mappings(static_cast<int>(mapping));
    // Program headers of files with nothing but debug info may say anything.
    if (sent.code().empty()) return source.elf.VaddrOfOffset(offset);
    for (const profd::v1::CodeSegment& segment : sent.code()) {
      if (offset >= segment.offset() && offset - segment.offset() < segment.size()) {
        return segment.address() + (offset - segment.offset());
      }
    }
    return std::nullopt;
  }

  uint32_t Function(const std::string& name, profd::v1::NameSource found_by,
                    const std::string& module, const std::string& file) {
    const profd::FrameKind kind = profd::ClassifyFrame(module, name);
    const std::tuple key(strings_.Add(name), strings_.Add(file), strings_.Add(module), found_by);
    const auto [it, fresh] =
        functions_.try_emplace(key, static_cast<uint32_t>(message_->functions_size()));
    if (fresh) {
      profd::v1::Function* function = message_->add_functions();
      function->set_name(std::get<0>(key));
      function->set_file(std::get<1>(key));
      function->set_kind(ToProto(kind));
      function->set_found_by(found_by);
      function->set_common(profd::IsCommon({name, module, kind}));
    }
    return it->second;
  }

  void NameBySymbols(const std::vector<uint32_t>& locations, const std::vector<uint64_t>& addresses,
                     const DebugSource& source) {
    std::vector<uint64_t> unique = addresses;
    std::sort(unique.begin(), unique.end());
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    profd::symbolize::SymbolLookup lookup(unique);
    lookup.AddTables(source.elf, profd::NameSource::kDebugFile);
    const std::vector<CoveringSymbol> symbols = lookup.Find();
    for (size_t i = 0; i < locations.size(); ++i) {
      const auto at = std::lower_bound(unique.begin(), unique.end(), addresses[i]);
      const CoveringSymbol& symbol = symbols[static_cast<size_t>(at - unique.begin())];
      profd::v1::Location& location = *message_->mutable_locations(static_cast<int>(locations[i]));
      const profd::v1::NameSource old = FunctionOf(location).found_by();
      // How far a label reaches is a guess.
      const bool use = !symbol.name.empty() &&
                       (symbol.sized ? IsWanted(old) : old == profd::v1::NAME_SOURCE_NONE);
      if (use) Rename(locations[i], Text(profd::Demangle(symbol.name)), ToProto(symbol.source));
    }
  }

  static profd::v1::NameSource ToProto(profd::NameSource source) {
    return source == profd::NameSource::kDynamicSymbols ? profd::v1::NAME_SOURCE_DYNAMIC_SYMBOLS
                                                        : profd::v1::NAME_SOURCE_DEBUG_FILE;
  }
  static profd::v1::FrameKind ToProto(profd::FrameKind kind) { return profctl::ToProto(kind); }

  void Rename(uint32_t index, const std::string& name, profd::v1::NameSource found_by) {
    profd::v1::Location& location = *message_->mutable_locations(static_cast<int>(index));
    const profd::v1::Function& old = FunctionOf(location);
    const std::string old_name = message_->strings(static_cast<int>(old.name()));
    const std::string file = message_->strings(static_cast<int>(old.file()));
    if (old_name == name) return;
    const uint32_t function = Function(name, found_by, ModuleOf(index), file);
    location.mutable_lines(location.lines_size() - 1)->set_function(function);
    renamed_.try_emplace(old_name, name);
    changed_[index] = true;
  }

  void AddLines(const std::vector<uint32_t>& locations, const std::vector<uint64_t>& addresses,
                const DebugSource& source, std::shared_ptr<const profd::CompanionFiles> companions,
                profd::LineReader* lines) {
    const std::vector<bool> of_wakers = LocationsOfWakers(*message_);
    LineQuery query;
    query.file = reinterpret_cast<uintptr_t>(&source);
    query.contents = source.fd;
    query.companions = std::move(companions);
    query.addresses = addresses;
    lines->Find({&query, 1}, kLinePatience);
    profd::v1::SourceLines* counts = message_->mutable_source_lines();
    for (size_t i = 0; i < locations.size(); ++i) {
      const LineChain& chain = query.chains[i];
      if (chain.empty() || message_->locations(static_cast<int>(locations[i])).lines_size() > 1) {
        continue;
      }
      counts->set_known(counts->known() + 1);
      if (counts->missing() > 0) counts->set_missing(counts->missing() - 1);
      SetChain(locations[i], chain, of_wakers[locations[i]]);
    }
  }

  // `alone`: without what is inlined.
  void SetChain(uint32_t index, const LineChain& chain, bool alone) {
    const std::string module = ModuleOf(index);
    profd::v1::Location& location = *message_->mutable_locations(static_cast<int>(index));
    const profd::v1::Function& old = FunctionOf(location);
    const profd::SourceLine& own = chain.back();
    std::string name = message_->strings(static_cast<int>(old.name()));
    profd::v1::NameSource found_by = old.found_by();
    if (found_by != profd::v1::NAME_SOURCE_DYNAMIC_SYMBOLS && IsWanted(found_by) &&
        !own.function.empty()) {
      renamed_.try_emplace(name, Text(own.function));
      name = Text(own.function);
      found_by = profd::v1::NAME_SOURCE_DEBUG_INFO;
    }
    std::vector<std::pair<uint32_t, uint32_t>> built;  // function, line
    for (size_t i = 0; i + 1 < chain.size() && !alone; ++i) {
      if (chain[i].function.empty()) continue;
      built.emplace_back(Function(Text(chain[i].function), profd::v1::NAME_SOURCE_DEBUG_INFO,
                                  module, Text(chain[i].file)),
                         chain[i].line);
    }
    built.emplace_back(Function(name, found_by, module, Text(own.file)), own.line);
    location.clear_lines();
    for (const auto& [function, number] : built) {
      profd::v1::Line* line = location.add_lines();
      line->set_function(function);
      line->set_line(number);
    }
    changed_[index] = true;
  }

  profd::v1::Profile* const message_;
  StringTable strings_;
  std::map<uint32_t, std::vector<uint32_t>> by_mapping_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, profd::v1::NameSource>, uint32_t> functions_;
  std::vector<bool> changed_;  // by location
  std::map<std::string, std::string> renamed_;
};

std::string DescribeUnused(const DebugSource& source, const profd::v1::Profile& message) {
  const std::string base = source.path.substr(source.path.rfind('/') + 1);
  std::string text =
      absl::StrCat(CleanName(source.path), " is the debug file of no module that lacks names");
  for (const profd::v1::Mapping& mapping : message.mappings()) {
    const std::string& file = message.strings(static_cast<int>(mapping.file()));
    const std::string& id = message.strings(static_cast<int>(mapping.build_id()));
    if (file.empty() || !base.starts_with(file) || id == source.build_id) continue;
    const auto name_id = [](const std::string& build_id) {
      return build_id.empty() ? std::string("none") : CleanName(build_id);
    };
    return absl::StrCat(text, ": its build-id is ", name_id(source.build_id), ", that of ",
                        CleanName(file), " in the answer ", name_id(id),
                        ", and its code is not the same");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LateNames>> LateNames::Open(const LateNameOptions& options) {
  ASSIGN_OR_RETURN(DebugSources sources, DebugSources::Open(options.debug));
  std::unique_ptr<LateNames> names(new LateNames(std::move(sources)));
  if (options.lines) {
    // Damaged DWARF may crash whoever reads it.
    absl::StatusOr<profd::LineLauncher> launcher =
        profd::LineLauncher::Start(profd::WorkerLimits());
    if (launcher.ok()) names->lines_.emplace(*std::move(launcher), &names->lines_cpu_ns_);
  }
  return names;
}

void LateNames::Name(profd::v1::Profile* message, std::vector<std::string>* notes) {
  Renamer renamer(message);
  for (int i = 0; i < message->mappings_size(); ++i) {
    std::string build_id;
    std::string code_id;
    bool unnamed = false;
    if (!renamer.Wants(static_cast<uint32_t>(i), &build_id, &code_id, &unnamed)) continue;
    // What is merely without lines is not worth a download.
    const DebugSource* source = sources_.Find(build_id, code_id, unnamed);
    if (source == nullptr) continue;
    renamer.NameMapping(static_cast<uint32_t>(i), *source, sources_.CompanionsOf(*source),
                        lines_ ? &*lines_ : nullptr);
  }
  JudgeAnew(renamer.changed(), renamer.renamed(), message);
  for (const DebugSource* source : sources_.Unused()) {
    notes->push_back(DescribeUnused(*source, *message));
  }
}

}  // namespace profctl
