#include "daemon/probes/live_objects.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bpf/abi.h"
#include "daemon/probes/jemalloc_settings.h"

namespace profd {
namespace {

std::vector<ProbePlace> PlacesOf(const SampledObjects& objects, WatchId module) {
  const auto id = static_cast<uint64_t>(module);
  const profd_live_place born = objects.is_5_2 ? PROFD_LIVE_BORN_5_2 : PROFD_LIVE_BORN_5_3;
  const profd_live_place gone = objects.is_5_2 ? PROFD_LIVE_GONE_5_2 : PROFD_LIVE_GONE_5_3;
  return {{.offset = objects.born + objects.born_point.skip,
           .cookie = PROFD_PROBE_COOKIE(born, objects.born_point.stepped, id)},
          {.offset = objects.gone + objects.gone_point.skip,
           .cookie = PROFD_PROBE_COOKIE(gone, objects.gone_point.stepped, id)}};
}

}  // namespace

absl::Status LiveSettings::Read(const ProbedModule& where) {
  const auto& [pid, module] = where;
  const std::optional<JemallocInfo> info = modules_->AllocatorIn(module);
  if (!info) return absl::NotFoundError("no allocator is known of the module");
  ASSIGN_OR_RETURN(const UniqueFd file, modules_->FileToProbe(module));
  const JemallocSettings settings = ReadJemallocSettings(pid, file.get(), *info);
  std::string note = DescribeMissing(settings, *info);
  if (!settings.profiling.value_or(true)) return absl::FailedPreconditionError(note);
  absl::MutexLock lock(&mutex_);
  said_[where] = {.sample_bytes = uint64_t{1} << settings.lg_sample, .note = std::move(note)};
  return absl::OkStatus();
}

LiveSettings::Said LiveSettings::Of(const ProbedModule& where) const {
  absl::MutexLock lock(&mutex_);
  const auto at = said_.find(where);
  return at == said_.end() ? Said() : at->second;
}

void LiveSettings::Forget(int32_t pid) {
  absl::MutexLock lock(&mutex_);
  EraseProcess(pid, said_);
}

void LiveSettings::KeepOnly(const std::set<int32_t>& pids) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(said_, [&](const auto& entry) { return !pids.contains(entry.first.first); });
}

void LiveObjects::Want(const ProbedModule& where, const JemallocInfo& info) {
  const auto [at, is_new] = modules_.try_emplace(where.second);
  WantedProbes& wanted = at->second;
  if (is_new) {
    wanted.looks_first = true;
    wanted.why_none = info.objects.note;
    if (info.objects.born != 0) {
      wanted.places =
          std::make_shared<const std::vector<ProbePlace>>(PlacesOf(info.objects, where.second));
    }
  }
  reconciler_->Want(KeyOf(ProbeSet::kLive, where), wanted);
}

void LiveObjects::Unwant(const ProbedModule& where) {
  reconciler_->Unwant(KeyOf(ProbeSet::kLive, where));
}

std::optional<LiveSampling> LiveObjects::SourceOf(const ProbedModule& where) const {
  const std::optional<ProbeState> state = reconciler_->StateOf(KeyOf(ProbeSet::kLive, where));
  if (!state || state->since_ns == 0) return std::nullopt;
  return LiveSampling{.since_ns = state->since_ns,
                      .sample_bytes = settings_->Of(where).sample_bytes};
}

std::map<ProbedModule, LiveSampling> LiveObjects::Sources() const {
  std::map<ProbedModule, LiveSampling> sources;
  reconciler_->ForEach(ProbeSet::kLive, [&](const ProbeKey& key, const ProbeState& state) {
    if (state.since_ns == 0) return;
    const ProbedModule where(key.pid, key.module);
    sources.emplace(where, LiveSampling{.since_ns = state.since_ns,
                                        .sample_bytes = settings_->Of(where).sample_bytes});
  });
  return sources;
}

std::string LiveObjects::NoteOf(const ProbedModule& where) const {
  const std::optional<ProbeState> state = reconciler_->StateOf(KeyOf(ProbeSet::kLive, where));
  if (!state) return "";
  if (state->failure.empty()) return settings_->Of(where).note;
  // A failure that is not retried is the result of Read.
  if (state->next_try_ns == INT64_MAX) return state->failure;
  return absl::StrCat("the live heap is not known: ", state->failure);
}

}  // namespace profd
