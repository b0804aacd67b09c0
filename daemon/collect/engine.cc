#include "daemon/collect/engine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/source/off.h"

namespace profd {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// The ring is read so often at least. With ticks the sampler has it read sooner when there are
// news, and where there were some, more is to be done soon: modules are read, probes wait to be put
// in.
constexpr int64_t kPollInterval = kSecond / 10;
constexpr int64_t kCalmPollInterval = kSecond / 4;
constexpr int64_t kLivelyPollInterval = kSecond / 20;
constexpr int64_t kLively = kSecond;  // for so long after news
constexpr int64_t kPausedPollInterval = kSecond / 4;

}  // namespace

Engine::Engine(EngineOptions options, const EngineParts& parts)
    : options_(std::move(options)),
      parts_(parts),
      cpu_(parts.clock),
      ring_(parts.kernel, parts.clock),
      targets_(parts.kernel, options_.selectors),
      context_{.kernel = parts.kernel,
               .clock = parts.clock,
               .cpu = &cpu_,
               .cpu_use = parts.cpu_use,
               .memory = parts.memory,
               .targets = &targets_,
               .ring = &ring_},
      sources_(MakeSources(options_.sources, context_, options_.seed)),
      steering_(options_.sources.budget, parts.clock, parts.cpu_use, &sources_),
      publisher_(parts.kernel, parts.clock, &targets_, &sources_, &steering_, options_.missing),
      drainer_(context_, &sources_, &steering_, parts.store) {}

void Engine::AttachSources() {
  for (std::unique_ptr<Source>& source : sources_.all) {
    const absl::Status status = source->Attach();
    if (status.ok()) {
      ring_.Add(source.get());
      continue;
    }
    source->Detach();
    const std::optional<LayerState> layer = source->Status();
    const std::string name = layer ? layer->name : source->name();
    LogWarning("no ", std::string(name), ": ", status.message());
    lost_.push_back(
        std::exchange(source, std::make_unique<OffSource>(name, std::string(status.message()))));
  }
  steering_.AddKnobs();
}

absl::Status Engine::Start() {
  AttachSources();
  RETURN_IF_ERROR(targets_.MarkRunning());
  RETURN_IF_ERROR(sources_.modules->FindFiles());
  for (const auto& source : sources_.all) source->Calibrate();
  // The first slice begins here.
  drainer_.Begin(sources_.threads->Open());
  publisher_.Begin();
  Publish();
  return absl::OkStatus();
}

absl::Status Engine::AwaitFiles(absl::FunctionRef<bool()> go_on) {
  knew_files_ = sources_.modules->AwaitFiles([this] { drainer_.Follow(); }, go_on);
  // Before the layers come on: what a drain says of a layer holds for all of its time.
  const absl::Status drained = Drain(Judge::kNot);
  started_ = true;
  drainer_.CountFailure(steering_.Apply());
  Publish();
  steering_.Begin(drainer_.drained_ns(), drainer_.cpu_ns());
  next_drain_ns_ = parts_.clock->MonotonicNs() + steering_.drain_interval_ns();
  return drained;
}

int64_t Engine::next_ns() const {
  // Lifecycle events are still recorded.
  if (paused_) return ring_.polled_ns() + kPausedPollInterval;
  int64_t next = std::min(next_drain_ns_, ring_.polled_ns() + PollInterval());
  for (const auto& source : sources_.all) next = std::min(next, source->next_ns());
  return next;
}

int64_t Engine::PollInterval() const {
  if (sources_.waits == nullptr) return kPollInterval;
  return ring_.polled_ns() < lively_until_ns_ ? kLivelyPollInterval : kCalmPollInterval;
}

void Engine::StepSources() {
  if (parts_.kernel->RingHasNews()) lively_until_ns_ = parts_.clock->MonotonicNs() + kLively;
  ring_.Poll();
  for (const auto& source : sources_.all) source->Step();
}

bool Engine::IsBehind() const {
  const bool rare = steering_.drains_are_rare();
  return std::any_of(sources_.all.begin(), sources_.all.end(),
                     [rare](const auto& source) { return source->WantsDrain(rare); });
}

void Engine::Publish() {
  using Phase = Publisher::Phase;
  const Phase phase = !started_ ? Phase::kStarting : paused_ ? Phase::kPaused : Phase::kRunning;
  state_ = std::make_shared<const CollectorState>(publisher_.Publish(drainer_.totals(), phase));
}

bool Engine::Round(bool asked, absl::Status* drained) {
  bool overrun = false, due = false;
  if (paused_) {
    ring_.Poll();
  } else {
    StepSources();
    overrun = steering_.IsOverrun();
    due = overrun || IsBehind() || parts_.clock->MonotonicNs() >= next_drain_ns_;
  }
  if (!asked && !due) return false;
  *drained = Drain(overrun ? Judge::kAtOnce : Judge::kWhenDue);
  next_drain_ns_ = parts_.clock->MonotonicNs() + steering_.drain_interval_ns();
  return true;
}

absl::Status Engine::Drain(Judge judge) {
  ProfileDelta delta = drainer_.Drain();
  if (judge == Judge::kWhenDue && steering_.IsDue(delta.end_ns)) judge = Judge::kAtOnce;
  if (!paused_ && judge == Judge::kAtOnce) {
    drainer_.CountFailure(steering_.Govern(delta.end_ns, drainer_.cpu_ns()));
  }
  Publish();
  const absl::Status status = drainer_.HandOver(std::move(delta));
  if (!status.ok()) LogError("drain failed: ", status.ToString());
  return status;
}

void Engine::SetPaused(bool paused) {
  if (paused == paused_) return;
  paused_ = paused;
  if (paused) {
    for (const auto& source : sources_.all) source->Detach();
  } else {
    // A pause is no load to judge by.
    steering_.Begin(drainer_.drained_ns(), drainer_.cpu_ns());
    drainer_.CountFailure(steering_.Apply());
  }
  LogInfo(paused ? "paused" : "resumed");
  Publish();
}

}  // namespace profd
