#include "daemon/service/disk_use.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bpf/abi.h"
#include "daemon/base/wrapping.h"
#include "daemon/profile/profile.h"
#include "daemon/service/latencies.h"
#include "daemon/service/messages.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr std::array<const char*, PROFD_DISK_OPERATIONS> kOperations = {"read", "write", "flush",
                                                                        "discard", "other"};
constexpr size_t kMostDeviceName = 64;

struct Use {
  int64_t bytes = 0;
  int64_t total_ns = 0;
  int64_t queue_ns = 0;
  int64_t sequential_bytes = 0;
  uint64_t sequential = 0;
  Latencies latencies;
};

// Of a device.
struct Flight {
  int64_t service_ns = 0;
  uint64_t most = 0;
};

uint32_t Major(uint32_t device) { return device >> PROFD_DISK_MINOR_BITS; }
uint32_t Minor(uint32_t device) { return device & ((1U << PROFD_DISK_MINOR_BITS) - 1); }

const char* OperationName(uint64_t argument) {
  return kOperations[std::min<size_t>(PROFD_DISK_OPERATION(argument), PROFD_DISK_OTHER)];
}

void AddSample(const Sample& sample, Use& use) {
  const bool sequential = (sample.key.argument & PROFD_DISK_SEQUENTIAL) != 0;
  if (sample.key.kind == Kind::kDiskBytes) {
    use.bytes = WrappingAdd(use.bytes, sample.weight);
    if (sequential) use.sequential_bytes = WrappingAdd(use.sequential_bytes, sample.weight);
  }
  if (sample.key.kind == Kind::kDiskQueue) use.queue_ns = WrappingAdd(use.queue_ns, sample.weight);
  if (sample.key.kind != Kind::kDisk) return;
  use.total_ns = WrappingAdd(use.total_ns, sample.weight);
  if (sequential) use.sequential += Count(sample.ticks);
  use.latencies.Add(PROFD_DISK_BUCKET(sample.key.argument), sample.ticks);
}

void AddToFlight(const Sample& sample, Flight& flight) {
  if (sample.key.kind == Kind::kDisk) {
    flight.service_ns = WrappingAdd(flight.service_ns, sample.weight);
  }
  if (sample.key.kind == Kind::kDiskQueue) {
    flight.service_ns = WrappingSubtract(flight.service_ns, sample.weight);
  }
}

bool IsPeak(const Sample& sample) { return (sample.key.argument & PROFD_DISK_PEAK) != 0; }

void FillDisk(uint64_t place, const Use& use, DiskNames& names, v1::DiskUse* out) {
  const uint32_t device = PROFD_DISK_DEVICE(place);
  out->set_device(names.NameOf(device));
  out->set_major(Major(device));
  out->set_minor(Minor(device));
  out->set_operation(OperationName(place));
  out->set_requests(use.latencies.count());
  out->set_bytes(use.bytes);
  out->set_queue_ns(use.queue_ns);
  out->set_service_ns(WrappingSubtract(use.total_ns, use.queue_ns));
  use.latencies.Fill(out);
  out->set_sequential_requests(use.sequential);
  out->set_sequential_bytes(use.sequential_bytes);
}

void FillFlight(uint32_t device, const Flight& flight, int64_t watched_ns, DiskNames& names,
                v1::DiskFlight* out) {
  out->set_device(names.NameOf(device));
  out->set_major(Major(device));
  out->set_minor(Minor(device));
  if (watched_ns > 0) {
    out->set_mean(static_cast<double>(flight.service_ns) / static_cast<double>(watched_ns));
  }
  out->set_most(flight.most);
}

}  // namespace

const std::string& DiskNames::NameOf(uint32_t device) {
  const auto [it, fresh] = names_.try_emplace(device);
  if (!fresh) return it->second;
  const std::string number = absl::StrCat(Major(device), ":", Minor(device));
  std::error_code error;
  const std::filesystem::path target =
      std::filesystem::read_symlink(std::filesystem::path(root_) / number, error);
  const std::string name = CleanText(target.filename().string(), kMostDeviceName);
  it->second = error || name.empty() ? number : name;
  return it->second;
}

std::string DiskNames::Describe(uint64_t argument) {
  return absl::StrCat(NameOf(PROFD_DISK_DEVICE(argument)), " ", OperationName(argument));
}

void FillDisks(const MergedProfile& profile, DiskNames& names, v1::Profile* out) {
  std::map<uint64_t, Use> uses;  // by PROFD_DISK_PLACE
  std::map<uint32_t, Flight> flights;
  for (const MergedThread& thread : profile.threads) {
    for (const Sample& sample : thread.samples) {
      if (!IsDisk(sample.key.kind)) continue;
      const uint64_t argument = sample.key.argument;
      Flight& flight = flights[PROFD_DISK_DEVICE(argument)];
      if (IsPeak(sample)) {
        flight.most = std::max(flight.most, argument & PROFD_DISK_MOST_IN_FLIGHT);
        continue;
      }
      AddToFlight(sample, flight);
      AddSample(sample, uses[PROFD_DISK_PLACE(argument)]);
    }
  }
  std::vector<std::pair<uint64_t, const Use*>> order;
  for (const auto& [place, use] : uses) order.emplace_back(place, &use);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second->total_ns > b.second->total_ns;
  });
  for (const auto& [place, use] : order) FillDisk(place, *use, names, out->add_disks());
  for (const auto& [device, flight] : flights) {
    FillFlight(device, flight, profile.disk_ns, names, out->add_disk_flights());
  }
}

}  // namespace profd
