#include "tests/e2e/harness/heap_dump.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/fd.h"

namespace profd::e2e {
namespace {

struct Mapping {
  uint64_t begin = 0, end = 0, offset = 0;
  std::string module;
};

struct Samples {
  double objects = 0, bytes = 0;  // since the start
};

struct Dump {
  double rate = 0;
  std::map<CodeStack, Samples> stacks;
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

// The second pair of "objects: bytes [objects: bytes]".
std::optional<Samples> ParseAccumulated(absl::string_view text) {
  const size_t open = text.find('['), close = text.find(']');
  if (open == absl::string_view::npos || close == absl::string_view::npos || close < open) {
    return std::nullopt;
  }
  const std::vector<absl::string_view> pair =
      absl::StrSplit(text.substr(open + 1, close - open - 1), ": ");
  Samples samples;
  if (pair.size() != 2 || !absl::SimpleAtod(pair[0], &samples.objects) ||
      !absl::SimpleAtod(pair[1], &samples.bytes)) {
    return std::nullopt;
  }
  return samples;
}

absl::StatusOr<Dump> Read(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  const auto broken = [&](absl::string_view line) {
    return absl::DataLossError(absl::StrCat(path, ": cannot read '", line, "'"));
  };
  Dump dump;
  std::vector<Mapping> mappings;
  std::vector<std::pair<std::vector<uint64_t>, Samples>> stacks;
  bool expect_samples = false, in_maps = false;
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
      expect_samples = true;
    } else if (expect_samples && absl::ConsumePrefix(&rest, "  t*: ")) {
      const std::optional<Samples> samples = ParseAccumulated(rest);
      if (!samples) return broken(line);
      stacks.back().second = *samples;
      expect_samples = false;
    }
  }
  for (const auto& [addresses, samples] : stacks) {
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
    Samples& sum = dump.stacks[stack];
    sum.objects += samples.objects;
    sum.bytes += samples.bytes;
  }
  return dump;
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
  for (const auto& [stack, samples] : last.stacks) {
    Samples grown = samples;
    if (const auto already = first.stacks.find(stack); already != first.stacks.end()) {
      grown.objects -= already->second.objects;
      grown.bytes -= already->second.bytes;
    }
    if (grown.objects < 1 || grown.bytes <= 0) continue;
    const double share_seen = 1 - std::exp(-grown.bytes / grown.objects / last.rate);
    const double bytes = grown.bytes / share_seen;
    allocated[stack] = {bytes, bytes / std::sqrt(grown.objects)};
  }
  return allocated;
}

StackBytes StacksOf(const Answer& answer) {
  StackBytes bytes;
  for (const v1::Sample& sample : answer.samples) {
    CodeStack stack;
    for (const v1::Frame& frame : answer.FramesOf(sample)) {
      stack.push_back({frame.module(), frame.offset()});
    }
    Estimate& sum = bytes[stack];
    sum.bytes += static_cast<double>(sample.bytes());
    sum.error = std::hypot(sum.error, static_cast<double>(sample.error_bytes()));
  }
  return bytes;
}

StackBytes WithoutAllocator(const StackBytes& stacks,
                            const std::function<bool(const CodeAddress&)>& is_allocator) {
  StackBytes outside;
  for (const auto& [stack, estimate] : stacks) {
    const auto caller = std::find_if_not(stack.begin(), stack.end(), is_allocator);
    Estimate& sum = outside[CodeStack(caller, stack.end())];
    sum.bytes += estimate.bytes;
    sum.error = std::hypot(sum.error, estimate.error);
  }
  return outside;
}

double Sum(const StackBytes& stacks) {
  double sum = 0;
  for (const auto& [stack, estimate] : stacks) sum += estimate.bytes;
  return sum;
}

void ExpectSameTop(const StackBytes& a, const StackBytes& b, size_t count, double sigmas) {
  ExpectLargestIn(a, b, count, sigmas);
  ExpectLargestIn(b, a, count, sigmas);
}

}  // namespace profd::e2e
