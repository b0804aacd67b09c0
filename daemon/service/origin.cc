#include "daemon/service/origin.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"

namespace profd {
namespace {

constexpr int kKernelRank = 3;
// The sign for a missing end of a stack asked for nothing, but tells more than an allocator.
constexpr int kSyntheticRank = 3;
constexpr int kCommonRank = 4;

template <typename List>
bool BeginsWithAny(std::string_view text, const List& prefixes) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

// The parts of the kernel that every wait passes.
bool IsPlumbing(std::string_view function) {
  static constexpr std::string_view kPrefixes[] = {
      "__schedule",       "schedule",          "preempt_schedule",     "io_schedule",
      "schedule_timeout", "do_syscall_64",     "entry_SYSCALL_64",     "x64_sys_call",
      "__x64_sys_",       "do_nanosleep",      "schedule_hrtimeout",   "asm_",
      "ret_from_fork",    "exit_to_user_mode", "syscall_exit_to_user", "__switch_to"};
  return BeginsWithAny(function, kPrefixes);
}

// What programs and runtimes call in place of malloc, and call malloc in: zmalloc, xrealloc,
// _PyObject_Malloc, palloc0. Names of C functions only: a method may be about an allocator.
bool IsAllocatorWrapper(std::string_view function) {
  static constexpr std::string_view kNames[] = {"malloc", "calloc", "realloc"};
  static constexpr std::string_view kPrefixes[] = {
      "palloc",           "MemoryContextAlloc", "AllocSetAlloc",    "PyMem_",
      "_PyMem_",          "PyObject_Malloc",    "PyObject_Calloc",  "PyObject_Realloc",
      "_PyObject_Malloc", "_PyObject_Calloc",   "_PyObject_Realloc"};
  const bool plain = std::all_of(function.begin(), function.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
  if (!plain) return false;
  return BeginsWithAny(function, kPrefixes) ||
         std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view name) { return function.find(name) != function.npos; });
}

bool IsAllocator(const FrameText& frame) {
  static constexpr std::string_view kModules[] = {"libjemalloc.", "libmimalloc.", "libtcmalloc"};
  static constexpr std::string_view kPrefixes[] = {
      "_rjem_",           "je_",           "operator new",
      "operator delete",  "__rust_alloc",  "__rust_dealloc",
      "__rust_realloc",   "__rdl_",        "__rg_",
      "__rustc::__rust_", "alloc::alloc::"};
  static constexpr std::string_view kFunctions[] = {
      "malloc",       "calloc",          "realloc",  "reallocarray",   "free",
      "cfree",        "aligned_alloc",   "memalign", "posix_memalign", "mallocx",
      "rallocx",      "sdallocx",        "dallocx",  "malloc_default", "free_default",
      "large_malloc", "te_event_trigger"};
  return BeginsWithAny(frame.module, kModules) || BeginsWithAny(frame.function, kPrefixes) ||
         std::find(std::begin(kFunctions), std::end(kFunctions), frame.function) !=
             std::end(kFunctions) ||
         IsAllocatorWrapper(frame.function);
}

int RankOf(const FrameText& frame) {
  if (IsCommon(frame)) return kCommonRank;
  switch (frame.kind) {
    case FrameKind::kApplication:
      return 0;
    case FrameKind::kRuntime:
      return 1;
    case FrameKind::kLibc:
      return 2;
    case FrameKind::kKernel:
      return kKernelRank;
    case FrameKind::kSynthetic:
      return kSyntheticRank;
  }
  return kCommonRank;
}

}  // namespace

bool IsCommon(const FrameText& frame) {
  return frame.kind == FrameKind::kKernel ? IsPlumbing(frame.function) : IsAllocator(frame);
}

OriginRule::OriginRule(std::span<const FrameText> frames) {
  ranks_.reserve(frames.size());
  for (const FrameText& frame : frames) ranks_.push_back(RankOf(frame));
}

size_t OriginRule::Of(std::span<const uint32_t> stack) const {
  const auto lowest = std::min_element(
      stack.begin(), stack.end(), [&](uint32_t a, uint32_t b) { return ranks_[a] < ranks_[b]; });
  return lowest == stack.end() ? 0 : static_cast<size_t>(lowest - stack.begin());
}

}  // namespace profd
