#include "client/symbolize/late_rules.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "client/answer/reason.h"
#include "client/answer/string_table.h"
#include "daemon/profile/profile.h"
#include "daemon/service/idle.h"
#include "daemon/service/lock_kind.h"
#include "daemon/service/named_frame.h"
#include "daemon/service/object_turn.h"
#include "daemon/service/rule_frames.h"
#include "daemon/service/waker_frames.h"

namespace profctl {
namespace {

constexpr std::string_view kIdleKey = "idle";
constexpr std::string_view kTaskKey = "task";
constexpr std::string_view kLockKey = "lock";
constexpr std::string_view kLockKindKey = "lock_kind";
// The name of a lock of which only the function that wanted it is known.
constexpr std::string_view kLockOf = "lock of ";
constexpr std::string_view kOffCpu = "offcpu";

profd::FrameKind KindOf(profd::v1::FrameKind kind) {
  switch (kind) {
    case profd::v1::FRAME_KIND_KERNEL:
      return profd::FrameKind::kKernel;
    case profd::v1::FRAME_KIND_LIBC:
      return profd::FrameKind::kLibc;
    case profd::v1::FRAME_KIND_RUNTIME:
      return profd::FrameKind::kRuntime;
    case profd::v1::FRAME_KIND_SYNTHETIC:
      return profd::FrameKind::kSynthetic;
    default:
      return profd::FrameKind::kApplication;
  }
}

// None for what is no wait.
std::optional<profd::Reason> WaitOf(profd::v1::Reason reason) {
  if (reason == profd::v1::REASON_UNSPECIFIED || reason == profd::v1::REASON_ON_CPU) {
    return std::nullopt;
  }
  const std::string_view name = DescribeReason(reason).name;
  for (size_t i = 0; i < profd::kReasonCount; ++i) {
    const auto wait = static_cast<profd::Reason>(i);
    if (profd::ReasonName(wait) == name) return wait;
  }
  return std::nullopt;
}

const profd::v1::Function& FunctionOf(const profd::v1::Profile& message,
                                      const profd::v1::Line& line) {
  return message.functions(static_cast<int>(line.function()));
}

const profd::v1::Function& OwnFunction(const profd::v1::Profile& message, uint32_t index) {
  const profd::v1::Location& location = message.locations(static_cast<int>(index));
  return FunctionOf(message, location.lines(location.lines_size() - 1));
}

const std::string& Text(const profd::v1::Profile& message, uint32_t index) {
  return message.strings(static_cast<int>(index));
}

// How many locations at the start of a stack are those of a waker.
int WakerLocations(const profd::v1::Profile& message, const profd::v1::Stack& stack) {
  for (int i = stack.locations_size() - 1; i >= 0; --i) {
    const profd::v1::Function& function = OwnFunction(message, stack.locations(i));
    if (function.kind() == profd::v1::FRAME_KIND_SYNTHETIC &&
        Text(message, function.name()) == profd::kWakerSeparator) {
      return i + 1;
    }
  }
  return 0;
}

std::vector<profd::NamedFrame> FramesOf(const profd::v1::Profile& message) {
  std::vector<profd::NamedFrame> frames;
  for (const profd::v1::Location& location : message.locations()) {
    profd::NamedFrame& frame = frames.emplace_back();
    frame.module = Text(message, message.mappings(static_cast<int>(location.mapping())).file());
    for (int i = 0; i + 1 < location.lines_size(); ++i) {
      const profd::v1::Function& inlined = FunctionOf(message, location.lines(i));
      profd::InlinedFunction& added = frame.inlined.emplace_back();
      added.function = Text(message, inlined.name());
      added.kind = KindOf(inlined.kind());
    }
    const profd::v1::Function& own = FunctionOf(message, location.lines(location.lines_size() - 1));
    frame.function = Text(message, own.name());
    frame.kind = KindOf(own.kind());
  }
  return frames;
}

class Judge {
 public:
  explicit Judge(profd::v1::Profile* message)
      : message_(message),
        named_(FramesOf(*message)),
        frames_(named_),
        idle_(frames_.texts()),
        lock_(frames_.texts(), &idle_),
        origin_(frames_.texts()),
        strings_(message) {}

  void JudgeStacks(const std::vector<bool>& changed) {
    verdicts_.resize(static_cast<size_t>(message_->stacks_size()));
    for (int i = 1; i < message_->stacks_size(); ++i) {
      profd::v1::Stack& stack = *message_->mutable_stacks(i);
      const bool touched = std::any_of(stack.locations().begin(), stack.locations().end(),
                                       [&](uint32_t location) { return changed[location]; });
      if (!touched) continue;
      Verdict& judged = verdicts_[static_cast<size_t>(i)].emplace();
      const int begin = WakerLocations(*message_, stack);
      judged.woken = begin > 0;
      const auto own = std::span<const uint32_t>(stack.locations().data(),
                                                 static_cast<size_t>(stack.locations_size()))
                           .subspan(static_cast<size_t>(begin));
      if (own.empty()) continue;
      const profd::RuleFrames::Stack code = frames_.StackOf(own, true);
      profd::StackIdleness& idle = judged.idle;
      idle = {.contended = idle_.IsContended(code.texts), .task = idle_.TaskOf(code.texts)};
      if (!idle.contended) {
        idle.kind = idle_.OfStack(frames_.StackOf(own, false).texts);
        if (idle.kind.empty()) idle.kind = idle_.OfStack(code.texts);
      }
      judged.lock_kind = lock_.OfStack(code.texts).kind;
      const profd::RuleFrames::Place place = code.places[origin_.Of(code.texts)];
      stack.set_origin(static_cast<uint32_t>(begin) + place.frame);
      stack.set_origin_line(place.line);
    }
  }

  void JudgeSamples() {
    const auto& types = message_->sample_types();
    const auto offcpu =
        std::find_if(types.begin(), types.end(),
                     [](const profd::v1::SampleType& type) { return type.name() == kOffCpu; });
    for (profd::v1::Sample& sample : *message_->mutable_samples()) {
      const std::optional<profd::Reason> wait = WaitOf(sample.reason());
      const std::optional<Verdict>& verdict = verdicts_[sample.stack()];
      if (!wait || !verdict) continue;
      const profd::v1::Thread& thread = message_->threads(static_cast<int>(sample.threads(0)));
      const profd::v1::Process& process = message_->processes(static_cast<int>(thread.process()));
      const std::string idle(
          profd::IdleOfWait(*wait, verdict->idle, process.name(), thread.name(), TurnOf(sample)));
      const bool was = SetText(kIdleKey, idle, sample);
      SetMeaning(*verdict, *wait, idle, sample);
      if (was == !idle.empty() || offcpu == types.end()) continue;
      const auto type = static_cast<int>(offcpu - types.begin());
      MoveIdle(sample, (was ? -1 : 1) * std::max<int64_t>(sample.values(type), 0));
    }
  }

 private:
  struct Verdict {
    profd::StackIdleness idle;
    std::string_view lock_kind;
    bool woken = false;  // it begins with the stack of a waker
  };

  // Whose turn it was, as the daemon saw it.
  profd::ObjectTurn TurnOf(const profd::v1::Sample& sample) const {
    const profd::v1::Attribute* turn = Find(profd::kTurnKey, sample);
    return turn != nullptr ? profd::TurnOfName(Text(*message_, turn->text()))
                           : profd::ObjectTurn::kUnknown;
  }

  // What else the daemon says of waits by their stacks.
  void SetMeaning(const Verdict& verdict, profd::Reason wait, const std::string& idle,
                  profd::v1::Sample& sample) {
    if (verdict.woken || Find(kLockKey, sample) != nullptr) return;
    SetText(kTaskKey, idle.empty() ? std::string(verdict.idle.task) : "", sample);
    if (wait == profd::Reason::kLock) {
      SetText(kLockKindKey, std::string(verdict.lock_kind), sample);
    }
  }

  const std::string& KeyOf(const profd::v1::Attribute& attribute) const {
    return Text(*message_, attribute.key());
  }

  // The attribute of this key; null if the sample has none.
  const profd::v1::Attribute* Find(std::string_view key, const profd::v1::Sample& sample) const {
    for (const uint32_t index : sample.attributes()) {
      const profd::v1::Attribute& attribute = message_->attributes(static_cast<int>(index));
      if (KeyOf(attribute) == key) return &attribute;
    }
    return nullptr;
  }

  // Sets an attribute, or removes it if `text` is empty. Returns whether the sample had it before.
  bool SetText(std::string_view key, const std::string& text, profd::v1::Sample& sample) {
    bool was = false;
    auto& attributes = *sample.mutable_attributes();
    for (auto it = attributes.begin(); it != attributes.end();) {
      const profd::v1::Attribute& attribute = message_->attributes(static_cast<int>(*it));
      const bool mine = KeyOf(attribute) == key;
      was |= mine && attribute.text() != 0;
      it = mine ? attributes.erase(it) : it + 1;
    }
    if (!text.empty()) sample.add_attributes(TextAttribute(key, text));
    return was;
  }

  uint32_t TextAttribute(std::string_view key, const std::string& text) {
    const auto [it, fresh] = attributes_.try_emplace(
        std::pair(key, text), static_cast<uint32_t>(message_->attributes_size()));
    if (fresh) {
      profd::v1::Attribute* attribute = message_->add_attributes();
      attribute->set_key(strings_.Add(std::string(key)));
      attribute->set_text(strings_.Add(text));
    }
    return it->second;
  }

  // Adds to the idle time of a sample's threads. What each has of a merged sample is not known:
  // they get equal parts.
  void MoveIdle(const profd::v1::Sample& sample, int64_t time_ns) {
    const int64_t part = time_ns / sample.threads_size();
    for (const uint32_t index : sample.threads()) {
      profd::v1::Thread& thread = *message_->mutable_threads(static_cast<int>(index));
      thread.set_idle_ns(
          std::clamp<int64_t>(thread.idle_ns() + part, 0, std::max<int64_t>(thread.wall_ns(), 0)));
    }
  }

  profd::v1::Profile* const message_;
  const std::vector<profd::NamedFrame> named_;
  const profd::RuleFrames frames_;
  const profd::IdleRule idle_;
  const profd::LockRule lock_;
  const profd::OriginRule origin_;
  StringTable strings_;
  std::vector<std::optional<Verdict>> verdicts_;  // by stack; none: as before
  std::map<std::pair<std::string_view, std::string>, uint32_t> attributes_;  // by key and text
};

// As daemon/service/name_shares.h does.
void CountNames(profd::v1::Profile* message) {
  using Counts = std::map<profd::v1::NameSource, double>;
  std::vector<Counts> counts(static_cast<size_t>(message->stacks_size()));
  for (int i = 1; i < message->stacks_size(); ++i) {
    const profd::v1::Stack& stack = message->stacks(i);
    for (int k = WakerLocations(*message, stack); k < stack.locations_size(); ++k) {
      const profd::v1::Function& function = OwnFunction(*message, stack.locations(k));
      if (function.kind() != profd::v1::FRAME_KIND_KERNEL &&
          function.kind() != profd::v1::FRAME_KIND_SYNTHETIC) {
        counts[static_cast<size_t>(i)][function.found_by()] += 1;
      }
    }
  }
  message->clear_name_shares();
  for (int type = 0; type < message->sample_types_size(); ++type) {
    Counts divided;
    Counts touched;
    double all = 0;
    for (const profd::v1::Sample& sample : message->samples()) {
      const double weight = static_cast<double>(std::max<int64_t>(sample.weights(type), 0));
      const Counts& of_stack = counts[sample.stack()];
      if (weight == 0 || of_stack.empty()) continue;
      double frames = 0;
      for (const auto& [source, count] : of_stack) frames += count;
      all += weight;
      for (const auto& [source, count] : of_stack) {
        divided[source] += weight * count / frames;
        touched[source] += weight;
      }
    }
    for (const auto& [source, weight] : divided) {
      profd::v1::NameShare* share = message->add_name_shares();
      share->set_sample_type(static_cast<uint32_t>(type));
      share->set_source(source);
      share->set_share(weight / all);
      share->set_stacks(touched[source] / all);
    }
  }
}

// Labels of groups and places of locks.
void RenameTexts(const std::map<std::string, std::string>& renamed, profd::v1::Profile* message) {
  StringTable strings(message);
  for (profd::v1::Group& group : *message->mutable_groups()) {
    for (int i = 0; i < group.labels_size(); ++i) {
      if (message->group_by(i) != profd::v1::GROUP_KEY_FUNCTION) continue;
      const auto it = renamed.find(Text(*message, group.labels(i)));
      if (it != renamed.end()) group.set_labels(i, strings.Add(it->second));
    }
  }
  const auto rename_lock = [&](std::string* name) {
    if (!name->starts_with(kLockOf)) return false;
    const auto it = renamed.find(name->substr(kLockOf.size()));
    if (it == renamed.end()) return false;
    *name = std::string(kLockOf) + it->second;
    return true;
  };
  for (profd::v1::Attribute& attribute : *message->mutable_attributes()) {
    std::string text = Text(*message, attribute.text());
    if (Text(*message, attribute.key()) == kLockKey && rename_lock(&text)) {
      attribute.set_text(strings.Add(text));
    }
  }
  for (profd::v1::LockUse& lock : *message->mutable_locks()) {
    rename_lock(lock.mutable_name());
    for (auto* places : {lock.mutable_waiters(), lock.mutable_releasers()}) {
      for (profd::v1::LockPlace& place : *places) {
        const auto it = renamed.find(place.function());
        if (it != renamed.end()) place.set_function(it->second);
      }
    }
  }
}

}  // namespace

std::vector<bool> LocationsOfWakers(const profd::v1::Profile& message) {
  std::vector<bool> of_wakers(static_cast<size_t>(message.locations_size()));
  for (const profd::v1::Stack& stack : message.stacks()) {
    const int end = WakerLocations(message, stack);
    for (int i = 0; i < end; ++i) of_wakers[stack.locations(i)] = true;
  }
  return of_wakers;
}

void JudgeAnew(const std::vector<bool>& changed, const std::map<std::string, std::string>& renamed,
               profd::v1::Profile* message) {
  if (std::find(changed.begin(), changed.end(), true) == changed.end()) return;
  Judge judge(message);
  judge.JudgeStacks(changed);
  judge.JudgeSamples();
  CountNames(message);
  RenameTexts(renamed, message);
}

}  // namespace profctl
