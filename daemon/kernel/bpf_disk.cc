// Disk requests: the programs at the block layer's tracepoints, and what they count.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bpf/abi.h"
#include "bpf/profd.skel.h"
#include "daemon/kernel/bpf_kernel.h"
#include "daemon/kernel/epoch.h"
#include "daemon/kernel/load.h"
#include "daemon/kernel/tables.h"

namespace profd {
namespace {

absl::StatusOr<std::vector<UniqueLink>> AttachPrograms(std::span<bpf_program* const> programs) {
  std::vector<UniqueLink> links;
  for (const bpf_program* program : programs) {
    UniqueLink link(bpf_program__attach(program));
    if (!link) return LoadError(absl::StrCat("attach ", bpf_program__name(program)).c_str(), errno);
    links.push_back(std::move(link));
  }
  return links;
}

}  // namespace

absl::Status BpfKernel::SetDisk(uint32_t one_in) {
  if (one_in == 0) {
    disk_links_.clear();
    return absl::OkStatus();
  }
  profd_bpf* s = skeleton_.get();
  s->bss->disk_stack_one_in = one_in;
  if (disk_on()) return absl::OkStatus();
  // Their completions came by while nobody looked.
  RETURN_IF_ERROR(
      (EmptyTable<uint64_t, profd_disk_request>(bpf_map__fd(s->maps.disk_requests)).status()));
  RETURN_IF_ERROR(
      (EmptyTable<uint32_t, profd_disk_flight>(bpf_map__fd(s->maps.disk_flights)).status()));
  RETURN_IF_ERROR(
      (EmptyTable<uint64_t, profd_open_sync>(bpf_map__fd(s->maps.open_syncs)).status()));
  RETURN_IF_ERROR((EmptyTable<uint64_t, uint32_t>(bpf_map__fd(s->maps.synced_files)).status()));
  // The begin of requests last: the others do nothing without it.
  ASSIGN_OR_RETURN(disk_links_,
                   AttachPrograms(std::array{s->progs.on_disk_completion, s->progs.on_disk_merge,
                                             s->progs.on_disk_growth, s->progs.on_disk_issue,
                                             s->progs.on_disk_request}));
  AttachSyncs();
  return absl::OkStatus();
}

void BpfKernel::AttachSyncs() {
  const profd_bpf* s = skeleton_.get();
  syncs_note_ = refusal(KernelLayer::kSync);
  absl::StatusOr<std::vector<UniqueLink>> links = absl::UnavailableError(syncs_note_);
  if (syncs_note_.empty() && HasSyncCalls()) links = AttachPrograms(SyncCallPrograms(s));
  if (syncs_note_.empty() && !links.ok()) {
    links = AttachPrograms(std::array{s->progs.on_ext4_sync_end, s->progs.on_ext4_sync});
    syncs_note_ = "this kernel shows file syncs of ext4 only";
  }
  if (links.ok()) {
    std::move(links->begin(), links->end(), std::back_inserter(disk_links_));
  } else {
    syncs_note_ = absl::StrCat("without file syncs: ", std::string(links.status().message()));
  }
}

absl::StatusOr<std::vector<DiskEntry>> BpfKernel::DrainDisk() {
  profd_bpf* s = skeleton_.get();
  const int maps[2] = {bpf_map__fd(s->maps.disk_even), bpf_map__fd(s->maps.disk_odd)};
  const auto before = ChangeEpoch(s->bss->disk_epoch, s->bss->disk_counting);
  if (!before) return std::vector<DiskEntry>();
  ASSIGN_OR_RETURN(std::vector<DiskEntry> entries,
                   (EmptyTable<profd_disk_key, profd_disk_value>(maps[*before])));
  ASSIGN_OR_RETURN(const auto flights, (ReadTable<uint32_t, profd_disk_flight>(
                                           bpf_map__fd(s->maps.disk_flights), PROFD_DISK_DEVICES)));
  const uint32_t drain = s->bss->disk_drain++;
  for (const auto& [device, flight] : flights) {
    if (flight.peak >> 32 != drain) continue;  // no request since the last drain
    const uint64_t most =
        std::min<uint64_t>(static_cast<uint32_t>(flight.peak), PROFD_DISK_MOST_IN_FLIGHT);
    entries.push_back({{.thread_id = flight.thread_id,
                        .stack = 0,
                        .argument = uint64_t{device} << 32 | PROFD_DISK_PEAK | most},
                       {}});
  }
  return entries;
}

profd_disk_cost BpfKernel::DiskCost() const {
  return SumPerCpu<profd_disk_cost>(bpf_map__fd(skeleton_->maps.disk_cost), 0,
                                    [](profd_disk_cost& sum, const profd_disk_cost& v) {
                                      sum.requests += v.requests;
                                      sum.ns += v.ns;
                                      sum.walks += v.walks;
                                      sum.walk_ns += v.walk_ns;
                                      sum.done_ns += v.done_ns;
                                    });
}

}  // namespace profd
