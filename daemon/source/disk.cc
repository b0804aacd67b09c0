#include "daemon/source/disk.h"

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace profd {
namespace {

// Of one stack: several latencies become one sample where they do not matter.
struct Amount {
  int64_t weight = 0;
  int64_t requests = 0;
};
using Amounts = absl::flat_hash_map<SampleKey, Amount>;

void Add(const profd_disk_key& from, uint64_t argument, Kind kind, uint64_t weight,
         uint64_t requests, Amounts& amounts) {
  Amount& amount = amounts[{.thread = ThreadId{from.thread_id},
                            .stack = StackId{from.stack},
                            .argument = argument,
                            .kind = kind}];
  amount.weight += static_cast<int64_t>(weight);
  amount.requests += static_cast<int64_t>(requests);
}

}  // namespace

absl::Status DiskSource::Attach() {
  // Once, to learn whether it works. Apply turns it on when there are targets.
  RETURN_IF_ERROR(kernel_->SetDisk(knob_.OneInAt(0)));
  return kernel_->SetDisk(0);
}

void DiskSource::Detach() {
  detached_ = true;
  (void)kernel_->SetDisk(0);  // cannot fail: it only detaches programs
}

absl::Status DiskSource::Apply() {
  detached_ = false;
  failed_ = kernel_->SetDisk(knob_.OneInAt(knob_.level()));
  return failed_;
}

absl::Status DiskSource::Drain(ProfileDelta& delta) {
  delta.disk_on = kernel_->disk_on();
  ASSIGN_OR_RETURN(const std::vector<DiskEntry> entries, kernel_->DrainDisk());
  Amounts amounts;
  for (const auto& [key, value] : entries) {
    if ((key.argument & PROFD_OBJECT_BIT) != 0) {
      Add(key, key.argument, Kind::kSync, value.service_ns, value.requests, amounts);
      continue;
    }
    if ((key.argument & PROFD_DISK_PEAK) != 0) {
      Add(key, key.argument, Kind::kDiskQueue, 0, 0, amounts);
      continue;
    }
    // Only the time tells of latencies.
    const uint64_t place = key.argument - PROFD_DISK_BUCKET(key.argument);
    Add(key, key.argument, Kind::kDisk, value.queue_ns + value.service_ns, value.requests, amounts);
    Add(key, place, Kind::kDiskQueue, value.queue_ns, value.requests, amounts);
    Add(key, place, Kind::kDiskBytes, value.bytes, value.requests, amounts);
  }
  for (const auto& [key, amount] : amounts) {
    delta.samples.push_back({.key = key, .weight = amount.weight, .ticks = amount.requests});
  }
  return absl::OkStatus();
}

void DiskSource::Costs(std::vector<CostRow>& rows) const {
  const profd_disk_cost cost = kernel_->DiskCost();
  rows.push_back({.account = "disk",
                  .payer = Payer::kTarget,
                  .ns = static_cast<int64_t>(DiskKnob::InPathNs(cost)),
                  .events = static_cast<int64_t>(cost.requests)});
}

void DiskSource::Learn(const Period& period) {
  knob_.Learn({.seconds = period.seconds, .on = kernel_->disk_on(), .cost = kernel_->DiskCost()});
}

std::optional<LayerState> DiskSource::Status() const {
  LayerState layer = {.name = "disk", .on = kernel_->disk_on(), .note = {}};
  if (detached_) {
    layer.note = kPausedNote;
  } else if (!failed_.ok()) {
    layer.note = std::string(failed_.message());
  } else if (!layer.on) {
    layer.note = kShedNote;
  } else {
    layer.note = kernel_->SyncsNote();
  }
  return layer;
}

}  // namespace profd
