#include "client/render/summary_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/answer/watched.h"
#include "client/render/group_rows.h"
#include "client/render/heap.h"
#include "client/render/stacks.h"
#include "client/render/table.h"
#include "client/text/text.h"

namespace profctl {
namespace {

struct MemoryRow {
  std::string name;
  uint32_t threads = 0;
  profd::v1::HeapTotal heap;
};

void AppendMemoryThreads(const Profile& profile, const profd::v1::HeapTotal& all, bool colour,
                         std::string& text) {
  const SampleTypeInfo& kind = *profile.kind;
  const std::vector<std::string> group_of_thread = ThreadGroupNames(profile);
  std::map<std::string, MemoryRow> groups;
  uint64_t unknown = 0;
  for (size_t i = 0; i < profile.threads.size(); ++i) {
    const Thread& thread = profile.threads[i];
    if (!thread.heap) {
      ++unknown;
      continue;
    }
    MemoryRow& row = groups[group_of_thread[i]];
    row.name = group_of_thread[i];
    ++row.threads;
    AddHeap(*thread.heap, row.heap);
  }
  std::vector<MemoryRow> rows;
  for (auto& [name, row] : groups) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const MemoryRow& a, const MemoryRow& b) {
    return a.heap.bytes() > b.heap.bytes();
  });

  text += Heading(absl::StrCat("Threads by bytes ", std::string(kind.done)), colour);
  Table table({{"thread", Table::Align::kLeft},
               {"n", Table::Align::kRight, 3},
               {std::string(kind.done), Table::Align::kRight},
               {"share", Table::Align::kRight},
               {"rate", Table::Align::kRight, 1},
               {"events", Table::Align::kRight, 4},
               {"coverage", Table::Align::kRight, 2}});
  uint64_t left_threads = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const MemoryRow& row = rows[i];
    if (i >= kMostGroupRows) {
      left_threads += row.threads;
      continue;
    }
    table.Add({row.name, FormatCount(row.threads), FormatValue(row.heap.bytes(), profile.unit),
               FormatShare(static_cast<double>(row.heap.bytes()), static_cast<double>(all.bytes())),
               FormatByteRate(row.heap.bytes(), WatchedNs(profile)), FormatCount(row.heap.events()),
               FormatCoverage(row.heap)});
  }
  text += table.Render();
  text += MoreGroups(rows.size(), left_threads);
  if (unknown > 0) {
    absl::StrAppend(&text, "  no ", std::string(kind.events), " seen in ", FormatCount(unknown),
                    " of ", FormatCount(profile.threads.size()), " threads\n");
  }
}

}  // namespace

void AppendMemory(const View& view, const profd::v1::HeapTotal& heap, bool colour,
                  std::string& text) {
  const Profile& profile = *view.profile;
  text += Heading(absl::StrCat("Total: ", DescribeBytes(profile, heap.bytes()), " (",
                               DescribeSource(profile, heap), ")"),
                  colour);
  text += "\n";
  AppendMemoryThreads(profile, heap, colour, text);
  AppendStacks(view, colour, text);
  AppendFunctions(view, colour, text);
}

}  // namespace profctl
