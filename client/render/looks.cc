#include "client/render/looks.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/answer/source_lines.h"
#include "client/render/look_groups.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

// A group names so many of its threads, and a page has so many groups and shared objects.
constexpr size_t kMostNamed = 4;
constexpr size_t kMostGroups = 100;
constexpr size_t kMostShared = 10;

class Page {
 public:
  Page(const Looks& looks, bool colour)
      : looks_(looks), colour_(colour), many_processes_(HasManyProcesses(looks.profile())) {}

  std::string Render(bool show_idle) {
    AppendHead();
    AppendShared();
    AppendRunning();
    AppendStacks("Waiting for a CPU", Groups([](const ThreadLook& look) { return look.Queues(); }));
    AppendStacks("Waiting, the longest wait first", Groups([](const ThreadLook& look) {
                   return !look.Runs() && !look.Queues() && look.idle.empty();
                 }));
    const std::vector<LookGroup> idle =
        Groups([](const ThreadLook& look) { return !look.idle.empty(); });
    if (show_idle) {
      AppendStacks("Idle", idle);
    } else {
      AppendIdle(idle);
    }
    return std::move(text_);
  }

 private:
  std::string NameOf(const ThreadLook& look) const {
    const Thread& thread = looks_.profile().threads[look.thread];
    return absl::StrCat(NameInProcess(thread.process, thread.name, many_processes_), " (",
                        thread.tid, ")");
  }

  // "a (1), b (2) and 5 more", beginning with the thread at `first`.
  std::string Names(const std::vector<const ThreadLook*>& looks, size_t first,
                    bool with_times) const {
    std::string names;
    const size_t end = std::min(looks.size(), first + kMostNamed);
    for (size_t i = first; i < end; ++i) {
      absl::StrAppend(&names, i == first ? "" : ", ",
                      with_times ? absl::StrCat(DurationOf(*looks[i]), " ") : "",
                      NameOf(*looks[i]));
    }
    if (end < looks.size()) absl::StrAppend(&names, " and ", looks.size() - end, " more");
    return names;
  }

  void AppendHead() {
    const profd::v1::LookTotals& totals = looks_.totals();
    text_ += Heading("Threads of " + DescribeProcesses(looks_.profile()), colour_);
    text_ += Line("  ", absl::StrCat(FormatTime(totals.begin_ns()), " on ",
                                     CleanName(looks_.answer.message().host().hostname())));
    uint64_t running = 0, queued = 0, waiting = 0, idle = 0;
    for (const ThreadLook& look : looks_.threads) {
      ++(look.Runs() ? running : look.Queues() ? queued : look.idle.empty() ? waiting : idle);
    }
    text_ +=
        Wrap(absl::StrCat(CountThreads(totals.threads()), ": ", FormatCount(running), " on a CPU, ",
                          FormatCount(queued), " waiting for a CPU, ", FormatCount(waiting),
                          " waiting, ", FormatCount(idle), " idle. The snapshot took ",
                          FormatDuration(totals.duration_ns()), "."),
             PageColumns(), "  ");
    if (totals.torn() > 0) {
      text_ += Wrap(absl::StrCat("Lost: the stacks of ", CountThreads(totals.torn()),
                                 " that ran while they were read."),
                    PageColumns(), "  ");
    }
    if (totals.left_out() > 0) {
      text_ += Wrap(absl::StrCat("Left out: ", CountThreads(totals.left_out()),
                                 ", as there are too many; use --target or --thread."),
                    PageColumns(), "  ");
    }
    if (const std::string lines = DescribeLines(looks_.profile()); !lines.empty()) {
      text_ += Wrap(absl::StrCat("Source lines: ", lines, "."), PageColumns(), "  ");
    }
  }

  void AppendShared() {
    const std::vector<SharedObject> shared = SharedObjects(looks_);
    if (shared.empty()) return;
    text_ += "\n" + Heading("Waited for by several threads", colour_);
    for (size_t i = 0; i < std::min(shared.size(), kMostShared); ++i) {
      const SharedObject& object = shared[i];
      text_ +=
          WrapAfter("  - ",
                    absl::StrCat(CleanName(object.name), ": ", CountThreads(object.waits.size()),
                                 ", the longest for ", DurationOf(*object.waits.front()), ": ",
                                 Names(object.waits, 0, false)),
                    PageColumns());
    }
    if (shared.size() > kMostShared) {
      absl::StrAppend(&text_, "  and ", FormatCount(shared.size() - kMostShared),
                      " more objects\n");
    }
  }

  void AppendRunning() {
    std::vector<const ThreadLook*> running;
    for (const ThreadLook& look : looks_.threads) {
      if (look.Runs()) running.push_back(&look);
    }
    if (running.empty()) return;
    std::stable_sort(running.begin(), running.end(),
                     [](const ThreadLook* a, const ThreadLook* b) { return WaitsLonger(*a, *b); });
    text_ +=
        "\n" + Heading("On a CPU (no stacks; 'profctl fetch --kind cpu' has samples)", colour_);
    for (size_t i = 0; i < std::min(running.size(), kMostGroups); ++i) {
      text_ += Line("  ", absl::StrCat(DurationOf(*running[i]), "  ", NameOf(*running[i])));
    }
    AppendMore(running.size(), "threads");
  }

  template <typename Keep>
  std::vector<LookGroup> Groups(const Keep& keep) const {
    std::vector<const ThreadLook*> kept;
    for (const ThreadLook& look : looks_.threads) {
      if (keep(look)) kept.push_back(&look);
    }
    return GroupLooks(looks_.profile(), kept);
  }

  void AppendStacks(const char* heading, const std::vector<LookGroup>& groups) {
    if (groups.empty()) return;
    text_ += "\n" + Heading(heading, colour_);
    for (size_t i = 0; i < std::min(groups.size(), kMostGroups); ++i) {
      const ThreadLook& look = groups[i].longest();
      std::string line =
          absl::StrCat(DurationOf(look), "  [", std::string(DescribeReason(look.reason).name),
                       "]  ", NameOf(look));
      if (const std::string object = ObjectOf(look); !object.empty()) {
        absl::StrAppend(&line, "  for ", object);
      }
      if (!look.idle.empty()) absl::StrAppend(&line, "  ", CleanName(look.idle));
      text_ += Line(absl::StrCat("  ", i + 1, ". "), line);
      if (groups[i].looks.size() > 1) {
        text_ += WrapAfter("     and ", Names(groups[i].looks, 1, true) + ", with the same stack",
                           PageColumns());
      }
      for (const std::string& function : FunctionsOf(looks_.profile(), look)) {
        text_ += "       " + Shorten(function, LineColumns() - 7) + "\n";
      }
    }
    AppendMore(groups.size(), "groups of threads");
  }

  void AppendIdle(const std::vector<LookGroup>& groups) {
    if (groups.empty()) return;
    text_ += "\n" + Heading("Idle (--idle shows stacks)", colour_);
    Table table({{"threads", Table::Align::kRight},
                 {"longest", Table::Align::kRight},
                 {"kind", Table::Align::kLeft},
                 {"in", Table::Align::kLeft, 1},
                 {"names", Table::Align::kLeft}});
    std::vector<const LookGroup*> largest;
    for (const LookGroup& group : groups) largest.push_back(&group);
    std::stable_sort(largest.begin(), largest.end(), [](const LookGroup* a, const LookGroup* b) {
      return a->looks.size() > b->looks.size();
    });
    for (size_t i = 0; i < std::min(largest.size(), kMostGroups); ++i) {
      const LookGroup& group = *largest[i];
      table.Add({FormatCount(group.looks.size()), DurationOf(group.longest()),
                 CleanName(group.longest().idle), OriginOf(looks_.profile(), group.longest()),
                 Names(group.looks, 0, false)});
    }
    text_ += table.Render();
    AppendMore(groups.size(), "groups of threads");
  }

  void AppendMore(size_t count, const char* what) {
    if (count <= kMostGroups) return;
    absl::StrAppend(&text_, "  and ", FormatCount(count - kMostGroups), " more ", what,
                    "; --format json has all\n");
  }

  const Looks& looks_;
  const bool colour_;
  const bool many_processes_;
  std::string text_;
};

}  // namespace

std::string RenderLooksText(const Looks& looks, bool show_idle, bool colour) {
  return Page(looks, colour).Render(show_idle);
}

}  // namespace profctl
