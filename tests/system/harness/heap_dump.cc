#include "tests/system/harness/heap_dump.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/fd.h"
#include "daemon/symbolize/debug_files.h"
#include "daemon/symbolize/symbolizer.h"

namespace profd::e2e {
namespace {

struct Mapping {
  uint64_t begin = 0, end = 0, offset = 0;
  std::string module;
};

struct Samples {
  double objects = 0, bytes = 0;
};

struct Counts {
  Samples live, allocated;  // now; since the start
};

struct Dump {
  double rate = 0;
  std::map<CodeStack, Counts> stacks;
};

// A line of /proc/PID/maps; empty for what lies in no file.
std::optional<Mapping> ParseMapping(absl::string_view line) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(' ', 5));
  if (fields.size() < 6) return std::nullopt;
  const std::vector<absl::string_view> range = absl::StrSplit(fields[0], '-');
  Mapping mapping;
  if (range.size() != 2 || !absl::SimpleHexAtoi(range[0], &mapping.begin) ||
      !absl::SimpleHexAtoi(range[1], &mapping.end) ||
      !absl::SimpleHexAtoi(fields[2], &mapping.offset)) {
    return std::nullopt;
  }
  const absl::string_view path = absl::StripAsciiWhitespace(fields[5]);
  if (!absl::StartsWith(path, "/")) return std::nullopt;
  mapping.module = std::string(path.substr(path.rfind('/') + 1));
  return mapping;
}

// "objects: bytes"
bool ParsePair(absl::string_view text, Samples* samples) {
  const std::vector<absl::string_view> pair = absl::StrSplit(text, ": ");
  return pair.size() == 2 && absl::SimpleAtod(pair[0], &samples->objects) &&
         absl::SimpleAtod(pair[1], &samples->bytes);
}

// "objects: bytes [objects: bytes]"
std::optional<Counts> ParseCounts(absl::string_view text) {
  const size_t open = text.find('['), close = text.find(']');
  if (open == absl::string_view::npos || close == absl::string_view::npos || close < open) {
    return std::nullopt;
  }
  Counts counts;
  if (!ParsePair(text.substr(0, open), &counts.live) ||
      !ParsePair(text.substr(open + 1, close - open - 1), &counts.allocated)) {
    return std::nullopt;
  }
  return counts;
}

// What samples stand for. They are those of a Poisson process: n have the relative error 1/sqrt(n).
Estimate Unbiased(const Samples& samples, double rate) {
  const double share_seen = 1 - std::exp(-samples.bytes / samples.objects / rate);
  const double bytes = samples.bytes / share_seen;
  return {.bytes = bytes,
          .error = bytes / std::sqrt(samples.objects),
          .objects = samples.objects / share_seen};
}

absl::StatusOr<Dump> Read(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  const auto broken = [&](absl::string_view line) {
    return absl::DataLossError(absl::StrCat(path, ": cannot read '", line, "'"));
  };
  Dump dump;
  std::vector<Mapping> mappings;
  std::vector<std::pair<std::vector<uint64_t>, Counts>> stacks;
  bool expect_counts = false, in_maps = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::string_view rest = line;
    if (dump.rate == 0) {
      if (!absl::ConsumePrefix(&rest, "heap_v2/") || !absl::SimpleAtod(rest, &dump.rate)) {
        return broken(line);
      }
    } else if (in_maps) {
      if (auto mapping = ParseMapping(line)) mappings.push_back(*std::move(mapping));
    } else if (line == "MAPPED_LIBRARIES:") {
      in_maps = true;
    } else if (absl::ConsumePrefix(&rest, "@ ")) {
      std::vector<uint64_t> addresses;
      for (const absl::string_view word : absl::StrSplit(rest, ' ', absl::SkipEmpty())) {
        if (!absl::SimpleHexAtoi(word, &addresses.emplace_back())) return broken(line);
      }
      stacks.push_back({std::move(addresses), {}});
      expect_counts = true;
    } else if (expect_counts && absl::ConsumePrefix(&rest, "  t*: ")) {
      const std::optional<Counts> counts = ParseCounts(rest);
      if (!counts) return broken(line);
      stacks.back().second = *counts;
      expect_counts = false;
    }
  }
  for (const auto& [addresses, counts] : stacks) {
    CodeStack stack;
    for (const uint64_t address : addresses) {
      const auto in = std::find_if(mappings.begin(), mappings.end(), [&](const Mapping& m) {
        return address >= m.begin && address < m.end;
      });
      if (in == mappings.end()) {
        stack.push_back({"", address});
      } else {
        stack.push_back({in->module, address - in->begin + in->offset});
      }
    }
    Counts& sum = dump.stacks[stack];
    for (const auto part : {&Counts::live, &Counts::allocated}) {
      (sum.*part).objects += (counts.*part).objects;
      (sum.*part).bytes += (counts.*part).bytes;
    }
  }
  return dump;
}

// Both unrelated: their variances add up.
void Add(const Estimate& estimate, Estimate* sum) {
  sum->bytes += estimate.bytes;
  sum->error = std::hypot(sum->error, estimate.error);
  sum->objects += estimate.objects;
}

std::string Describe(const CodeStack& stack) {
  std::string text;
  for (const CodeAddress& address : stack) {
    absl::StrAppend(&text, text.empty() ? "" : " < ", address.module, "+0x",
                    absl::Hex(address.offset));
  }
  return text;
}

std::vector<std::pair<double, CodeStack>> Largest(const StackBytes& stacks, size_t count) {
  std::vector<std::pair<double, CodeStack>> all;
  for (const auto& [stack, estimate] : stacks) all.emplace_back(estimate.bytes, stack);
  std::sort(all.rbegin(), all.rend());
  all.resize(std::min(all.size(), count));
  return all;
}

// Each of the largest of `a` has its bytes in `b`, and is large there.
void ExpectLargestIn(const StackBytes& a, const StackBytes& b, size_t count, double sigmas) {
  const auto largest = Largest(a, count), there = Largest(b, count);
  ASSERT_EQ(largest.size(), count);
  ASSERT_EQ(there.size(), count);
  for (const auto& [bytes, stack] : largest) {
    const auto found = b.find(stack);
    if (found == b.end()) {
      ADD_FAILURE() << bytes << " bytes only on one side: " << Describe(stack);
      continue;
    }
    const double error = sigmas * std::hypot(a.at(stack).error, found->second.error);
    EXPECT_NEAR(found->second.bytes, bytes, error) << Describe(stack);
    EXPECT_GE(found->second.bytes + error, there.back().first) << Describe(stack);
  }
}

}  // namespace

absl::StatusOr<StackBytes> AllocatedBetween(const std::string& before, const std::string& after) {
  ASSIGN_OR_RETURN(const Dump first, Read(before));
  ASSIGN_OR_RETURN(const Dump last, Read(after));
  StackBytes allocated;
  for (const auto& [stack, counts] : last.stacks) {
    Samples grown = counts.allocated;
    if (const auto already = first.stacks.find(stack); already != first.stacks.end()) {
      grown.objects -= already->second.allocated.objects;
      grown.bytes -= already->second.allocated.bytes;
    }
    if (grown.objects < 1 || grown.bytes <= 0) continue;
    allocated[stack] = Unbiased(grown, last.rate);
  }
  return allocated;
}

absl::StatusOr<StackBytes> LiveIn(const std::string& path) {
  ASSIGN_OR_RETURN(const Dump dump, Read(path));
  StackBytes live;
  for (const auto& [stack, counts] : dump.stacks) {
    if (counts.live.objects > 0) live[stack] = Unbiased(counts.live, dump.rate);
  }
  return live;
}

uint64_t JemallocSizeClass(uint64_t size) {
  if (size <= 8) return 8;
  const uint64_t distance = size <= 128 ? 16 : std::bit_ceil(size) / 8;
  return (size + distance - 1) / distance * distance;
}

// A line is a kind and hexadecimal numbers: "x LENGTH PATH" the program, "m LENGTH MODULE BASE
// (ADDRESS SIZE)..." a module with its segments, the program being "x", "t ADDRESS CALLER" the next
// node of the tree of stacks, counted from 1, with where its call returns to less one, "+ SIZE NODE
// POINTER" a request. (heaptrack 1.4, src/track/libheaptrack.cpp.)
absl::StatusOr<StackBytes> RequestedIn(const std::string& heaptrack_raw) {
  std::ifstream file(heaptrack_raw);
  struct Node {
    uint64_t address = 0;
    size_t caller = 0;
  };
  std::string program;
  std::vector<Mapping> modules;
  std::vector<Node> nodes(1);
  std::vector<double> bytes(1);
  for (std::string line; std::getline(file, line);) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    const auto number = [&](size_t field) -> uint64_t {
      uint64_t value = 0;
      if (field >= fields.size() || !absl::SimpleHexAtoi(fields[field], &value)) {
        ADD_FAILURE() << heaptrack_raw << ": cannot read '" << line << "'";
      }
      return value;
    };
    if (fields.empty()) continue;
    const auto name_of = [](absl::string_view path) {
      return std::string(path.substr(path.rfind('/') + 1));
    };
    if (fields[0] == "x" && fields.size() >= 3) {
      program = name_of(fields[2]);
    } else if (fields[0] == "m" && fields.size() >= 6) {
      const uint64_t base = number(3);
      uint64_t end = 0;
      for (size_t i = 4; i + 1 < fields.size(); i += 2) {
        end = std::max(end, number(i) + number(i + 1));
      }
      modules.push_back({base, base + end, 0, fields[2] == "x" ? program : name_of(fields[2])});
    } else if (fields[0] == "t") {
      nodes.push_back({number(1) + 1, number(2)});
      bytes.push_back(0);
    } else if (fields[0] == "+") {
      const size_t node = number(2);
      if (node >= nodes.size()) return absl::DataLossError("no such stack: " + line);
      bytes[node] += static_cast<double>(JemallocSizeClass(number(1)));
    }
  }
  if (nodes.size() == 1) return absl::DataLossError(heaptrack_raw + ": no stacks in it");

  std::unordered_map<uint64_t, CodeAddress> places;
  const auto place_of = [&](uint64_t address) {
    const auto [place, fresh] = places.try_emplace(address);
    if (fresh) {
      const auto in = std::find_if(modules.begin(), modules.end(), [&](const Mapping& m) {
        return address >= m.begin && address < m.end;
      });
      const bool known = in != modules.end();
      place->second = {known ? in->module : "", known ? address - in->begin : address};
    }
    return place->second;
  };
  StackBytes stacks;
  for (size_t i = 1; i < nodes.size(); ++i) {
    if (bytes[i] == 0) continue;
    CodeStack stack;
    // A caller comes before what it calls.
    for (size_t at = i; at != 0; at = nodes[at].caller) {
      if (nodes[at].caller >= at) return absl::DataLossError("a stack without an end");
      stack.push_back(place_of(nodes[at].address));
    }
    Add({.bytes = bytes[i]}, &stacks[stack]);
  }
  return stacks;
}

StackBytes Innermost(const StackBytes& stacks, size_t depth) {
  StackBytes cut;
  for (const auto& [stack, estimate] : stacks) {
    Add(estimate, &cut[CodeStack(stack.begin(), stack.begin() + std::min(depth, stack.size()))]);
  }
  return cut;
}

StackBytes StacksOf(const Answer& answer) {
  StackBytes bytes;
  for (const Sample& sample : answer.samples) {
    CodeStack stack;
    for (const Frame& frame : answer.FramesOf(sample)) {
      stack.push_back({frame.module, frame.address});
    }
    Add({.bytes = static_cast<double>(sample.value),
         .error = static_cast<double>(sample.error),
         .objects = static_cast<double>(sample.count)},
        &bytes[stack]);
  }
  return bytes;
}

StackBytes WithoutAllocator(const StackBytes& stacks,
                            const std::function<bool(const CodeAddress&)>& is_allocator) {
  StackBytes outside;
  for (const auto& [stack, estimate] : stacks) {
    const auto caller = std::find_if_not(stack.begin(), stack.end(), is_allocator);
    Add(estimate, &outside[CodeStack(caller, stack.end())]);
  }
  return outside;
}

Estimate Sum(const StackBytes& stacks) {
  Estimate sum;
  for (const auto& [stack, estimate] : stacks) Add(estimate, &sum);
  return sum;
}

CodeNames NamesIn(const std::string& file, const std::string& module,
                  const std::vector<const StackBytes*>& stacks) {
  std::vector<uint64_t> inside;
  for (const StackBytes* each : stacks) {
    for (const auto& [stack, estimate] : *each) {
      for (const CodeAddress& address : stack) {
        // Where a call returns to may be the next function.
        if (address.module == module) inside.push_back(address.offset - 1);
      }
    }
  }
  const auto fd = OpenReadOnly(file);
  EXPECT_TRUE(fd.ok()) << fd.status();
  if (!fd.ok()) return {};
  const ModuleFile mapped = {
      .identity = {.path = file, .build_id = ""}, .fd = *OpenReadOnly(file), .root = nullptr};
  DebugFiles debug_files({});
  debug_files.Refresh(1, mapped);
  const auto debug = debug_files.Open(1);
  const std::vector<Symbol> symbols =
      SymbolizeModule(fd->get(), {module, ""}, inside, debug ? &*debug : nullptr);
  CodeNames names;
  for (size_t i = 0; i < symbols.size(); ++i) {
    names[{module, inside[i] + 1}] = symbols[i].function;
  }
  return names;
}

void ExpectSameTop(const StackBytes& a, const StackBytes& b, size_t count, double sigmas) {
  ExpectLargestIn(a, b, count, sigmas);
  ExpectLargestIn(b, a, count, sigmas);
}

}  // namespace profd::e2e
