#include "daemon/service/sync_use.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "bpf/abi.h"
#include "daemon/base/wrapping.h"
#include "daemon/profile/identity.h"
#include "daemon/service/latencies.h"
#include "daemon/service/messages.h"

namespace profd {
namespace {

constexpr std::array<std::string_view, PROFD_SYNC_CALLS> kCalls = {
    "fsync", "fdatasync", "sync_file_range", "msync", "syncfs"};
constexpr size_t kMostSyncs = 100;

struct Use {
  int64_t total_ns = 0;
  uint64_t joined = 0;
  uint64_t failed = 0;
  Latencies latencies;
  std::map<uint32_t, int64_t> stacks;  // time by number of the stack
  std::set<ThreadId> threads;
};

void AddSample(const Sample& sample, uint32_t stack, Use& use) {
  const uint64_t argument = sample.key.argument;
  use.total_ns = WrappingAdd(use.total_ns, sample.weight);
  if ((argument & PROFD_SYNC_JOINED) != 0) use.joined += Count(sample.ticks);
  if ((argument & PROFD_SYNC_FAILED) != 0) use.failed += Count(sample.ticks);
  use.latencies.Add(PROFD_SYNC_BUCKET(argument), sample.ticks);
  int64_t& of_stack = use.stacks[stack];
  of_stack = WrappingAdd(of_stack, sample.weight);
  use.threads.insert(sample.key.thread);
}

void FillSync(const SampleKey& place, const Use& use, WaitObjects& objects, v1::FileSync* out) {
  out->set_file(objects.TextOf(place));
  out->set_call(std::string(SyncCallName(place.argument)));
  out->set_calls(use.latencies.count());
  out->set_joined(use.joined);
  out->set_failed(use.failed);
  out->set_total_ns(use.total_ns);
  use.latencies.Fill(out);
  const auto most =
      std::max_element(use.stacks.begin(), use.stacks.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  out->set_stack(most->first);
  out->set_stack_ns(most->second);
  out->set_threads(use.threads.size());
}

}  // namespace

std::string_view SyncCallName(uint64_t argument) {
  const uint32_t call = PROFD_SYNC_CALL(argument);
  return call < kCalls.size() ? kCalls[call] : "sync";
}

std::string DescribeSync(const SampleKey& key, WaitObjects& objects) {
  return absl::StrCat(std::string(SyncCallName(key.argument)), " of ", objects.TextOf(key));
}

void FillSyncs(const MergedProfile& profile, const NamedStacks& stacks, WaitObjects& objects,
               v1::Profile* out) {
  absl::flat_hash_map<uint64_t, Use> uses;  // by PROFD_SYNC_PLACE
  for (const MergedThread& thread : profile.threads) {
    const ProcessId process = ProcessIdOf(*thread.info);
    for (const Sample& sample : thread.samples) {
      if (sample.key.kind != Kind::kSync) continue;
      AddSample(sample, stacks.NumberOf(sample.key.stack, process),
                uses[PROFD_SYNC_PLACE(sample.key.argument)]);
    }
  }
  std::vector<std::pair<uint64_t, const Use*>> order;
  order.reserve(uses.size());
  for (const auto& [place, use] : uses) order.emplace_back(place, &use);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(b.second->total_ns, a.first) < std::pair(a.second->total_ns, b.first);
  });
  uint64_t left_out = 0;
  int64_t left_out_ns = 0;
  for (size_t i = 0; i < order.size(); i++) {
    const auto& [place, use] = order[i];
    if (i < kMostSyncs) {
      FillSync({.argument = place, .kind = Kind::kSync}, *use, objects, out->add_syncs());
    } else {
      left_out += use->latencies.count();
      left_out_ns = WrappingAdd(left_out_ns, use->total_ns);
    }
  }
  out->set_syncs_left_out(left_out);
  out->set_syncs_left_out_ns(left_out_ns);
}

}  // namespace profd
