#include "daemon/service/disk_use.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bpf/abi.h"
#include "daemon/base/wrapping.h"
#include "daemon/profile/profile.h"
#include "daemon/service/text.h"

namespace profd {
namespace {

constexpr std::array<const char*, PROFD_DISK_OPERATIONS> kOperations = {"read", "write", "flush",
                                                                        "discard", "other"};
constexpr size_t kMostDeviceName = 64;
constexpr size_t kLastBucket = 62;  // 2^63 is too much for a time

struct Use {
  int64_t bytes = 0;
  int64_t total_ns = 0;
  int64_t queue_ns = 0;
  std::array<uint64_t, PROFD_DISK_BUCKETS> latencies{};

  uint64_t requests() const {
    return std::accumulate(latencies.begin(), latencies.end(), uint64_t{0});
  }
};

uint32_t Major(uint32_t device) { return device >> PROFD_DISK_MINOR_BITS; }
uint32_t Minor(uint32_t device) { return device & ((1U << PROFD_DISK_MINOR_BITS) - 1); }

const char* OperationName(uint64_t argument) {
  return kOperations[std::min<size_t>(PROFD_DISK_OPERATION(argument), PROFD_DISK_OTHER)];
}

int64_t UpperEnd(size_t bucket) { return int64_t{1} << (std::min(bucket, kLastBucket - 1) + 1); }

// The upper end of the bucket with the request that `part` of all do not take longer than.
int64_t Quantile(const Use& use, double part) {
  const auto all = static_cast<double>(use.requests());
  uint64_t sum = 0;
  for (size_t i = 0; i < use.latencies.size(); i++) {
    sum += use.latencies[i];
    if (sum > 0 && static_cast<double>(sum) >= part * all) return UpperEnd(i);
  }
  return 0;
}

void AddSample(const Sample& sample, Use& use) {
  if (sample.key.kind == Kind::kDiskBytes) use.bytes = WrappingAdd(use.bytes, sample.weight);
  if (sample.key.kind == Kind::kDiskQueue) use.queue_ns = WrappingAdd(use.queue_ns, sample.weight);
  if (sample.key.kind != Kind::kDisk) return;
  use.total_ns = WrappingAdd(use.total_ns, sample.weight);
  const uint32_t bucket =
      std::min<uint32_t>(PROFD_DISK_BUCKET(sample.key.argument), PROFD_DISK_BUCKETS - 1);
  use.latencies[bucket] += static_cast<uint64_t>(std::max<int64_t>(sample.ticks, 0));
}

void FillDisk(uint64_t place, const Use& use, DiskNames& names, v1::DiskUse* out) {
  const uint32_t device = PROFD_DISK_DEVICE(place);
  out->set_device(names.NameOf(device));
  out->set_major(Major(device));
  out->set_minor(Minor(device));
  out->set_operation(OperationName(place));
  out->set_requests(use.requests());
  out->set_bytes(use.bytes);
  out->set_queue_ns(use.queue_ns);
  out->set_service_ns(WrappingSubtract(use.total_ns, use.queue_ns));
  const auto last = std::find_if(use.latencies.rbegin(), use.latencies.rend(),
                                 [](uint64_t count) { return count > 0; });
  out->mutable_latencies()->Add(use.latencies.begin(), last.base());
  out->set_p50_ns(Quantile(use, 0.5));
  out->set_p99_ns(Quantile(use, 0.99));
  out->set_max_ns(Quantile(use, 1));
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

void FillDisks(const MergedProfile& profile, DiskNames& names,
               google::protobuf::RepeatedPtrField<v1::DiskUse>* out) {
  std::map<uint64_t, Use> uses;  // by argument without the bucket
  for (const MergedThread& thread : profile.threads) {
    for (const Sample& sample : thread.samples) {
      if (!IsDisk(sample.key.kind)) continue;
      AddSample(sample, uses[sample.key.argument - PROFD_DISK_BUCKET(sample.key.argument)]);
    }
  }
  std::vector<std::pair<uint64_t, const Use*>> order;
  for (const auto& [place, use] : uses) order.emplace_back(place, &use);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second->total_ns > b.second->total_ns;
  });
  for (const auto& [place, use] : order) FillDisk(place, *use, names, out->Add());
}

}  // namespace profd
