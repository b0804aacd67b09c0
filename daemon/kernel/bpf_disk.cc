// Disk requests: the programs at the block layer's tracepoints, and what they count.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cerrno>
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
  std::vector<UniqueLink> links;
  // The begin of requests last: the others do nothing without it.
  for (const bpf_program* program : {s->progs.on_disk_completion, s->progs.on_disk_merge,
                                     s->progs.on_disk_issue, s->progs.on_disk_request}) {
    UniqueLink link(bpf_program__attach(program));
    if (!link) return LoadError(absl::StrCat("attach ", bpf_program__name(program)).c_str(), errno);
    links.push_back(std::move(link));
  }
  disk_links_ = std::move(links);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<DiskEntry>> BpfKernel::DrainDisk() {
  profd_bpf* s = skeleton_.get();
  const int maps[2] = {bpf_map__fd(s->maps.disk_even), bpf_map__fd(s->maps.disk_odd)};
  const auto before = ChangeEpoch(s->bss->disk_epoch, s->bss->disk_counting);
  if (!before) return std::vector<DiskEntry>();
  return EmptyTable<profd_disk_key, profd_disk_value>(maps[*before]);
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
