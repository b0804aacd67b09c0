#include "client/render/stacks.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/render/table.h"
#include "client/text.h"

namespace profctl {
namespace {

constexpr size_t kWidestStacks = 5;
constexpr size_t kTellingFrames = 6;
constexpr size_t kMostFunctions = 10;
constexpr int kPassedByAll = 4;  // the rank of frames that tell nothing

// The parts of the kernel that every wait passes and that say nothing about it.
bool IsPlumbing(std::string_view function) {
  static constexpr std::string_view kPlumbing[] = {
      "__schedule",       "schedule",          "preempt_schedule",     "io_schedule",
      "schedule_timeout", "do_syscall_64",     "entry_SYSCALL_64",     "x64_sys_call",
      "__x64_sys_",       "do_nanosleep",      "schedule_hrtimeout",   "asm_",
      "ret_from_fork",    "exit_to_user_mode", "syscall_exit_to_user", "__switch_to"};
  return std::any_of(std::begin(kPlumbing), std::end(kPlumbing),
                     [&](std::string_view prefix) { return function.starts_with(prefix); });
}

// Allocators and the functions by which programs call them: every allocation passes some of them.
bool IsAllocator(const profd::v1::Frame& frame) {
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
  const std::string_view module = frame.module();
  const std::string_view function = frame.function();
  const auto begins = [](std::string_view text) {
    return [text](std::string_view prefix) { return text.starts_with(prefix); };
  };
  return std::any_of(std::begin(kModules), std::end(kModules), begins(module)) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes), begins(function)) ||
         std::find(std::begin(kFunctions), std::end(kFunctions), function) != std::end(kFunctions);
}

// How much a frame tells about a wait or an allocation; lower is more.
int Rank(const profd::v1::Frame& frame, Unit unit) {
  if (unit == Unit::kBytes && IsAllocator(frame)) return kPassedByAll;
  switch (frame.kind()) {
    case profd::v1::FRAME_KIND_APPLICATION:
    case profd::v1::FRAME_KIND_SYNTHETIC:
      return 0;
    case profd::v1::FRAME_KIND_RUNTIME:
      return 1;
    case profd::v1::FRAME_KIND_LIBC:
      return 2;
    case profd::v1::FRAME_KIND_KERNEL:
      return IsPlumbing(frame.function()) ? kPassedByAll : 3;
    default:
      return 1;
  }
}

// By frame of the profile.
std::vector<int> RankFrames(const Profile& profile) {
  std::vector<int> ranks;
  ranks.reserve(profile.frames.size());
  for (const profd::v1::Frame& frame : profile.frames) ranks.push_back(Rank(frame, profile.unit));
  return ranks;
}

// Up to kTellingFrames frames, innermost first: the innermost of the most telling kinds, and
// always the one through which libc or the kernel was entered.
std::vector<std::string> TellingFrames(const Profile& profile, const std::vector<int>& ranks,
                                       const Stack& stack) {
  std::vector<size_t> order(stack.frames.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto rank = [&](size_t i) { return ranks[stack.frames[i]]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });
  // An allocation passes the allocator, which goes without saying.
  const bool without_allocator =
      profile.unit == Unit::kBytes && !order.empty() && rank(order.front()) < kPassedByAll;
  order.resize(std::min(order.size(), kTellingFrames));
  const bool only_code =
      std::all_of(order.begin(), order.end(), [&](size_t i) { return rank(i) < 2; });
  if (only_code && order.size() == kTellingFrames) {
    const size_t innermost = *std::min_element(order.begin(), order.end());
    if (innermost > 0 && rank(innermost - 1) == 2) order.back() = innermost - 1;
  }
  std::sort(order.begin(), order.end());
  std::vector<std::string> names;
  for (const size_t i : order) {
    const profd::v1::Frame& frame = profile.frames[stack.frames[i]];
    if (rank(i) == kPassedByAll && (!names.empty() || without_allocator)) continue;
    std::string name = CleanName(frame.function());
    if (frame.kind() == profd::v1::FRAME_KIND_KERNEL) name += " (kernel)";
    names.push_back(std::move(name));
  }
  return names;
}

// The function of the program that asked for what a stack shows.
std::string Asker(const Profile& profile, const std::vector<int>& ranks, const Stack& stack) {
  const profd::v1::Frame* asker = nullptr;
  int rank = kPassedByAll + 1;
  for (const uint32_t index : stack.frames) {
    const profd::v1::Frame& frame = profile.frames[index];
    // The sign for a missing end of a stack asked for nothing, but tells more than an allocator.
    const bool synthetic = frame.kind() == profd::v1::FRAME_KIND_SYNTHETIC;
    const int next = synthetic ? kPassedByAll - 1 : ranks[index];
    if (next < rank) asker = &frame, rank = next;
  }
  return asker == nullptr ? "[no stack]" : CleanName(asker->function());
}

// An estimate with its error, summed over samples that do not depend on each other.
struct Estimate {
  int64_t value = 0;
  int64_t growth = 0;
  double variance = 0;

  void Add(const Sample& sample) {
    const auto error = static_cast<double>(sample.error);
    value += sample.value;
    growth += sample.growth;
    variance += error * error;
  }
  // "41.4% ± 0.4%".
  std::string Share(double whole) const {
    const double error = std::sqrt(variance);
    return absl::StrCat(FormatShare(static_cast<double>(value), whole),
                        error > 0 ? absl::StrCat(" ± ", FormatShare(error, whole)) : "");
  }
};

struct WideStack {
  const Sample* example = nullptr;
  std::string group;
  Estimate estimate;
  std::set<uint32_t> threads;
};

std::string StacksHeading(const View& view) {
  const Unit unit = view.profile->unit;
  std::string what;
  if (unit == Unit::kNanoseconds) {
    what = view.idle_shown ? ", idle waits included" : " that are not idle";
  }
  return absl::StrCat("Widest stacks of ", FormatValue(view.shown_value, unit), what,
                      " (± one standard error)");
}

std::string WhyNoStacks(const View& view) {
  const KindInfo& kind = DescribeKind(view.profile->header.kind());
  if (kind.level) return absl::StrCat("nothing is known to be ", std::string(kind.done));
  if (kind.calls) return absl::StrCat("nothing was ", std::string(kind.done), " in this window");
  if (kind.unit == Unit::kBytes) return "no event of an allocator was in this window";
  return view.idle_ns > 0 ? "every wait in this window was idle; --idle shows them"
                          : "no thread was seen waiting in this window";
}

const char* WhyUnsampled(Unit unit, bool level) {
  if (level) return "touched while page faults were not told of; any of the stacks may have a part";
  return unit == Unit::kBytes ? "too little between two events of the allocator to be seen"
                              : "waits too short for a tick to see one";
}

}  // namespace

std::vector<std::string> GroupNames(const Profile& profile) {
  std::vector<std::string> groups = ThreadGroups(profile);
  if (!HasManyProcesses(profile)) return groups;
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string process = CleanName(profile.threads[i].process());
    if (process != groups[i]) groups[i] = absl::StrCat(process, "/", groups[i]);
  }
  return groups;
}

void AppendStacks(const View& view, bool colour, std::string& text) {
  const Profile& profile = *view.profile;
  const std::vector<std::string> group_of_thread = GroupNames(profile);
  // Functions, not addresses: two calls from one function are one stack to a reader.
  std::map<std::string, uint32_t> names;
  std::vector<uint32_t> name_of_frame;
  for (const profd::v1::Frame& frame : profile.frames) {
    name_of_frame.push_back(
        names.emplace(frame.function(), static_cast<uint32_t>(names.size())).first->second);
  }
  using Key = std::tuple<std::string, Reason, bool, std::vector<uint32_t>>;
  std::map<Key, WideStack> stacks;
  for (const Sample* sample : view.shown) {
    std::vector<uint32_t> functions;
    const bool sampled = sample->stack != kUnsampled;
    if (sampled) {
      for (const uint32_t frame : profile.stacks[sample->stack].frames) {
        functions.push_back(name_of_frame[frame]);
      }
    }
    const std::string& group = group_of_thread[sample->thread];
    WideStack& stack = stacks[Key(group, sample->reason, sampled, std::move(functions))];
    stack.example = sample;
    stack.group = group;
    stack.estimate.Add(*sample);
    stack.threads.insert(sample->thread);
  }
  std::vector<WideStack> widest;
  for (auto& [key, stack] : stacks) widest.push_back(std::move(stack));
  std::stable_sort(widest.begin(), widest.end(), [](const WideStack& a, const WideStack& b) {
    return a.estimate.value > b.estimate.value;
  });

  text += "\n" + Heading(StacksHeading(view), colour);
  if (widest.empty()) text += "  none: " + WhyNoStacks(view) + "\n";
  const std::vector<int> ranks = RankFrames(profile);
  const auto whole = static_cast<double>(view.shown_value);
  const bool level = DescribeKind(profile.header.kind()).level;
  for (size_t i = 0; i < std::min(widest.size(), kWidestStacks); ++i) {
    const WideStack& stack = widest[i];
    std::string line =
        absl::StrCat("  ", i + 1, ". ", FormatValue(stack.estimate.value, profile.unit), "  ",
                     stack.estimate.Share(whole));
    if (level) absl::StrAppend(&line, "  ", FormatGrowth(stack.estimate.growth));
    if (profile.unit == Unit::kNanoseconds) {
      const std::string reason(DescribeReason(stack.example->reason).name);
      absl::StrAppend(&line, "  [", reason, "]");
    }
    absl::StrAppend(&line, "  in ", stack.group);
    if (stack.threads.size() > 1) {
      absl::StrAppend(&line, " (", FormatCount(stack.threads.size()), " threads)");
    }
    text += ClipEnd(line, PageColumns()) + "\n";
    if (stack.example->stack == kUnsampled) {
      absl::StrAppend(&text, "       [unsampled]: ", WhyUnsampled(profile.unit, level), "\n");
      continue;
    }
    const Stack& example = profile.stacks[stack.example->stack];
    for (const std::string& name : TellingFrames(profile, ranks, example)) {
      text += "       " + Shorten(name, PageColumns() - 7) + "\n";
    }
  }
}

void AppendFunctions(const View& view, bool colour, std::string& text) {
  const Profile& profile = *view.profile;
  const std::vector<int> ranks = RankFrames(profile);
  std::vector<std::string> asker_of_stack;
  asker_of_stack.reserve(profile.stacks.size());
  for (const Stack& stack : profile.stacks) {
    asker_of_stack.push_back(Asker(profile, ranks, stack));
  }
  std::map<std::string, Estimate> functions;
  for (const Sample* sample : view.shown) {
    const bool sampled = sample->stack != kUnsampled;
    functions[sampled ? asker_of_stack[sample->stack] : "[unsampled]"].Add(*sample);
  }
  if (functions.empty()) return;
  std::vector<std::pair<std::string, Estimate>> rows(functions.begin(), functions.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.value > b.second.value; });
  text += "\n" + Heading("Functions of the program, the innermost of each stack", colour);
  const KindInfo& kind = DescribeKind(profile.header.kind());
  std::vector<Table::Column> columns = {{std::string(kind.done), Table::Align::kRight},
                                        {"share", Table::Align::kRight}};
  if (kind.level) columns.push_back({"in the window", Table::Align::kRight});
  columns.push_back({"function", Table::Align::kLeft, 70});
  Table table(std::move(columns));
  int64_t rest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [function, estimate] = rows[i];
    if (i >= kMostFunctions) {
      rest += estimate.value;
      continue;
    }
    std::vector<std::string> cells = {FormatValue(estimate.value, profile.unit),
                                      estimate.Share(static_cast<double>(view.shown_value))};
    if (kind.level) cells.push_back(FormatGrowth(estimate.growth));
    cells.push_back(function);
    table.Add(std::move(cells));
  }
  text += table.Render();
  if (rows.size() > kMostFunctions) {
    absl::StrAppend(&text, "  and ", FormatCount(rows.size() - kMostFunctions), " more with ",
                    FormatValue(rest, profile.unit), "\n");
  }
}

std::vector<Site> TopSites(const Profile& profile, int32_t pid, size_t most) {
  const std::vector<int> ranks = RankFrames(profile);
  std::map<std::string, Estimate> functions;
  int64_t whole = 0;
  for (const Sample& sample : profile.samples) {
    if (profile.threads[sample.thread].pid() != pid || sample.value <= 0) continue;
    const bool sampled = sample.stack != kUnsampled;
    functions[sampled ? Asker(profile, ranks, profile.stacks[sample.stack]) : "[unsampled]"].Add(
        sample);
    whole += sample.value;
  }
  std::vector<Site> sites;
  for (const auto& [function, estimate] : functions) {
    sites.push_back({.function = function,
                     .bytes = estimate.value,
                     .error_bytes = std::llround(std::min(std::sqrt(estimate.variance), 9e18)),
                     .whole_bytes = whole});
  }
  std::stable_sort(sites.begin(), sites.end(),
                   [](const Site& a, const Site& b) { return a.bytes > b.bytes; });
  if (sites.size() > most) sites.resize(most);
  return sites;
}

}  // namespace profctl
