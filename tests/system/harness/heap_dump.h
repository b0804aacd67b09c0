// Stacks of allocations as others tell them: jemalloc's own heap profile, and heaptrack's.
#ifndef PROFD_TESTS_SYSTEM_HARNESS_HEAP_DUMP_H_
#define PROFD_TESTS_SYSTEM_HARNESS_HEAP_DUMP_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/system/harness/answer.h"

namespace profd::e2e {

// An instruction, or where a call returns to.
struct CodeAddress {
  std::string module;  // base name of its file
  uint64_t offset = 0;
  auto operator<=>(const CodeAddress&) const = default;
};
// Innermost first.
using CodeStack = std::vector<CodeAddress>;

struct Estimate {
  double bytes = 0;
  double error = 0;    // one standard error
  double objects = 0;  // of a live heap
};
using StackBytes = std::map<CodeStack, Estimate>;

// What a process allocated from one dump ("heap_v2", with prof_accum) to a later one. The text
// holds samples, each allocation of size z being one with probability 1 - exp(-z/R); they are
// scaled by that. They are those of a Poisson process: n have the relative error 1/sqrt(n).
absl::StatusOr<StackBytes> AllocatedBetween(const std::string& before, const std::string& after);

// What is live as of a dump, likewise.
absl::StatusOr<StackBytes> LiveIn(const std::string& path);

// What a program asked for under `heaptrack --raw`, each request as the size class in which
// jemalloc would serve it. Nothing is sampled: errors are 0. Stacks end at heaptrack's own limit of
// 64 frames.
absl::StatusOr<StackBytes> RequestedIn(const std::string& heaptrack_raw);

// The smallest of jemalloc's size classes (16 bytes apart up to 128, then four in each doubling)
// that holds `size`.
uint64_t JemallocSizeClass(uint64_t size);

// Only the `depth` innermost frames of each.
StackBytes Innermost(const StackBytes& stacks, size_t depth);

// Bytes by stack of all threads in an answer. Threads are unrelated, so their variances add up.
StackBytes StacksOf(const Answer& answer);

// Without the innermost frames, which are the allocator's.
StackBytes WithoutAllocator(const StackBytes& stacks,
                            const std::function<bool(const CodeAddress&)>& is_allocator);

Estimate Sum(const StackBytes& stacks);

// The functions of a module that stacks go through, with the symbols of `file`. `strip` moves no
// code, so that may be the file before it was stripped.
using CodeNames = std::map<CodeAddress, std::string>;
CodeNames NamesIn(const std::string& file, const std::string& module,
                  const std::vector<const StackBytes*>& stacks);

// The `count` largest stacks of either are those of the other, with the same bytes: to `sigmas`
// times both errors together. One may be in only one list where the error leaves its place open.
void ExpectSameTop(const StackBytes& a, const StackBytes& b, size_t count, double sigmas);

}  // namespace profd::e2e

#endif  // PROFD_TESTS_SYSTEM_HARNESS_HEAP_DUMP_H_
